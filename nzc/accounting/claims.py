"""The ε that the Near-Zero-Cost papers claim. These are no bounds: the boosted argmax has sensitivity 1 + c."""

import numpy as np


def nzc_laplace(queries: int, gamma: float, delta: float) -> float:
    """Return 4Tγ² + 2γ √(2T ln 1/δ) (NZC, KDD 2020, Theorem 4 and the text below it)."""
    return float(4 * queries * gamma**2 + 2 * gamma * np.sqrt(2 * queries * np.log(1 / delta)))


def nzc_gaussian(queries: int, sigma: float, delta: float) -> float:
    """Return T/σ² + 2 √(T ln(1/δ))/σ, the Rényi cost α/σ² of Scalable PATE 2018 at its best order."""
    return float(queries / sigma**2 + 2 * np.sqrt(queries * np.log(1 / delta)) / sigma)
