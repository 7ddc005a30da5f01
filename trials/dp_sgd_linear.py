"""What does DP-SGD learn at the same ε and for the same unit of privacy, by the best methods known for a CPU?

A linear classifier on features that cost nothing (Tramèr and Boneh 2021, "Differentially private learning needs better
features"), trained with the whole private split as one batch, clipping, Gaussian noise and averaged weights (De et al.
2022, "Unlocking high-accuracy differentially private image classification"). There are two kinds of features:

    scatter         ScatterNet of two scales; nothing is learned. Tables: the features themselves
    representation  vectors of nzc's contrastive network, which learned from the public rows without labels

Features are scaled by their mean and spread on the public rows, and every row then has length 1. The unit of privacy is
nzc's, one replaced record, which moves the sum of clipped gradients by at most twice the clipping norm C. T steps with
noise of standard deviation s are one Gaussian release at μ = 2C√T/s (Dong, Roth, Su 2019, Corollary 2). So ε is exact.

Steps and learning rate are chosen at each ε by the true labels of the public rows. This favours DP-SGD: nzc's student
does not have these labels.

    pip install -e ".[dpsgd]"
    python trials/dp_sgd_linear.py dataset=mnist dataset.root=DIR representation=contrastive
"""

import argparse
from functools import partial
from itertools import product

import hydra
import numpy as np
import torch
from hydra import initialize_config_dir
from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D  # kymatio.torch needs an older scipy
from rich.progress import track
from rich.table import Table
from scipy.optimize import brentq
from torch import Generator, Tensor
from torch.nn import functional as F

from nzc.accounting.data_independent import gaussian
from nzc.app.components import build
from nzc.app.config import CONF, register
from nzc.data import DataSplits
from nzc.networks import as_input
from nzc.runs.formatting import show
from nzc.types import AnyArray

STEPS, RATES = (20, 60, 150), (4.0, 16.0, 64.0)


def scatter(x: AnyArray) -> Tensor:
    """Return ScatterNet features [rows, features] of images; features as they are."""
    rows = as_input(torch.from_numpy(x))
    if rows.ndim == 2:
        return rows
    transform = ScatteringTorch2D(J=2, shape=tuple(rows.shape[2:]))
    return torch.cat([transform(part.contiguous()).flatten(1) for part in rows.split(1000)])


def scaled(private: Tensor, public: Tensor, test: Tensor) -> list[Tensor]:
    """Return the features scaled by the public ones, every row of length 1, with a constant for the bias."""
    mean, spread = public.mean(dim=0), public.std(dim=0).clamp(min=1e-4)
    rows = [F.normalize((part - mean) / spread, dim=1) for part in (private, public, test)]
    return [F.pad(part, (0, 1), value=0.5) for part in rows]


def train(x: Tensor, y: Tensor, classes: int, mu: float, steps: int, rate: float, seed: int) -> Tensor:
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


def accuracy(weights: Tensor, x: Tensor, y: Tensor) -> float:
    return float(((x @ weights).argmax(dim=1) == y).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the noise; the first one chooses the settings")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.05, 0.1, 0.5, 2])
    parser.add_argument("--delta", type=float, default=1e-5)
    arguments, overrides = parser.parse_known_args()
    if arguments.seeds < 2:
        parser.error(f"--seeds {arguments.seeds}: must be 2 or more, because a spread needs two")
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", overrides=overrides)
    splits: DataSplits = build(cfg, "dataset").load()
    parts = (splits.private, splits.public, splits.test)
    private, public, test = (torch.from_numpy(part.y) for part in parts)
    name = "scatter" if splits.public.x.ndim == 4 else "as they are"
    features = {name: [scatter(part.x[:]) for part in parts]}
    if (encoder := getattr(build(cfg, "representation"), "encoder", None)) is not None:
        encode = encoder.fit(splits.public.x, build(cfg, "trainer"))
        features["representation"] = [torch.from_numpy(encode(part.x)) for part in parts]

    table = Table(title=f"{len(private):,} records, one replaced, δ = {arguments.delta:g}", title_style="bold")
    for column in ("features", "ε", "steps", "rate", "public rows", "test split"):
        table.add_column(column, justify="left" if column == "features" else "right")
    for name in features:
        x, seen, tested = scaled(*features[name])
        features[name] = []  # they take a gigabyte
        for epsilon in track(arguments.epsilons, name, transient=True):
            mu = brentq(lambda mu, epsilon=epsilon: gaussian(mu, arguments.delta) - epsilon, 1e-6, 1e3) * (1 - 1e-9)

            fit = partial(train, x, private, splits.classes, mu)
            tried = {each: accuracy(fit(*each, seed=0), seen, public) for each in product(STEPS, RATES)}
            steps, rate = max(tried, key=lambda each: tried[each])
            runs = [fit(steps, rate, seed=seed) for seed in range(arguments.seeds)]
            found = [[accuracy(run, *rows) for run in runs] for rows in ((seen, public), (tested, test))]
            shown = [f"{100 * np.mean(each):.1f} ± {100 * np.std(each, ddof=1):.1f} %" for each in found]
            table.add_row(name, f"{epsilon:g}", str(steps), f"{rate:g}", *shown)
    show(table)


if __name__ == "__main__":
    main()
