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
import math
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
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nzc
from nzc import networks
from nzc.app.build import build
from nzc.app.config import compose_run
from nzc.data import DataSplits
from nzc.networks import as_input
from nzc.protocols.dp_sgd import LARGEST_RATE
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
    module: nn.Module,
    x: Tensor,
    y: Tensor,
    epsilon: float,
    delta: float,
    arguments: argparse.Namespace,
) -> tuple[nn.Module, float]:
    """Train with Opacus at (ε, δ) for an added or removed record.

    Without a learning rate, noise of all steps together moves a logit by 1, in standard deviations,
    as in nzc's baseline. Return the network and the noise multiplier.
    """
    from opacus import PrivacyEngine

    engine = PrivacyEngine()
    batch = DataLoader(TensorDataset(x, y), batch_size=round(arguments.share * len(y)))
    # By default 0.01 of ε is lost, which is much where ε is small.
    precision = {"eps_error": epsilon / 100, "epsilon_tolerance": epsilon / 1000}
    module, optimizer, batches = engine.make_private_with_epsilon(
        module=module, optimizer=torch.optim.SGD(module.parameters(), arguments.lr or 1.0),
        data_loader=batch, target_epsilon=epsilon, target_delta=delta, epochs=arguments.epochs,
        max_grad_norm=arguments.clip, **precision,
    )  # fmt: skip
    noise: float = optimizer.noise_multiplier
    if arguments.lr is None:
        steps = arguments.epochs * len(batches)
        in_a_step = noise * arguments.clip / optimizer.expected_batch_size
        optimizer.param_groups[0]["lr"] = min(LARGEST_RATE, 1 / (in_a_step * math.sqrt(steps)))

    for _ in range(arguments.epochs):
        for rows, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(module(rows), labels).backward()
            optimizer.step()
    assert engine.accountant.get_epsilon(delta, eps_error=precision["eps_error"]) <= epsilon
    return module.eval(), noise


def group_privacy(epsilon: float, delta: float) -> tuple[float, float]:
    """Return ε and δ for an added or removed record that imply these for a replaced one."""
    return epsilon / 2, delta / (1 + np.exp(epsilon / 2))


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
            whole = epsilon[name]
            row = f"DP-SGD at nzc's ε {name.replace('_', '-')}"
            for suffix, (added, left) in {
                "": (whole, delta),
                ", by group privacy": group_privacy(whole, delta),
            }.items():
                start = time.perf_counter()
                torch.manual_seed(seed)
                x = as_input(torch.from_numpy(splits.private.x))
                module = networks.build(cfg.dataset.network, tuple(x.shape[1:]), splits.classes)
                y = torch.from_numpy(splits.private.y)
                module, noise = train_opacus(module, x, y, added, left, arguments)
                predicted = networks.outputs(module, splits.test.x).argmax(dim=1).numpy()
                accuracy = float((predicted == splits.test.y).mean())
                seconds = time.perf_counter() - start
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
