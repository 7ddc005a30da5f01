"""The ensemble engine against a bare PyTorch loop, a Lightning Trainer per teacher, and one model on as many samples.

Same network, data, batches, optimiser and steps, in one process and one run; what is reported are ratios.

    python benchmarks/teachers.py [--teachers 12] [--records 240] [--epochs 20] [--repeats 3] [--root DIR]
    python benchmarks/teachers.py --growth        1 to 1,000 teachers on the same records: flat is the goal
"""

import argparse
import logging
import math
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
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
from nzc.data import Split
from nzc.networks import as_input
from nzc.runs.formatting import show
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble
from nzc.teachers.sharded import partition
from nzc.training.trainer import TrainerSettings

warnings.filterwarnings("ignore")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)


def data(rows: int, root: str | None) -> Split:
    """MNIST where it lies, random images elsewhere: the time is the same."""
    if root is not None:
        from nzc.data.mnist import MNIST

        private = MNIST(root).load().private
        return Split(private.x[:rows], private.y[:rows])
    rng = np.random.default_rng(0)
    return Split(rng.integers(0, 256, (rows, 1, 28, 28), dtype=np.uint8), rng.integers(0, 10, rows))


def optimiser(net: torch.nn.Module, settings: Ensemble, rows: int) -> tuple[torch.optim.Optimizer, LRScheduler]:
    adam = torch.optim.AdamW(net.parameters(), settings.lr, weight_decay=settings.weight_decay, fused=True)
    steps = settings.epochs * math.ceil(rows / settings.batch_size)
    return adam, OneCycleLR(adam, settings.lr, total_steps=steps + 1)


def engine(settings: Ensemble, private: Split, public: np.ndarray, shards: list[np.ndarray], accelerator: str) -> None:
    with TemporaryDirectory() as folder:
        fit = TeacherEnsemble(settings, private, public, shards, 10, Path(folder))
        TrainerSettings(progress=False, accelerator=accelerator).fit(fit, "", max_epochs=1)


def bare(settings: Ensemble, private: Split, public: np.ndarray, shards: list[np.ndarray], accelerator: str) -> None:
    device = torch.device("cuda" if accelerator == "gpu" else "cpu")
    for shard in shards:
        net = networks.build(settings.network, private.x.shape[1:], 10).to(device)
        x, y = (torch.from_numpy(part[shard]).to(device) for part in (private.x, private.y))
        x = as_input(x)
        adam, schedule = optimiser(net, settings, len(shard))
        for _ in range(settings.epochs):
            order = torch.randperm(len(y), device=device)
            for rows in order.split(settings.batch_size):
                adam.zero_grad()
                F.cross_entropy(net(x[rows]), y[rows]).backward()
                adam.step()
                schedule.step()
        with torch.no_grad():
            for part in torch.from_numpy(public).split(1000):
                net(as_input(part.to(device))).argmax(dim=1).cpu()


class _Teacher(LightningModule):
    def __init__(self, settings: Ensemble, rows: int) -> None:
        super().__init__()
        self.settings, self.rows = settings, rows
        self.net = networks.build(settings.network, (1, 28, 28), 10)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        loss: Tensor = F.cross_entropy(self.net(batch[0]), batch[1])
        return loss

    def predict_step(self, batch: list[Tensor]) -> Tensor:
        labels: Tensor = self.net(as_input(batch[0])).argmax(dim=1)
        return labels

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        adam, schedule = optimiser(self.net, self.settings, self.rows)
        return {"optimizer": adam, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def lightning(
    settings: Ensemble, private: Split, public: np.ndarray, shards: list[np.ndarray], accelerator: str
) -> None:
    for shard in shards:
        x, y = as_input(torch.from_numpy(private.x[shard])), torch.from_numpy(private.y[shard])
        loader = DataLoader(TensorDataset(x, y), settings.batch_size, shuffle=True)
        quiet: dict[str, Any] = dict.fromkeys(
            ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
        )
        trainer = Trainer(accelerator=accelerator, devices=1, max_epochs=settings.epochs, **quiet)
        teacher = _Teacher(settings, len(shard))
        trainer.fit(teacher, loader)
        trainer.predict(teacher, DataLoader(TensorDataset(torch.from_numpy(public)), 1000))


def one_model(
    settings: Ensemble, private: Split, public: np.ndarray, shards: list[np.ndarray], accelerator: str
) -> None:
    """A single model in a bare loop over the records of all teachers."""
    bare(settings, private, public, [np.concatenate(shards)], accelerator)


def cost_curve(settings: Ensemble, private: Split, public: np.ndarray, accelerator: str) -> None:
    """The engine's time for the same records and passes, cut into more and more shards."""
    base = None
    for count in (1, 10, 100, 1000):
        if count > len(private):
            break
        shards = partition(private.y, count, seed=0, stratify=False)
        start = time.perf_counter()
        engine(replace(settings, count=count), private, public, shards, accelerator)
        seconds = time.perf_counter() - start
        base = base or seconds
        work = f"{count:5} teachers × {len(private) // count:6,} records"
        show(f"{work}: {seconds:7.2f} s   {seconds / base:.2f} × one teacher")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teachers", type=int, default=12)
    parser.add_argument("--records", type=int, default=240, help="a teacher")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--network", default="cnn")
    parser.add_argument("--growth", action="store_true", help="time by number of teachers at constant total work")
    parser.add_argument("--root", help="where MNIST lies; without it, random images")
    args = parser.parse_args()

    accelerator = "gpu" if torch.cuda.is_available() else "cpu"
    private = data(args.teachers * args.records, args.root)
    public = private.x[:1000]
    shards = partition(private.y, args.teachers, seed=0, stratify=False)
    settings = Ensemble(
        count=args.teachers, network=args.network, epochs=args.epochs, batch_size=32, lr=0.004, weight_decay=0.0, seed=0
    )
    if args.growth:
        return cost_curve(settings, private, public, accelerator)
    ways: dict[str, Callable[..., None]] = {
        "bare loop": bare,
        "engine": engine,
        "a Trainer per teacher": lightning,
        "one model": one_model,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    threads = torch.get_num_threads()
    for _ in range(args.repeats + 1):  # the first round warms up; ways alternate, so that a busy machine is fair to all
        for name, way in ways.items():
            torch.set_num_threads(threads)  # each way starts with torch's own choice; the engine makes its own
            start = time.perf_counter()
            way(settings, private, public, shards, accelerator)
            seconds[name].append(time.perf_counter() - start)
    show(f"{args.teachers} teachers × {args.records} records × {args.epochs} passes, {args.network}, {accelerator}, "
         f"torch {torch.__version__}, {threads} threads")  # fmt: skip
    best = {name: min(times[1:]) for name, times in seconds.items()}
    for name, value in best.items():
        show(f"{name:22} {value:7.2f} s   {value / best['bare loop']:.2f} × the bare loop")
    show(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
