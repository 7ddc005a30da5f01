"""What does DP-SGD learn at the same ε? Both comparisons have the same private records, test split and δ as nzc.

    pip install -e ".[dpsgd]"
    python trials/dp_sgd.py [--seeds 5] [OVERRIDE ...]      such as recipe=papers dataset=mnist
    python trials/dp_sgd.py --linear dataset=mnist dataset.root=DIR representation=contrastive

**Opacus**, beside nzc's student with the same network; every seed draws the records anew. Both protect one record, but
their neighbouring datasets differ: in nzc one record is replaced, in Opacus one is added or removed. To replace a
record is to remove one and to add one: (ε, δ) for the latter implies (2ε, (1 + e^ε)δ) for the former. So DP-SGD is
trained twice: at nzc's ε for added or removed records, which is a weaker promise, and at half of it, which is the same
promise by group privacy. A fair comparison lies between the two. nzc's student sees public rows, no private record.

**A linear classifier** on features that cost nothing (Tramèr and Boneh 2021, "Differentially private learning needs
better features"), trained with the whole private split as one batch, clipping, Gaussian noise and averaged weights (De
et al. 2022, "Unlocking high-accuracy differentially private image classification"). There are two kinds of features:

    scatter         ScatterNet of two scales; nothing is learned. Tables: the features themselves
    representation  vectors of nzc's contrastive network, which learned from the public rows without labels

Features are scaled by their mean and spread on the public rows, and every row then has length 1. The unit of privacy is
nzc's, one replaced record, which moves the sum of clipped gradients by at most twice the clipping norm C. T steps with
noise of standard deviation s are one Gaussian release at μ = 2C√T/s (Dong, Roth, Su 2019, Corollary 2). So ε is exact.
Steps and learning rate are chosen at each ε by the true labels of the public rows. This favours DP-SGD: nzc's student
does not have these labels.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from _nzc import compose, show_table
from rich.progress import track
from scipy.optimize import brentq
from scipy.stats import t
from torch import Generator, Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nzc import networks
from nzc.accounting.data_independent import gaussian
from nzc.app.build import build
from nzc.data import DataSplits
from nzc.networks import as_input
from nzc.runs.formatting import number
from nzc.types import AnyArray

#: What `--linear` tries at each ε.
STEPS, RATES = (20, 60, 150), (4.0, 16.0, 64.0)


class Trained(NamedTuple):
    """The result of one training: ε at δ and the noise over the clipping norm, where they are known."""

    accuracy: float
    epsilon_added: float | None
    epsilon_replaced: float | None
    noise: float | None
    seconds: float


def run_nzc(overrides: list[str]) -> dict[str, Any]:
    """Return result.json of `nzc OVERRIDES`, run in a process of its own."""
    quiet = ["tracking=none", "figures=false", "trainer.progress=false"]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "nzc", *quiet, *overrides]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        result: dict[str, Any] = json.loads(next(Path(folder).glob("outputs/**/result.json")).read_text())
        return result


def train_opacus(
    splits: DataSplits, network: str, epsilon: float, delta: float, seed: int, arguments: argparse.Namespace
) -> tuple[float, float, float]:
    """Train with Opacus at (ε, δ) for an added or removed record. Return accuracy, noise multiplier and seconds."""
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
    return float((predicted == splits.test.y).mean()), optimizer.noise_multiplier, time.perf_counter() - start


def compare_students(overrides: list[str], arguments: argparse.Namespace) -> None:
    """Show nzc's student beside the same network trained by Opacus."""
    trained: dict[str, list[Trained]] = {}
    for seed in track(range(arguments.seeds), "Seeds", transient=True):
        seeds = [f"seed={seed}", *[f"dataset.seed={seed}"] * ("seed" in compose(overrides).dataset)]
        cfg = compose([*overrides, *seeds])
        splits: DataSplits = build(cfg, "dataset").load()
        result = run_nzc([*overrides, *seeds])
        epsilon, delta = result["epsilon"], result["delta"]
        by_nzc = Trained(result["accuracy"], None, epsilon["data_independent"], None, result["seconds"]["total"])
        trained.setdefault(f"nzc: {result['aggregator']}, {result['student']}", []).append(by_nzc)
        for name in ("data_independent", "exact"):
            whole, half = epsilon[name], epsilon[name] / 2
            row = f"DP-SGD at nzc's ε {name.replace('_', '-')}"
            for suffix, added, left in (("", whole, delta), (", by group privacy", half, delta / (1 + np.exp(half)))):
                accuracy, noise, seconds = train_opacus(splits, cfg.dataset.network, added, left, seed, arguments)
                replaced = whole if suffix else None
                trained.setdefault(row + suffix, []).append(Trained(accuracy, added, replaced, noise, seconds))
    rows = []
    for name, runs in trained.items():
        means = [None if values[0] is None else float(np.mean(values)) for values in zip(*runs, strict=True)]
        half = t.ppf(0.975, len(runs) - 1) * np.std([run.accuracy for run in runs], ddof=1) / np.sqrt(len(runs))
        share = f"{100 * (means[0] or 0):.1f} % ± {100 * half:.1f}"
        rows.append([name, *(number(mean) for mean in means[1:4]), share, f"{means[4]:.1f}"])
    show_table(
        f"{result['dataset']}, {arguments.seeds} seeds, δ = {delta:g}",
        ("trained", "ε, record added or removed", "ε, record replaced", "noise", "accuracy", "seconds"),
        rows,
        "means over the seeds; accuracy on the test split, with Student's 95 % interval",
    )


def scatter(x: AnyArray) -> Tensor:
    """Return ScatterNet features [rows, features] of images; features as they are."""
    rows = as_input(torch.from_numpy(x))
    if rows.ndim == 2:
        return rows
    from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D  # kymatio.torch needs an older scipy

    transform = ScatteringTorch2D(J=2, shape=tuple(rows.shape[2:]))
    return torch.cat([transform(part.contiguous()).flatten(1) for part in rows.split(1000)])


def scaled(private: Tensor, public: Tensor, test: Tensor) -> list[Tensor]:
    """Return the features scaled by the public ones, every row of length 1, with a constant for the bias."""
    mean, spread = public.mean(dim=0), public.std(dim=0).clamp(min=1e-4)
    rows = [F.normalize((part - mean) / spread, dim=1) for part in (private, public, test)]
    return [F.pad(part, (0, 1), value=0.5) for part in rows]


def train_linear(x: Tensor, y: Tensor, classes: int, mu: float, steps: int, rate: float, seed: int) -> Tensor:
    """Return averaged weights [features, classes] of a linear softmax classifier, as private as one release at μ."""
    rng, target = Generator().manual_seed(seed), F.one_hot(y, classes).float()
    weights, total = torch.zeros(x.shape[1], classes), torch.zeros(x.shape[1], classes)
    lengths, noise = x.norm(dim=1, keepdim=True), 2 * np.sqrt(steps) / mu  # C = 1
    for step in range(steps):
        error = torch.softmax(x @ weights, dim=1) - target  # a record's gradient is the outer product of x and this
        error /= (lengths * error.norm(dim=1, keepdim=True)).clamp(min=1)
        gradient = x.T @ error + noise * torch.randn(weights.shape, generator=rng)
        weights = weights - rate * gradient / len(x)
        total += weights * (step >= steps // 2)
    return total


def compare_linear(overrides: list[str], arguments: argparse.Namespace) -> None:
    """Show linear classifiers at each ε."""
    cfg, delta = compose(overrides), arguments.delta
    splits: DataSplits = build(cfg, "dataset").load()
    parts = (splits.private, splits.public, splits.test)
    private, public, test = (torch.from_numpy(part.y) for part in parts)
    features = {"scatter" if splits.public.x.ndim == 4 else "as they are": [scatter(part.x[:]) for part in parts]}
    if (encoder := getattr(build(cfg, "representation"), "encoder", None)) is not None:
        encode = encoder.fit(splits.public.x, build(cfg, "trainer"))
        features["representation"] = [torch.from_numpy(encode(part.x)) for part in parts]

    def accuracy(weights: Tensor, x: Tensor, y: Tensor) -> float:
        return float(((x @ weights).argmax(dim=1) == y).float().mean())

    rows = []
    for name in features:
        x, seen, tested = scaled(*features[name])
        features[name] = []  # they take a gigabyte
        for epsilon in track(arguments.epsilons, name, transient=True):
            mu = brentq(lambda mu, epsilon=epsilon: gaussian(mu, delta) - epsilon, 1e-6, 1e3) * (1 - 1e-9)
            fit = partial(train_linear, x, private, splits.classes, mu)
            tried = {pair: accuracy(fit(*pair, seed=0), seen, public) for pair in product(STEPS, RATES)}
            steps, rate = max(tried, key=lambda pair: tried[pair])
            runs = [fit(steps, rate, seed=seed) for seed in range(arguments.seeds)]
            shares = [[accuracy(run, *split) for run in runs] for split in ((seen, public), (tested, test))]
            shown = [f"{100 * np.mean(share):.1f} ± {100 * np.std(share, ddof=1):.1f} %" for share in shares]
            rows.append((name, f"{epsilon:g}", str(steps), f"{rate:g}", *shown))
    title = f"{len(private):,} records, one replaced, δ = {delta:g}"
    show_table(title, ("features", "ε", "steps", "rate", "public rows", "test split"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds (default 5)")
    parser.add_argument("--epochs", type=int, default=40, help="epochs of Opacus")
    parser.add_argument("--share", type=float, default=0.25, help="share of the records in a batch, on average")
    parser.add_argument("--lr", type=float, default=2.0, help="learning rate of Opacus")
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of a record's gradient")
    parser.add_argument("--linear", action="store_true", help="the linear classifier; the first seed chooses settings")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.05, 0.1, 0.5, 2], help="of the linear one")
    parser.add_argument("--delta", type=float, default=1e-5, help="of the linear one")
    arguments, overrides = parser.parse_known_args()
    if arguments.seeds < 2:
        parser.error(f"--seeds {arguments.seeds}: must be 2 or more, because an interval needs two")
    warnings.simplefilter("ignore")  # Opacus warns that its noise is not cryptographic, and of hooks
    (compare_linear if arguments.linear else compare_students)(overrides, arguments)


if __name__ == "__main__":
    main()
