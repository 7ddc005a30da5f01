"""What does Opacus learn at the same ε and δ, from the same private records, with the network of
nzc's student?

    pip install -e ".[dpsgd]"
    python trials/dp_sgd.py [--seeds 5] [OVERRIDE ...]      such as dataset=mnist

`nzc baseline=true` has DP-SGD of a linear model. Every seed draws the records anew. Both protect
one record, but their neighbouring datasets differ: in nzc one record is replaced, in Opacus one is
added or removed. To replace a record is to remove one and to add one: (ε, δ) for the latter implies
(2ε, (1 + e^ε)δ) for the former. So DP-SGD is trained twice: at nzc's ε for added or removed
records, which is a weaker promise, and at half of it, which is the same promise by group privacy. A
fair comparison lies between the two. nzc's student sees public rows, no private record.
"""

import argparse
import time
import warnings
from contextlib import chdir
from dataclasses import asdict
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from _nzc import show_table
from rich.progress import track
from scipy.stats import t
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nzc
from nzc import networks
from nzc.app.build import build
from nzc.app.config import compose_run
from nzc.data import DataSplits
from nzc.networks import as_input
from nzc.runs.formatting import number

QUIET = ["tracking=none", "figures=false", "trainer.progress=false"]


class Trained(NamedTuple):
    """One training: ε at δ and the noise over the clipping norm, where they are known."""

    accuracy: float
    epsilon_added: float | None
    epsilon_replaced: float | None
    noise: float | None
    seconds: float


def train_opacus(
    splits: DataSplits,
    network: str,
    epsilon: float,
    delta: float,
    seed: int,
    arguments: argparse.Namespace,
) -> tuple[float, float, float]:
    """Train with Opacus at (ε, δ) for an added or removed record.

    Return accuracy, noise multiplier and seconds.
    """
    from opacus import PrivacyEngine

    start = time.perf_counter()
    torch.manual_seed(seed)
    x, y = as_input(torch.from_numpy(splits.private.x)), torch.from_numpy(splits.private.y)
    module = networks.build(network, tuple(x.shape[1:]), splits.classes)
    optimizer = torch.optim.SGD(module.parameters(), arguments.lr)
    engine = PrivacyEngine()
    module, optimizer, batches = engine.make_private_with_epsilon(
        module=module, optimizer=optimizer, target_epsilon=epsilon, target_delta=delta,
        data_loader=DataLoader(TensorDataset(x, y), batch_size=round(arguments.share * len(y))),
        epochs=arguments.epochs, max_grad_norm=arguments.clip,
    )  # fmt: skip
    for _ in range(arguments.epochs):
        for rows, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(module(rows), labels).backward()
            optimizer.step()
    with torch.no_grad():
        predicted = module.eval()(as_input(torch.from_numpy(splits.test.x))).argmax(dim=1).numpy()
    assert engine.get_epsilon(delta) <= epsilon
    return (
        float((predicted == splits.test.y).mean()),
        optimizer.noise_multiplier,
        time.perf_counter() - start,
    )


def compare_students(overrides: list[str], arguments: argparse.Namespace) -> None:
    """Show nzc's student beside the same network trained by Opacus."""
    trained: dict[str, list[Trained]] = {}
    for seed in track(range(arguments.seeds), "Seeds", transient=True):
        seeds = [
            f"seed={seed}",
            *[f"dataset.seed={seed}"] * ("seed" in compose_run(overrides).dataset),
        ]
        cfg = compose_run([*overrides, *seeds])
        splits: DataSplits = build(cfg, "dataset").load()
        with TemporaryDirectory() as folder, chdir(folder):
            result = nzc.run([*QUIET, *overrides, *seeds])
        epsilon, delta = asdict(result.epsilon), result.delta
        by_nzc = Trained(
            result.accuracy or 0, None, epsilon["data_independent"], None, result.seconds["total"]
        )
        trained.setdefault(f"nzc: {result.aggregator}, {result.student}", []).append(by_nzc)
        for name in ("data_independent", "exact"):
            whole, half = epsilon[name], epsilon[name] / 2
            row = f"DP-SGD at nzc's ε {name.replace('_', '-')}"
            for suffix, added, left in (
                ("", whole, delta),
                (", by group privacy", half, delta / (1 + np.exp(half))),
            ):
                accuracy, noise, seconds = train_opacus(
                    splits, cfg.dataset.network, added, left, seed, arguments
                )
                replaced = whole if suffix else None
                trained.setdefault(row + suffix, []).append(
                    Trained(accuracy, added, replaced, noise, seconds)
                )
    rows = []
    for name, runs in trained.items():
        means = [
            None if values[0] is None else float(np.mean(values))
            for values in zip(*runs, strict=True)
        ]
        half = (
            t.ppf(0.975, len(runs) - 1)
            * np.std([run.accuracy for run in runs], ddof=1)
            / np.sqrt(len(runs))
        )
        share = f"{100 * (means[0] or 0):.1f} % ± {100 * half:.1f}"
        rows.append([name, *(number(mean) for mean in means[1:4]), share, f"{means[4]:.1f}"])
    show_table(
        f"{result.dataset}, {arguments.seeds} seeds, δ = {delta:g}",
        (
            "trained",
            "ε, record added or removed",
            "ε, record replaced",
            "noise",
            "accuracy",
            "seconds",
        ),
        rows,
        "means over the seeds; accuracy on the test split, with Student's 95 % interval",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds (default 5)")
    parser.add_argument("--epochs", type=int, default=40, help="epochs of Opacus")
    parser.add_argument(
        "--share", type=float, default=0.25, help="share of the records in a batch, on average"
    )
    parser.add_argument("--lr", type=float, default=2.0, help="learning rate of Opacus")
    parser.add_argument(
        "--clip", type=float, default=1.0, help="largest norm of a record's gradient"
    )
    arguments, overrides = parser.parse_known_args()
    if arguments.seeds < 2:
        parser.error(f"--seeds {arguments.seeds}: must be 2 or more, because an interval needs two")
    warnings.simplefilter(
        "ignore"
    )  # Opacus warns that its noise is not cryptographic, and of hooks
    compare_students(overrides, arguments)


if __name__ == "__main__":
    main()
