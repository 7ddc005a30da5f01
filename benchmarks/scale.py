"""What a run will cost: teachers × records × epochs × queries → hours, store, memory; checked against small runs.

The rates are measured first, on a GPU where there is one, else on one core; a busy machine's times are upper values.

    python benchmarks/scale.py [--network cnn] [--shape 1 28 28]      the rates, checked on another size
    python benchmarks/scale.py --runs                                 and what the papers' runs would take
    python benchmarks/scale.py --teachers 5000 --records 65000000 --epochs 60 --queries 12000 --workers 16
"""

import argparse
import resource
import time
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
import torch

from nzc.data import DataSplits, Split
from nzc.runs.formatting import show
from nzc.teachers.prediction_store import PredictionStore
from nzc.teachers.ensemble import Ensemble
from nzc.training.trainer import TrainerSettings

GPU = torch.cuda.is_available()
CLASSES = 10
RUNS = {  # name: image, teachers, private records, epochs, public rows
    "MNIST": ((1, 28, 28), 250, 60_000, 60, 9_000),
    "SVHN with extra": ((3, 32, 32), 250, 604_388, 60, 10_000),
    "Glyph, small": ((1, 28, 28), 100, 60_000, 60, 12_000),
    "Glyph, the paper's": ((1, 28, 28), 5_000, 65_000_000, 60, 12_000),
}


@dataclass(frozen=True)
class Size:
    shape: tuple[int, ...]
    teachers: int
    records: int
    epochs: int
    queries: int

    @property
    def store(self) -> int:
        """Bytes that stay: a byte a prediction, up to 256 classes."""
        return self.teachers * self.queries

    def memory(self, parallel: int) -> int:
        """Bytes on a node beyond what Python and torch take: every row once, as bytes, its label in 8; the shards in
        training as bytes, as floats, and as floats in the order of a pass; all predictions, in two bytes and in one."""
        rows = (self.records + self.queries) * (prod(self.shape) + 8)
        return rows + parallel * self.records // self.teachers * prod(self.shape) * 9 + 3 * self.store


@dataclass(frozen=True)
class Rates:
    """Seconds: of a fit, of a teacher's setting up, of a record in a pass, of a vote."""

    fit: float
    teacher: float
    record: float
    vote: float

    def seconds(self, size: Size, workers: int = 1) -> float:
        """`workers`: cores or GPUs; the model has them all do their share alike."""
        work = size.teachers * self.teacher + size.records * size.epochs * self.record + size.store * self.vote
        return self.fit + work / workers


def run(network: str, size: Size) -> tuple[float, int]:
    """Seconds for the teachers' training and votes, and the bytes that are stored."""
    rng = np.random.default_rng(0)

    def split(rows: int) -> Split:
        return Split(rng.integers(0, 256, (rows, *size.shape), np.uint8), rng.integers(0, CLASSES, rows))

    roles = DataSplits(split(size.records), split(size.queries), split(1), CLASSES)
    settings = Ensemble(count=size.teachers, network=network, epochs=size.epochs, batch_size=32, lr=0.004,
                        weight_decay=0.0, seed=0, parallel=None if GPU else 1)  # fmt: skip
    training = TrainerSettings(progress=False, accelerator="gpu" if GPU else "cpu", devices=1)
    with TemporaryDirectory() as folder:
        store = PredictionStore(folder)
        start = time.perf_counter()
        settings.train(roles, store, training)
        return time.perf_counter() - start, sum(path.stat().st_size for path in Path(folder).rglob("predictions.npy"))


def measure(network: str, shape: tuple[int, ...], seconds: float) -> Rates:
    """Each rate as what one more of its kind costs, over about so many seconds."""
    tiny = Size(shape, 2, 480, 1, 1)
    run(network, tiny)
    base = run(network, tiny)[0]

    def slope(steps: int, **more: int) -> float:
        """Of the size that is `steps` more: what it takes longer, over at least half of the seconds."""
        spent = run(network, replace(tiny, **{key: steps + getattr(tiny, key) for key in more}))[0] - base
        if spent < seconds / 2:
            return slope(int(steps * min(50, max(2, seconds / max(spent, 0.01)))), **more)
        return spent / steps

    record = slope(4, epochs=1) / tiny.records
    vote = slope(500, queries=1) / tiny.teachers
    teacher = max(0.0, (run(network, replace(tiny, teachers=60))[0] - base) / 58)
    return Rates(max(0.0, base - tiny.teachers * teacher - tiny.records * record), teacher, record, vote)


def check(network: str, rates: Rates, shape: tuple[int, ...]) -> None:
    """Predicted beside measured, at a size that no rate was taken from."""
    size = Size(shape, 12, 12 * 240, max(1, round(10 / rates.record / 2880)), max(1, round(5 / rates.vote / 12)))
    spent, stored = run(network, size)
    show(f"\n{size.teachers} teachers × {size.records // size.teachers} records × {size.epochs} passes, "
         f"{size.queries:,} public rows: predicted | measured")  # fmt: skip
    show(f"seconds  {rates.seconds(size):14.1f} | {spent:.1f}")
    show(f"store    {size.store:14,} | {stored:,} bytes")
    if GPU:
        return
    large, before = Size(shape, 4, 400_000, 1, 20_000), psutil.Process().memory_info().rss
    run("mlp", large)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    show(f"memory   {large.memory(1) / 2**20:14.0f} | {grown / 2**20:.0f} MiB more, of {large.records:,} records")


def told(name: str, size: Size, rates: Rates, workers: int) -> None:
    hours, unit = rates.seconds(size) / 3600, "GPU" if GPU else "core"
    show(f"{name:20} {hours:10,.2f} {unit} hours, {rates.seconds(size, workers) / 3600:,.2f} h on {workers}; "
         f"store {size.store / 2**20:,.1f} MiB; memory {size.memory(workers) / 2**30:.1f} GiB")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="cnn")
    parser.add_argument("--shape", type=int, nargs="+", default=[1, 28, 28])
    parser.add_argument("--runs", action="store_true", help="the papers'")
    for key in ("teachers", "records", "epochs", "queries"):
        parser.add_argument(f"--{key}", type=int)
    parser.add_argument("--workers", type=int, default=1, help="cores, or GPUs")
    parser.add_argument("--seconds", type=float, default=4, help="that a rate is measured over")
    args = parser.parse_args()

    shape, asked = tuple(args.shape), (args.teachers, args.records, args.epochs, args.queries)
    rates = measure(args.network, shape, args.seconds)
    show(f"{args.network} on {'×'.join(map(str, shape))}, {torch.cuda.get_device_name() if GPU else 'one core'}: "
         f"{1 / rates.record:,.0f} records in passes, or {1 / rates.vote:,.0f} votes, a second; "
         f"{rates.teacher:.3f} s a teacher, {rates.fit:.1f} s a fit")  # fmt: skip
    check(args.network, rates, shape)
    if all(asked):
        told("asked", Size(shape, *asked), rates, args.workers)
    for name, (of, *numbers) in RUNS.items() if args.runs else ():
        if of == shape:
            told(name, Size(shape, *numbers), rates, args.workers)


if __name__ == "__main__":
    main()
