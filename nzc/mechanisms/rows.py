"""How many rows are worth asking in own cells, and how many right labels to expect: from public facts alone."""

import numpy as np

from nzc.mechanisms.noise import Noise


def rows_to_ask(records: int, classes: int, public: int, noise_std: float) -> int:
    """Return how many of the public rows are best asked: a cell should have seven times more records than noise.

    At least one for each class. At most a quarter of the public rows, and a thousand: more no longer help.
    noise_std is the standard deviation of the noise of one count.
    """
    return max(int(min(max(records / (7 * noise_std), classes), public / 4, 1000)), 1)


def expected_right(records: int, classes: int, rows: int, noise: Noise, agreement: float = 0.8) -> float:
    """Return the expected share of cells whose largest noisy count is that of the right class.

    Each cell has its equal part of the records; `agreement` is the share of them that have the right class, and the
    others are spread evenly. It is an estimate: real cells differ in size, which costs, and smoothing shares counts.
    """
    shares = np.array([agreement, *[(1 - agreement) / (classes - 1)] * (classes - 1)])
    return float(np.exp(noise.log_law(records / rows * shares[None]))[0, 0])
