"""What will a run cost? Teachers, records, epochs and queries give hours, store and memory; a run
checks the model.

The rates are measured first: on a GPU where there is one, else on one core. On a busy machine they
are too slow.

    python benchmarks/scale.py [--network cnn] [--shape 1 28 28]      the rates, checked on another
    size python benchmarks/scale.py --runs                                 and the cost of the
    papers' runs python benchmarks/scale.py --teachers 5000 --records 65000000 --epochs 60 --queries
    12000 --workers 16
"""

import argparse
import time
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from teachers import ensemble, random_rows

from nzc.training.trainer import TrainerSettings

GPU = torch.cuda.is_available()
#: Bytes of a private record in a folder of .npy files, while its rows are dealt.
FILED = 100
RUNS = {  # name: image shape, teachers, private records, epochs, public rows
    "MNIST": ((1, 28, 28), 250, 60_000, 60, 9_000),
    "SVHN with extra": ((3, 32, 32), 250, 604_388, 60, 10_000),
    "Glyph, small": ((1, 28, 28), 100, 60_000, 60, 12_000),
    "Glyph, the paper's": ((1, 28, 28), 5_000, 65_000_000, 60, 12_000),
}


@dataclass(frozen=True)
class Size:
    """The size of a run."""

    shape: tuple[int, ...]
    teachers: int
    records: int
    epochs: int
    queries: int

    @property
    def store(self) -> int:
        """Bytes of the stored predictions: one byte each, up to 256 classes."""
        return self.teachers * self.queries

    def memory(self, workers: int, filed: bool = False) -> int:
        """Return the bytes on a node beyond those of Python and torch, with so many cores or GPUs
        (docs/scale.md).

        Private rows that are `filed` stay in their file: each takes FILED bytes.
        """
        row, shard = prod(self.shape) + 8, self.records // self.teachers * prod(self.shape)
        rows = self.queries * row + self.records * (FILED if filed else row)
        return rows + workers * min(4, max(1, 2**22 // max(1, shard))) * shard * 9 + 3 * self.store


@dataclass(frozen=True)
class Rates:
    """Seconds of a fit, of the setup of a teacher, of a record in a pass, and of a prediction."""

    fit: float
    teacher: float
    record: float
    vote: float

    def seconds(self, size: Size, workers: int = 1) -> float:
        """Return the seconds of a run on so many workers, cores or GPUs, which all do the same
        share.
        """
        work = (
            size.teachers * self.teacher
            + size.records * size.epochs * self.record
            + size.store * self.vote
        )
        return self.fit + work / workers


def run(network: str, size: Size) -> float:
    """Train teachers on random images. Return the seconds until their predictions are there."""
    private, public = random_rows(size.records, size.shape), random_rows(size.queries, size.shape)
    options = {"network": network, "epochs": size.epochs, "parallel": None if GPU else 1}
    task = ensemble(private, public, size.teachers, **options)
    trainer = TrainerSettings(progress=False, accelerator=task.accelerator, devices=1)
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        task.settings.teach_all(task.splits, trainer, Path(folder))
        return time.perf_counter() - start


def measure(network: str, shape: tuple[int, ...], seconds: float) -> Rates:
    """Return each rate as the cost of one more of its kind, measured over about so many seconds."""
    tiny = Size(shape, 2, 480, 1, 1)
    run(network, tiny)
    base = run(network, tiny)

    def slope(steps: int, **more: int) -> float:
        """Return how much longer one more takes; `steps` grow until they take at least half of the
        seconds.
        """
        spent = (
            run(network, replace(tiny, **{key: steps + getattr(tiny, key) for key in more})) - base
        )
        if spent < seconds / 2:
            return slope(int(steps * min(50, max(2, seconds / max(spent, 0.01)))), **more)
        return spent / steps

    record = slope(4, epochs=1) / tiny.records
    vote = slope(500, queries=1) / tiny.teachers
    teacher = max(0.0, (run(network, replace(tiny, teachers=60)) - base) / 58)
    return Rates(
        max(0.0, base - tiny.teachers * teacher - tiny.records * record), teacher, record, vote
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", default="cnn", help="network of the teachers (default cnn)")
    parser.add_argument(
        "--shape", type=int, nargs="+", default=[1, 28, 28], help="shape of an image"
    )
    parser.add_argument(
        "--runs", action="store_true", help="also show the cost of the papers' runs"
    )
    for key in ("teachers", "records", "epochs", "queries"):
        parser.add_argument(
            f"--{key}", type=int, help="size of a run whose cost is shown; all four are needed"
        )
    parser.add_argument("--workers", type=int, default=1, help="cores, or GPUs")
    parser.add_argument(
        "--seconds", type=float, default=4, help="seconds over which a rate is measured (default 4)"
    )
    args = parser.parse_args()

    shape, size = tuple(args.shape), (args.teachers, args.records, args.epochs, args.queries)
    rates = measure(args.network, shape, args.seconds)
    device = torch.cuda.get_device_name() if GPU else "one core"
    print(
        f"{args.network} on {'×'.join(map(str, shape))}, {device}: "
        f"{1 / rates.record:,.0f} records in passes, or {1 / rates.vote:,.0f} predictions, "
        f"per second; {rates.teacher:.3f} s per teacher, {rates.fit:.1f} s per fit"
    )
    epochs = max(
        1, round(2.5 * args.seconds / rates.record / 2880)
    )  # a size that was not used for any rate
    other = Size(shape, 12, 2880, epochs, max(1, round(1.25 * args.seconds / rates.vote / 12)))
    predicted = rates.seconds(other)
    measured = run(args.network, other)
    print(
        f"12 teachers × 240 records × {other.epochs} passes, {other.queries:,} public rows: "
        f"{predicted:.1f} s predicted, {measured:.1f} s measured"
    )
    runs = {
        name: Size(*numbers) for name, numbers in RUNS.items() if args.runs and numbers[0] == shape
    }
    if all(size):
        runs["yours"] = Size(shape, *size)
    for name, each in runs.items():
        hours, unit = rates.seconds(each) / 3600, "GPU" if GPU else "core"
        memory = each.memory(args.workers, filed=name.startswith("Glyph"))
        wall = f"{rates.seconds(each, args.workers) / 3600:,.2f} h on {args.workers}"
        print(
            f"{name:20} {hours:10,.2f} {unit} hours, {wall}; "
            f"store {each.store / 2**20:,.1f} MiB; memory {memory / 2**30:.1f} GiB"
        )


if __name__ == "__main__":
    main()
