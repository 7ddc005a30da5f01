"""The aggregators of the papers, as settings of the noisy argmax; counts and sums with noise.

Their arguments are the keys of conf/aggregator.
"""

from collections.abc import Callable
from functools import partial

from nzc.mechanisms.adjacency import Boost
from nzc.mechanisms.base import Mechanism
from nzc.mechanisms.noise import ExponentialNoise, GaussianNoise, GumbelNoise, LaplaceNoise, NoNoise
from nzc.mechanisms.noisy_argmax import NoisyArgmax, NoisyCounts
from nzc.mechanisms.noisy_sums import NoisySums
from nzc.mechanisms.own_parts import unbuilt
from nzc.mechanisms.screen import InteractiveScreen, StabilityScreen, ThresholdScreen

__all__ = [
    "NZC", "Confident", "Counts", "CountsGaussian", "GNMax", "Gumbel", "Interactive", "LNMax",
    "NZCGaussian", "PermuteAndFlip", "Plurality", "Stable", "Sums",
]  # fmt: skip


def Plurality() -> NoisyArgmax:
    """Release the largest count without noise: the papers' "clean votes". It has no privacy."""
    return NoisyArgmax(NoNoise())


def LNMax(gamma: float) -> NoisyArgmax:
    """Release argmax(n + Lap(1/γ)) (PATE 2017). `gamma` is the inverse scale, in 1/votes."""
    return NoisyArgmax(LaplaceNoise(gamma))


def GNMax(sigma: float) -> NoisyArgmax:
    """Release argmax(n + N(0, σ²)) (Scalable PATE 2018). `sigma` is in votes."""
    return NoisyArgmax(GaussianNoise(sigma))


def Gumbel(gamma: float) -> NoisyArgmax:
    """Release label j with Pr ∝ e^(γ n_j): the exponential mechanism (McSherry, Talwar 2007)."""
    return NoisyArgmax(GumbelNoise(gamma))


def Counts(gamma: float) -> NoisyCounts:
    """Release n + Lap(1/γ), rounded: noisy histograms. In own cells all cost a pure ε = 2γ."""
    return NoisyCounts(LaplaceNoise(gamma))


def CountsGaussian(sigma: float) -> NoisyCounts:
    """Release n + N(0, σ²), rounded: whole noisy histograms."""
    return NoisyCounts(GaussianNoise(sigma))


def Sums(sigma: float) -> NoisySums:
    """Release a sum of bounded vectors plus N(0, σ²): sufficient statistic perturbation.

    `sigma` is in lengths of one record's vector (Ferrando and Sheldon 2025, arXiv 2405.15002).
    """
    return NoisySums(GaussianNoise(sigma))


def PermuteAndFlip(gamma: float) -> NoisyArgmax:
    """Release argmax(n + Exp(1/γ)) (McKenna and Sheldon 2020).

    At equal pure ε it is never worse than `Gumbel`.
    """
    return NoisyArgmax(ExponentialNoise(gamma))


def Confident(threshold: float, sigma1: float, sigma: float) -> NoisyArgmax:
    """GNMax with noise σ where max n + N(0, σ₁²) ≥ threshold; else abstain.

    Scalable PATE 2018, Algorithm 1.
    """
    return NoisyArgmax(GaussianNoise(sigma), screen=ThresholdScreen(threshold, sigma1))


def Interactive(
    threshold: float,
    sigma1: float,
    sigma: float,
    confidence: float,
    first: NoisyArgmax | None = None,
) -> NoisyArgmax:
    """GNMax where the teachers disagree with the student: see `InteractiveScreen`.

    Scalable PATE 2018, Algorithm 2. `first` is the mechanism before there is a student; None:
    `Confident` with the same parameters.
    """
    first = first or Confident(threshold, sigma1, sigma)
    return NoisyArgmax(
        GaussianNoise(sigma), screen=InteractiveScreen(threshold, sigma1, confidence), first=first
    )


def Stable(threshold: float, sigma1: float) -> NoisyArgmax:
    """Release the plurality where its distance to a flip + N(0, σ₁²) reaches `threshold`.

    NZC's idea made sound; see `StabilityScreen`.
    """
    return NoisyArgmax(NoNoise(), screen=StabilityScreen(threshold, sigma1))


def NZC(c: float, gamma: float, sensitivity: str = "constant", beta: float = 1.0) -> NoisyArgmax:
    """Add c to the largest count, then Lap(Δ/γ) (Near-Zero-Cost, 2020); see `Boost` for Δ."""
    return NoisyArgmax(LaplaceNoise(gamma), Boost(c, sensitivity, beta))


def NZCGaussian(
    c: float, sigma: float, sensitivity: str = "constant", beta: float = 1.0
) -> NoisyArgmax:
    """Add c to the largest count, then N(0, Δ²σ²) (Near-Zero-Cost, 2020); see `Boost` for Δ."""
    return NoisyArgmax(GaussianNoise(sigma), Boost(c, sensitivity, beta))


def _refuse(preset: Callable[..., Mechanism], *_: object, **__: object) -> None:
    raise unbuilt("mechanism", preset)


for _preset in [globals()[name] for name in __all__]:
    for _method in ("between", "cost", "release"):  # as of a mechanism that nobody has built
        setattr(_preset, _method, partial(_refuse, _preset))
