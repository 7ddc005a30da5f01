"""The ensemble engine against a bare PyTorch loop, a Lightning Trainer per teacher, and one model on as many records.

All have the same network, data, batches, optimiser and steps, in one process. The figures are seconds and ratios.

    python benchmarks/teachers.py [--teachers 12] [--records 240] [--epochs 20] [--repeats 3] [--root DIR]
    python benchmarks/teachers.py --growth        1 to 1,000 teachers on the same records: equal times are the goal
    python benchmarks/teachers.py --growth 250 1000 --teachers 250 --epochs 60 --public 9000
    python benchmarks/teachers.py --peak          the share of one core's matrix products that a teacher reaches
"""

import argparse
import logging
import math
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor
from torch.nn import functional as F
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

from nzc import networks
from nzc.data import DataSplits, Split
from nzc.networks import as_input
from nzc.runs.formatting import show
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble
from nzc.teachers.sharded import partition
from nzc.training.trainer import TrainerSettings
from nzc.types import Ints

warnings.filterwarnings("ignore")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

CLASSES = 10


@dataclass(frozen=True)
class Task:
    """What every method does: train the teachers on their shards, and predict the public rows."""

    settings: Ensemble
    splits: DataSplits
    shards: list[Ints]
    accelerator: str


def load(rows: int, public_rows: int, root: str | None) -> DataSplits:
    """Return private records of MNIST in `root`, or random images, which take the same time; and public rows."""
    if root is not None:
        from nzc.data.mnist import MNIST

        mnist = MNIST(root).load().private
        private = Split(mnist.x[:rows], mnist.y[:rows])
    else:
        rng = np.random.default_rng(0)
        private = Split(rng.integers(0, 256, (rows, 1, 28, 28), dtype=np.uint8), rng.integers(0, CLASSES, rows))
    again = np.arange(public_rows) % rows
    public = Split(private.x[again], private.y[again])
    return DataSplits(private, public, public, CLASSES)


def optimizer_of(net: torch.nn.Module, settings: Ensemble, rows: int) -> tuple[torch.optim.Optimizer, LRScheduler]:
    """Return the optimiser and schedule of a teacher with so many records."""
    adam = torch.optim.AdamW(net.parameters(), settings.lr, weight_decay=settings.weight_decay, fused=True)
    steps = settings.epochs * math.ceil(rows / settings.batch_size)
    return adam, OneCycleLR(adam, settings.lr, total_steps=steps + 1)


def train_with_engine(task: Task) -> None:
    """Train all teachers with nzc's engine, in one fit."""
    with TemporaryDirectory() as folder:
        engine = TeacherEnsemble(task.settings, task.splits, task.shards, Path(folder))
        TrainerSettings(progress=False, accelerator=task.accelerator).fit(engine, "", max_epochs=1)


def train_bare(task: Task) -> None:
    """Train one teacher after the other in a PyTorch loop."""
    settings, private = task.settings, task.splits.private
    device = torch.device("cuda" if task.accelerator == "gpu" else "cpu")
    for shard in task.shards:
        net = networks.build(settings.network, private.x.shape[1:], CLASSES).to(device)
        x, y = (torch.from_numpy(part[shard]).to(device) for part in (private.x, private.y))
        x = as_input(x)
        adam, schedule = optimizer_of(net, settings, len(shard))
        for _ in range(settings.epochs):
            order = torch.randperm(len(y), device=device)
            for rows in order.split(settings.batch_size):
                adam.zero_grad()
                F.cross_entropy(net(x[rows]), y[rows]).backward()
                adam.step()
                schedule.step()
        with torch.no_grad():
            for part in torch.from_numpy(task.splits.public.x).split(1000):
                net(as_input(part.to(device))).argmax(dim=1).cpu()


class _Teacher(LightningModule):
    """One teacher as a LightningModule of its own."""

    def __init__(self, settings: Ensemble, rows: int) -> None:
        super().__init__()
        self.settings, self.rows = settings, rows
        self.net = networks.build(settings.network, (1, 28, 28), CLASSES)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        loss: Tensor = F.cross_entropy(self.net(batch[0]), batch[1])
        return loss

    def predict_step(self, batch: list[Tensor]) -> Tensor:
        labels: Tensor = self.net(as_input(batch[0])).argmax(dim=1)
        return labels

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        adam, schedule = optimizer_of(self.net, self.settings, self.rows)
        return {"optimizer": adam, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def train_with_lightning(task: Task) -> None:
    """Train one teacher after the other, each with a Lightning Trainer of its own."""
    settings, private = task.settings, task.splits.private
    for shard in task.shards:
        x, y = as_input(torch.from_numpy(private.x[shard])), torch.from_numpy(private.y[shard])
        loader = DataLoader(TensorDataset(x, y), settings.batch_size, shuffle=True)
        quiet: dict[str, Any] = dict.fromkeys(
            ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
        )
        trainer = Trainer(accelerator=task.accelerator, devices=1, max_epochs=settings.epochs, **quiet)
        teacher = _Teacher(settings, len(shard))
        trainer.fit(teacher, loader)
        trainer.predict(teacher, DataLoader(TensorDataset(torch.from_numpy(task.splits.public.x)), 1000))


def train_one_model(task: Task) -> None:
    """Train a single model in a PyTorch loop over the records of all teachers."""
    train_bare(replace(task, shards=[np.concatenate(task.shards)]))


def show_growth(task: Task, counts: list[int]) -> None:
    """Show the engine's time for the same records and passes, divided among each of these numbers of teachers."""
    base, records = None, len(task.splits.private)
    for count in counts:
        shards = partition(task.splits.private.y, count, seed=0, stratify=False)
        start = time.perf_counter()
        train_with_engine(replace(task, settings=replace(task.settings, count=count), shards=shards))
        seconds = time.perf_counter() - start
        base = base or seconds
        show(f"{count:5} teachers × {records // count:6,} records: {seconds:7.2f} s   {seconds / base:.2f} × the first")


def products(net: torch.nn.Module, rows: Tensor) -> list[tuple[int, int, int]]:
    """Return the matrix product that each layer is, (m, k, n) for [m, k] · [k, n], of these rows."""
    found = []

    def take(layer: torch.nn.Module, inputs: object, output: Tensor) -> None:
        assert isinstance(layer, torch.nn.Conv2d | torch.nn.Linear)
        k, n = layer.weight[0].numel(), len(layer.weight)
        found.append((output.numel() // n, k, n))

    layers = [layer for layer in net.modules() if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear)]
    hooks = [layer.register_forward_hook(take) for layer in layers]
    net(rows)
    for hook in hooks:
        hook.remove()
    return found


def rate(work: Callable[[], object], operations: float, seconds: float = 0.5) -> float:
    """Return the most operations a second of ten tries, in billions."""
    times = []
    for _ in range(10):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 10:
            work()
            count += 1
        times.append((time.perf_counter() - start) / count)
    return operations / min(times) / 1e9


def show_peak(task: Task) -> None:
    """Show what training and labelling reach of the matrix products that their layers are, on one core."""
    torch.set_num_threads(1)
    settings = task.settings
    x = as_input(torch.from_numpy(task.splits.private.x[: settings.batch_size]))
    y = torch.from_numpy(task.splits.private.y[: settings.batch_size])
    net = networks.build(settings.network, tuple(x.shape[1:]), CLASSES)
    adam, schedule = optimizer_of(net, settings, 10**6)

    def step() -> None:
        adam.zero_grad()
        F.cross_entropy(net(x), y).backward()
        adam.step()
        schedule.step()

    def label(rows: Tensor) -> None:
        with torch.no_grad():
            net(rows).argmax(dim=1)

    public = as_input(torch.from_numpy(task.splits.public.x))
    shapes = products(net, x)
    forward = sum(2 * m * k * n for m, k, n in shapes)
    pairs = [(torch.rand(m, k), torch.rand(k, n)) for m, k, n in shapes]
    peak = rate(lambda: [a @ b for a, b in pairs], forward)
    m, k, n = shapes[0]  # rows need no gradient
    reached = {f"training, batches of {len(x)}": rate(step, 3 * forward - 2 * m * k * n)}
    for at_once in (1000, 200):
        rows = public[:at_once]
        reached[f"labelling {at_once:,} rows at a time"] = rate(partial(label, rows), forward / len(x) * len(rows))
    show(f"{settings.network}: matrix products of its shapes reach {peak:.0f} GFLOP/s on one core")
    for name, value in reached.items():
        show(f"{name:32} {value:6.1f} GFLOP/s   {value / peak:.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teachers", type=int, default=12)
    parser.add_argument("--records", type=int, default=240, help="records of each teacher (default 240)")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3, help="the fastest of so many counts (default 3)")
    parser.add_argument("--network", default="cnn")
    parser.add_argument("--growth", type=int, nargs="*", metavar="TEACHERS",
                        help="time by number of teachers, with the same records (default 1 10 100 1000)")  # fmt: skip
    parser.add_argument("--peak", action="store_true", help="share of one core's matrix products")
    parser.add_argument("--public", type=int, default=1000, help="rows that each teacher labels (default 1,000)")
    parser.add_argument("--root", help="folder of MNIST; by default images are random")
    args = parser.parse_args()

    splits = load(args.teachers * args.records, args.public, args.root)
    settings = Ensemble(
        count=args.teachers, network=args.network, epochs=args.epochs, batch_size=32, lr=0.004, weight_decay=0.0, seed=0
    )
    shards = partition(splits.private.y, args.teachers, seed=0, stratify=False)
    task = Task(settings, splits, shards, "gpu" if torch.cuda.is_available() else "cpu")
    if args.peak:
        return show_peak(task)
    if args.growth is not None:
        return show_growth(task, args.growth or [1, 10, 100, 1000])
    methods: dict[str, Callable[[Task], None]] = {
        "bare loop": train_bare,
        "engine": train_with_engine,
        "a Trainer per teacher": train_with_lightning,
        "one model": train_one_model,
    }
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    threads = torch.get_num_threads()
    for _ in range(args.repeats + 1):  # the first round warms up; methods alternate, so other load slows all of them
        for name, method in methods.items():
            torch.set_num_threads(threads)  # the engine changes it
            start = time.perf_counter()
            method(task)
            seconds[name].append(time.perf_counter() - start)
    show(f"{args.teachers} teachers × {args.records} records × {args.epochs} passes, {args.network}, "
         f"{task.accelerator}, torch {torch.__version__}, {threads} threads")  # fmt: skip
    fastest = {name: min(times[1:]) for name, times in seconds.items()}
    for name, value in fastest.items():
        show(f"{name:22} {value:7.2f} s   {value / fastest['bare loop']:.2f} × the bare loop")
    show(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
