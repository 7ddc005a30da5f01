"""The audit of a mechanism: it runs at the worst neighbours, and what leaks there bounds ε."""

from numpy.random import Generator

from nzc.accounting.audit import Contradiction, audit_pair, worst_pair
from nzc.mechanisms.base import Mechanism
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.mechanisms.own_parts import unbuilt
from nzc.validation import as_generator

__all__ = ["audit"]

#: An audit runs at most so many queries; its result bounds every longer run from below as well.
_AT_MOST = 100


def audit(
    mechanism: Mechanism,
    teachers: int,
    classes: int,
    queries: int,
    trials: int = 20_000,
    delta: float = 1e-5,
    rng: Generator | int | None = None,
) -> float | None:
    """Return an empirical lower bound on the mechanism's ε at δ, 95 % confidence; 0: none found.

    None: there is no law to audit. The mechanism is run `trials` times on its worst pair of
    neighbouring histograms, each time with `queries` queries. accounting.audit.Contradiction: the
    bound is above what accounting says holds for any votes.
    """
    if callable(mechanism):
        raise unbuilt("mechanism", mechanism)
    if not isinstance(mechanism, NoisyArgmax) or mechanism.releases == "truth":
        return None
    largest = [] if mechanism.screen is None else [round(min(mechanism.screen.threshold, teachers))]
    pair = worst_pair(mechanism.log_law, teachers, classes, largest)
    queries = min(queries, _AT_MOST)
    if not mechanism.adjacency.everywhere:
        queries = 1  # a vote moves within one histogram
    evidence = mechanism.evidence(pair)
    drawn = as_generator(rng or 0)
    epsilon = audit_pair(mechanism.draw, evidence, pair, queries, trials, delta, drawn)
    bound = mechanism.promise(queries, queries).data_independent(delta)
    if epsilon > bound:
        found = f"audit: ε ≥ {epsilon:.3f} at 95 % confidence"
        raise Contradiction(f"{found}, but epsilon.data_independent={bound:.3f}")
    return epsilon
