"""The audit: its lower bound is one, finds what leaks, and is never above a number that may be
published.
"""

import numpy as np
import pytest
from scipy.stats import binom, norm

import nzc
from nzc.accounting.audit import Contradiction, audit, lower_bound, worst_pair
from nzc.accounting.data_independent import gaussian
from nzc.mechanisms.sparse_vector import SparseScreen

#: The law of the plurality.
certain = nzc.NoisyArgmax(nzc.NoNoise()).log_law


@pytest.mark.parametrize("stay", [0.5, 0.7])
def test_lower_bound_is_above_the_truth_in_at_most_one_in_twenty(stay):
    """Randomised response, whose ε at δ is known; the binomial test is at a false-alarm rate of
    1e-6.
    """
    runs, delta, rng = 1000, 1e-5, np.random.default_rng(0)
    truth = max(0.0, np.log((stay - delta) / (1 - stay)))

    def bit(probability):
        return lambda trials, rng: (rng.random(trials) < probability).astype(float)

    bounds = [lower_bound(bit(stay), bit(1 - stay), 600, delta, rng) for _ in range(runs)]
    assert sum(bound > truth for bound in bounds) <= binom.ppf(1 - 1e-6, runs, 0.05)
    assert np.median(bounds) >= 0.5 * truth


def _evidence(log_law, pair):
    """The log-likelihood ratio of labels by their law."""
    p, q = (np.maximum(log_law(votes[None])[0], -700) for votes in pair)
    return lambda labels: (p - q)[labels]


def test_gnmax_stays_below_its_bound_and_finds_most_of_what_the_trials_can_show():
    """A thousand labels of a tie: their counts differ by a mean of √(2/π) of the noise's own shift."""
    sigma, queries, delta = 40.0, 1000, 1e-5
    mechanism = nzc.GNMax(sigma)
    pair = worst_pair(mechanism.log_law, 250, 2)
    assert sorted(pair[0]) == [125, 125] and abs(pair[0] - pair[1]).sum() == 2
    found = audit(
        mechanism.release,
        mechanism.evidence(pair),
        pair,
        queries,
        10_000,
        delta,
        np.random.default_rng(3),
    )
    mu = np.sqrt(2 * queries) / sigma
    visible = np.log(
        norm.cdf(mu * np.sqrt(2 / np.pi) + norm.ppf(0.01)) / 0.01
    )  # an event seen 50 times in 5,000
    assert 0.7 * visible < found < gaussian(mu, delta)


def test_a_sampler_with_less_noise_than_is_charged_fails_loudly(monkeypatch):
    """σ mistaken by a factor of 3."""
    monkeypatch.setattr(
        nzc.GaussianNoise, "sample", lambda self, shape, rng: rng.normal(scale=40 / 3, size=shape)
    )
    with pytest.raises(
        Contradiction, match=r"ε ≥ .* at 95 % confidence, but epsilon\.data_independent="
    ):
        nzc.audit(nzc.GNMax(40), 250, 2, 100, rng=np.random.default_rng(4))


def test_nzc_leaks_as_much_as_the_trials_can_show():
    boosted, pair, found = nzc.NZC(c=1e100, gamma=0.05).release, worst_pair(certain, 250, 10), []
    for trials in (1000, 10_000, 100_000):
        found.append(
            audit(
                boosted, _evidence(certain, pair), pair, 1, trials, 1e-5, np.random.default_rng(5)
            )
        )
        assert found[-1] == pytest.approx(np.log(trials / 2 / -np.log(0.025)), abs=0.02)
    assert found[0] < found[1] < found[2]


@pytest.mark.parametrize(
    ("teachers", "classes"), [(1, 2), (2, 3), (3, 2), (7, 150), (250, 10), (5000, 3)]
)
def test_worst_pair_is_a_pair_of_neighbours_that_flips_a_plurality(teachers, classes):
    p, q = worst_pair(certain, teachers, classes)
    assert (
        p.sum() == q.sum() == teachers and p.min() >= 0 and q.min() >= 0 and abs(p - q).sum() == 2
    )
    assert p.argmax() != q.argmax()


# Every kind of number that may be published, against its audit.

TEACHERS, CLASSES = 50, 3
#: Mechanisms and queries; noise is small enough for an audit to see something.
MECHANISMS = [
    (nzc.GNMax(2), 1), (nzc.GNMax(5), 20), (nzc.LNMax(0.5), 1), (nzc.LNMax(0.2), 10), (nzc.Gumbel(1.0), 1),
    (nzc.Gumbel(0.3), 10), (nzc.PermuteAndFlip(1.0), 1), (nzc.PermuteAndFlip(0.3), 10),
    (nzc.Confident(threshold=30, sigma1=1.5, sigma=2), 1),
    (nzc.Confident(threshold=30, sigma1=4, sigma=3), 10), (nzc.Stable(threshold=6, sigma1=1.5), 1),
    (nzc.Stable(threshold=18, sigma1=4), 10), (nzc.NZC(c=2, gamma=1.0, sensitivity="global"), 1),
    (nzc.NZC(c=2, gamma=0.3, sensitivity="global"), 10), (nzc.NZC(c=1, gamma=0.2), 5),
    (nzc.NZC(c=1, gamma=0.2, sensitivity="local"), 5), (nzc.NZC(c=1, gamma=0.2, sensitivity="smooth", beta=0.1), 5),
    (nzc.NZCGaussian(c=2, sigma=2, sensitivity="global"), 5), (nzc.NZCGaussian(c=1, sigma=4), 5),
]  # fmt: skip
DELTA = 1e-4


def _audited(
    mechanism: nzc.NoisyArgmax, queries: int, trials: int, student: list[float] | None = None
) -> float:
    """The largest bound found at pairs around the screen's threshold; a run ends where its screen
    ends it.
    """

    def probs(votes: np.ndarray) -> np.ndarray | None:
        return None if student is None else np.broadcast_to(student, votes.shape)

    def law(votes: np.ndarray) -> np.ndarray:
        return mechanism.log_law(votes, probs(votes))

    def draw(votes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        labels = mechanism.draw(votes, rng, probs(votes)).reshape(-1, queries)
        reports = getattr(mechanism.screen, "cutoff", queries + 1)
        return np.where(np.cumsum(labels == -1, axis=1) >= reports, -1, labels).ravel()

    at = 0 if mechanism.screen is None else round(mechanism.screen.threshold)
    pairs = [worst_pair(law, TEACHERS, CLASSES, range(at - 3, at + 4) if at else [])]
    if at:  # the worst pair of a stable screen tells much, but too rarely for an audit
        tops = [TEACHERS // 2 + at + more for more in range(-3, 4)] + [
            TEACHERS - at,
            TEACHERS - at + 1,
        ]
        tops = [top for top in tops if top <= TEACHERS]
        pairs += [
            (np.array([top, TEACHERS - top, 0]), np.array([top - 1, TEACHERS - top + 1, 0]))
            for top in tops
        ]
    rng = np.random.default_rng(0)
    return max(
        audit(draw, _evidence(law, pair), pair, queries, trials, DELTA, rng) for pair in pairs
    )


@pytest.mark.slow
def test_no_audit_is_above_what_is_published() -> None:
    cases = [(mechanism, queries, None) for mechanism, queries in MECHANISMS]
    # The student is certain of class 0, and the teachers' disagreement with it is near the
    # threshold.
    cases.append(
        (nzc.Interactive(threshold=10, sigma1=2, sigma=2, confidence=0.9), 5, [1.0, 0.0, 0.0])
    )
    cases.append(
        (
            nzc.NoisyArgmax(
                nzc.NoNoise(), screen=SparseScreen(threshold=8.0, sigma1=3.0, cutoff=5)
            ),
            40,
            None,
        )
    )
    for mechanism, queries, student in cases:
        found = _audited(mechanism, queries, 100_000, student)
        assert found <= mechanism.promise(queries, queries).data_independent(DELTA), mechanism
        assert queries > 1 or found > 0
