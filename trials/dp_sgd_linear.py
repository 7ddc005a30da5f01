"""What does DP-SGD learn at the same ε and the same unit of privacy, with what is known to be best on a CPU?

A linear classifier on features that cost nothing (Tramèr and Boneh 2021, "Differentially private learning needs better
features"), trained by full-batch gradient descent with clipping, Gaussian noise and averaged weights (De et al. 2022,
"Unlocking high-accuracy differentially private image classification": large batches, averaged weights). Two kinds of
features:

    scatter         ScatterNet of two scales: nothing is learned
    representation  the vectors that nzc's contrastive network learned from the public rows without labels

Each feature is scaled by its mean and spread on the public rows, and a row to length 1. The unit of privacy is nzc's, one replaced record: it
moves the summed gradient by at most twice the clipping norm. Without subsampling, T steps of noise compose exactly to
one Gaussian release at μ = 2√T/noise, so ε is exact too.

Learning rate and number of steps are chosen, at each ε, by the true labels of the public rows. This favours DP-SGD: nzc has no such labels.

    pip install kymatio && python trials/dp_sgd_linear.py dataset=mnist dataset.root=DIR representation=contrastive
"""

import argparse
from itertools import product

import hydra
import numpy as np
import torch
from hydra import initialize_config_dir
from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D
from rich.progress import track
from rich.table import Table
from scipy.optimize import brentq

from nzc.accounting.data_independent import gaussian
from nzc.app.components import build
from nzc.app.config import CONF, register
from nzc.data import DataSplits
from nzc.networks import as_input
from nzc.runs.formatting import show
from nzc.types import AnyArray

CLIP = 1.0
STEPS, RATES = (20, 60), (1.0, 4.0, 16.0)


def scatter(x: AnyArray) -> torch.Tensor:
    """Return ScatterNet features [rows, features] of images."""
    images = as_input(torch.from_numpy(x))
    made = ScatteringTorch2D(J=2, shape=tuple(images.shape[2:]))
    return torch.cat([made(part.contiguous()).flatten(1) for part in images.split(1000)])


def scaled(parts: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return features of private, public and test rows, scaled by the public ones, each row of length 1."""
    mean, spread = parts[1].mean(dim=0), parts[1].std(dim=0).clamp(min=1e-4)
    return [torch.nn.functional.normalize((part - mean) / spread, dim=1) for part in parts]


def train(
    x: torch.Tensor, y: torch.Tensor, classes: int, mu: float, steps: int, rate: float, rng: torch.Generator
) -> torch.Tensor:
    """Return averaged weights [features + 1, classes] of a linear softmax classifier, as private as one release at μ."""
    x = torch.nn.functional.pad(x, (0, 1), value=1.0)
    target = torch.nn.functional.one_hot(y, classes).float()
    weights, total = torch.zeros(x.shape[1], classes), torch.zeros(x.shape[1], classes)
    norms = x.norm(dim=1, keepdim=True)
    noise = 2 * CLIP * np.sqrt(steps) / mu
    for step in range(steps):
        error = torch.softmax(x @ weights, dim=1) - target  # a record's gradient is the outer product of x and error
        error *= (CLIP / (norms * error.norm(dim=1, keepdim=True)).clamp(min=1e-12)).clamp(max=1.0)
        gradient = x.T @ error + noise * torch.randn(weights.shape, generator=rng)
        weights = weights - rate * gradient / len(x)
        if step >= steps // 2:
            total += weights
    return total


def accuracy(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> float:
    return float(((x @ weights[:-1] + weights[-1]).argmax(dim=1) == y).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2])
    parser.add_argument("--delta", type=float, default=1e-5)
    arguments, overrides = parser.parse_known_args()
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", overrides=overrides)
    splits: DataSplits = build(cfg, "dataset").load()
    rows = [splits.private.x, splits.public.x, splits.test.x]
    private, public, test = (
        torch.from_numpy(np.asarray(each.y)) for each in (splits.private, splits.public, splits.test)
    )
    features = (
        {"scatter": [scatter(each) for each in rows]}
        if splits.public.x.ndim == 4
        else {"features": [torch.from_numpy(each) for each in rows]}
    )
    encoder = getattr(build(cfg, "representation"), "encoder", None)
    if encoder is not None:
        encode = encoder.fit(splits.public.x, build(cfg, "trainer"))
        features["representation"] = [torch.from_numpy(encode(each)) for each in rows]

    table = Table(title=f"{len(private):,} records, one replaced, δ = {arguments.delta:g}", title_style="bold")
    for column in ("features", "ε", "steps", "rate", "public rows", "test split"):
        table.add_column(column, justify="left" if column == "features" else "right")
    for name, parts in features.items():
        x, seen, tested = scaled(parts)
        for epsilon in track(arguments.epsilons, name, transient=True):
            mu = brentq(lambda m, e=epsilon: gaussian(m, arguments.delta) - e, 1e-6, 1e3) * (1 - 1e-9)
            found = {}
            for steps, rate in product(STEPS, RATES):
                runs = []
                for seed in range(arguments.seeds):
                    weights = train(x, private, splits.classes, mu, steps, rate, torch.Generator().manual_seed(seed))
                    runs.append((accuracy(weights, seen, public), accuracy(weights, tested, test)))
                found[steps, rate] = np.array(runs)
            (steps, rate), best = max(found.items(), key=lambda each: each[1][:, 0].mean())
            means = [
                f"{100 * value:.1f} ± {100 * spread:.1f} %"
                for value, spread in zip(best.mean(0), best.std(0, ddof=1), strict=True)
            ]
            table.add_row(name, f"{epsilon:g}", str(steps), f"{rate:g}", *means)
    show(table)


if __name__ == "__main__":
    main()
