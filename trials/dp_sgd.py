"""What does DP-SGD learn at the same ε? Opacus, trained on the private records, beside nzc's student.

Both have the same private records, network, test split and δ, and every seed draws the records anew. Both protect one
record, but their neighbouring datasets differ: in nzc one record is replaced, in Opacus one is added or removed. To
replace a record is to remove one and to add one: (ε, δ) for the latter implies (2ε, (1 + e^ε)δ) for the former. So
DP-SGD is trained twice: at nzc's ε for added or removed records, which is a weaker promise, and at half of it, which is
the same promise by group privacy. A fair comparison lies between the two. DP-SGD needs no public data; nzc's student
sees public rows, and no private record.

    pip install -e ".[dpsgd]" && python trials/dp_sgd.py [--seeds 5] [OVERRIDE ...]      such as dataset=mnist
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hydra
import numpy as np
import torch
from hydra import initialize_config_dir
from omegaconf import DictConfig
from opacus import PrivacyEngine
from rich.progress import track
from rich.table import Table
from scipy.stats import t
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nzc import networks
from nzc.app.components import build
from nzc.app.config import CONF, register
from nzc.data import DataSplits
from nzc.networks import as_input
from nzc.runs.formatting import number, show


@dataclass(frozen=True)
class Trained:
    """The result of one training.

    added, replaced  ε at δ where a record is added or removed, or replaced; None: its accountant does not compute it
    noise            standard deviation of the noise over the clipping norm; None: it has no such noise
    """

    accuracy: float
    added: float | None
    replaced: float | None
    noise: float | None
    seconds: float


def compose(overrides: list[str], seed: int) -> tuple[DictConfig, list[str]]:
    """Return the configuration of `nzc OVERRIDES` with this seed for everything, and the overrides with the seed."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", overrides=[*overrides, f"seed={seed}"])
        seeds = [f"seed={seed}", *[f"dataset.seed={seed}"] * ("seed" in cfg.dataset)]
        return hydra.compose("config", overrides=[*overrides, *seeds]), [*overrides, *seeds]


def run_nzc(overrides: list[str]) -> dict[str, Any]:
    """Return result.json of `nzc OVERRIDES`, run in a process of its own."""
    quiet = ["tracking=none", "figures=false", "trainer.progress=false"]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "nzc", *quiet, *overrides]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        result: dict[str, Any] = json.loads(next(Path(folder).glob("outputs/**/result.json")).read_text())
        return result


def train_dp_sgd(
    splits: DataSplits, network: str, epsilon: float, delta: float, seed: int, arguments: argparse.Namespace
) -> tuple[float, float, float]:
    """Train with Opacus at (ε, δ) for an added or removed record. Return accuracy, noise multiplier and seconds."""
    start = time.perf_counter()
    torch.manual_seed(seed)
    x, y = as_input(torch.from_numpy(splits.private.x)), torch.from_numpy(splits.private.y)
    module = networks.build(network, tuple(x.shape[1:]), splits.classes)
    optimizer = torch.optim.SGD(module.parameters(), arguments.lr)
    engine = PrivacyEngine()
    module, optimizer, batches = engine.make_private_with_epsilon(
        module=module,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(x, y), batch_size=round(arguments.share * len(y))),
        target_epsilon=epsilon,
        target_delta=delta,
        epochs=arguments.epochs,
        max_grad_norm=arguments.clip,
    )
    for _ in range(arguments.epochs):
        for rows, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(module(rows), labels).backward()
            optimizer.step()
    with torch.no_grad():
        predicted = module.eval()(as_input(torch.from_numpy(splits.test.x))).argmax(dim=1).numpy()
    assert engine.get_epsilon(delta) <= epsilon
    return float((predicted == splits.test.y).mean()), optimizer.noise_multiplier, time.perf_counter() - start


def interval(values: list[float]) -> str:
    """Return the mean of accuracies with Student's 95 % interval."""
    mean, half = np.mean(values), t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{100 * mean:.1f} % ± {100 * half:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds (default 5)")
    parser.add_argument("--epochs", type=int, default=40, help="epochs of DP-SGD")
    parser.add_argument("--share", type=float, default=0.25, help="share of the records in a batch, on average")
    parser.add_argument("--lr", type=float, default=2.0, help="learning rate of DP-SGD")
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of a record's gradient")
    arguments, overrides = parser.parse_known_args()
    if arguments.seeds < 2:
        parser.error(f"--seeds {arguments.seeds}: must be 2 or more, because an interval needs two")
    warnings.simplefilter("ignore")  # Opacus warns that its noise is not cryptographic, and of hooks
    register()

    found: dict[str, list[Trained]] = {}
    for seed in track(range(arguments.seeds), "Seeds", transient=True):
        cfg, seeded = compose(overrides, seed)
        splits: DataSplits = build(cfg, "dataset").load()
        result = run_nzc(seeded)
        epsilon, delta = result["epsilon"], result["delta"]
        by_nzc = Trained(result["accuracy"], None, epsilon["data_independent"], None, result["seconds"]["total"])
        found.setdefault(f"nzc: {result['aggregator']}, {result['student']}", []).append(by_nzc)
        for name in ("data_independent", "exact"):
            whole, half = epsilon[name], epsilon[name] / 2
            row = f"DP-SGD at nzc's ε {name.replace('_', '-')}"
            for suffix, added, left in (("", whole, delta), (", by group privacy", half, delta / (1 + np.exp(half)))):
                accuracy, noise, seconds = train_dp_sgd(splits, cfg.dataset.network, added, left, seed, arguments)
                replaced = whole if suffix else None
                found.setdefault(row + suffix, []).append(Trained(accuracy, added, replaced, noise, seconds))

    table = Table(title=f"{result['dataset']}, {arguments.seeds} seeds, δ = {delta:g}", title_style="bold")
    for column in ("trained", "ε, record added or removed", "ε, record replaced", "noise", "accuracy", "seconds"):
        table.add_column(column, justify="left" if column == "trained" else "right")
    for name, runs in found.items():
        means = [
            None if getattr(runs[0], key) is None else float(np.mean([getattr(run, key) for run in runs]))
            for key in ("added", "replaced", "noise", "seconds")
        ]
        table.add_row(name, *map(number, means[:3]), interval([run.accuracy for run in runs]), f"{means[3]:.1f}")
    table.caption = "means over the seeds; accuracy on the test split, with Student's 95 % interval"
    show(table)


if __name__ == "__main__":
    main()
