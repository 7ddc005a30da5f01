"""The ensemble engine against a bare PyTorch loop, a Lightning Trainer per teacher, and one model
on as many records.

All have the same network, data, batches, optimiser and steps, in one process. The figures are
seconds and ratios.

    python benchmarks/teachers.py [--teachers 12] [--records 240] [--epochs 20] [--repeats 3]
    [--root DIR]
"""

import argparse
import logging
import math
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
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


def random_rows(rows: int, shape: tuple[int, ...] = (1, 28, 28)) -> Split:
    """Return random images, which take the same time as others."""
    rng = np.random.default_rng(0)
    return Split(
        rng.integers(0, 256, (rows, *shape), dtype=np.uint8), rng.integers(0, CLASSES, rows)
    )


def ensemble(private: Split, public: Split, count: int, **options: Any) -> Task:
    """Return the task to train `count` teachers."""
    options = {
        "network": "cnn",
        "batch_size": 32,
        "lr": 0.004,
        "weight_decay": 0.0,
        "seed": 0,
        **options,
    }
    shards = partition(len(private), count, seed=0)
    accelerator = "gpu" if torch.cuda.is_available() else "cpu"
    return Task(
        Ensemble(count=count, **options),
        DataSplits(private, public, public, CLASSES),
        shards,
        accelerator,
    )


def task_of(count: int, records: int, public_rows: int, root: str | None, **options: Any) -> Task:
    """Return the task of teachers with so many records each: of MNIST, or random without `root`."""
    private = random_rows(count * records)
    if root is not None:
        from nzc.data.torchvision import MNIST

        mnist = MNIST(root).load().private
        private = Split(mnist.x[: len(private)], mnist.y[: len(private)])
    again = np.arange(public_rows) % len(private)
    return ensemble(private, Split(private.x[again], private.y[again]), count, **options)


def optimizer_of(
    net: torch.nn.Module, settings: Ensemble, rows: int
) -> tuple[torch.optim.Optimizer, LRScheduler]:
    """Return the optimiser and schedule of a teacher with so many records."""
    adam = torch.optim.AdamW(
        net.parameters(), settings.lr, weight_decay=settings.weight_decay, fused=True
    )
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
        quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
        options: dict[str, Any] = dict.fromkeys(quiet, False)
        trainer = Trainer(
            accelerator=task.accelerator, devices=1, max_epochs=settings.epochs, **options
        )
        teacher = _Teacher(settings, len(shard))
        trainer.fit(teacher, loader)
        trainer.predict(
            teacher, DataLoader(TensorDataset(torch.from_numpy(task.splits.public.x)), 1000)
        )


def train_one_model(task: Task) -> None:
    """Train a single model in a PyTorch loop over the records of all teachers."""
    train_bare(replace(task, shards=[np.concatenate(task.shards)]))


METHODS: dict[str, Callable[[Task], None]] = {
    "bare loop": train_bare,
    "engine": train_with_engine,
    "a Trainer per teacher": train_with_lightning,
    "one model": train_one_model,
}


def compare(task: Task, repeats: int) -> None:
    """Print the seconds of every method, the fastest of so many."""
    times: dict[str, list[float]] = {name: [] for name in METHODS}
    threads = torch.get_num_threads()
    for _ in range(
        repeats + 1
    ):  # the first round warms up; methods alternate, so other load slows all of them
        for name, method in METHODS.items():
            torch.set_num_threads(threads)  # the engine changes it
            start = time.perf_counter()
            method(task)
            times[name].append(time.perf_counter() - start)
    settings = task.settings
    print(
        f"{settings.count} teachers, {len(task.splits.private):,} records, "
        f"{settings.epochs} passes, {settings.network}, {task.accelerator}, "
        f"torch {torch.__version__}, {threads} threads"
    )
    fastest = {name: min(values[1:]) for name, values in times.items()}
    for name, value in fastest.items():
        print(f"{name:22} {value:7.2f} s   {value / fastest['bare loop']:.2f} × the bare loop")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teachers", type=int, default=12)
    parser.add_argument(
        "--records", type=int, default=240, help="records of each teacher (default 240)"
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument(
        "--repeats", type=int, default=3, help="the fastest of so many counts (default 3)"
    )
    parser.add_argument("--network", default="cnn")
    parser.add_argument(
        "--public", type=int, default=1000, help="rows that each teacher labels (default 1,000)"
    )
    parser.add_argument("--root", help="folder of MNIST; by default images are random")
    args = parser.parse_args()
    options = {"network": args.network, "epochs": args.epochs}
    task = task_of(args.teachers, args.records, args.public, args.root, **options)
    compare(task, args.repeats)


if __name__ == "__main__":
    main()
