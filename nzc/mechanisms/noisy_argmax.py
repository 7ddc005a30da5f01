"""The one mechanism of all four papers: argmax of boosted counts plus noise, after a screen; and
the noisy counts.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields, replace
from types import NoneType
from typing import Any, ClassVar

import numpy as np

from nzc.accounting.cost import Cost
from nzc.accounting.data_independent import FREE, WorstCaseCost
from nzc.accounting.exact_noise import ExactGenerator
from nzc.mechanisms.adjacency import Adjacency
from nzc.mechanisms.noise import ExponentialNoise, GaussianNoise, GumbelNoise, LaplaceNoise, NoNoise
from nzc.mechanisms.noise.checks import require_draws, require_worst_case
from nzc.mechanisms.own_parts import require_kept, require_parts, require_statistic
from nzc.mechanisms.pricing import PricedArgmax
from nzc.mechanisms.screen import InteractiveScreen, StabilityScreen, ThresholdScreen
from nzc.mechanisms.votes import ABSTAIN
from nzc.types import Floats, Ints
from nzc.validation import InputError, is_shipped

_COARSE = 2.0**20  # seeded noise of larger counts is drawn exactly, in votes
#: Names of nzc's own parts together (presets.py), by the types of noise and screen, and whether
#: counts are boosted.
Names = dict[tuple[type, bool, type], str]


@dataclass(frozen=True, repr=False)
class NoisyArgmax(PricedArgmax):
    """argmax_j { n_j + c·[j is the plurality] + Δ·Z_j } with independent noise Z; ties break to the
    lowest class index.

    Votes are [queries, classes], whole counts of 0 or more; every row sums to the number of
    teachers, or with `between(Abstentions(teachers))` to at most so many. By default c = 0, Δ = 1,
    and all queries are answered.
    """

    _names: ClassVar[Names] = {
        (NoNoise, False, NoneType): "Plurality",
        (LaplaceNoise, False, NoneType): "LNMax",
        (GaussianNoise, False, NoneType): "GNMax",
        (GumbelNoise, False, NoneType): "Gumbel",
        (ExponentialNoise, False, NoneType): "PermuteAndFlip",
        (LaplaceNoise, True, NoneType): "NZC",
        (GaussianNoise, True, NoneType): "NZCGaussian",
        (GaussianNoise, False, ThresholdScreen): "Confident",
        (GaussianNoise, False, InteractiveScreen): "Interactive",
        (NoNoise, False, StabilityScreen): "Stable",
    }
    first: "NoisyArgmax | None" = None  # the mechanism before there is a student; None: this one

    def __init_subclass__(cls) -> None:
        require_kept("_target_", cls, "write a function that returns a nzc.NoisyArgmax")

    def __post_init__(self) -> None:
        require_parts(self)
        if not is_shipped(self.noise):  # nzc's tests compare its own noises with their laws
            if np.isfinite(self.boost.shift):  # else no bound is used
                require_worst_case(self.noise, self.boost.shift)
            require_draws(self.noise)

    def __repr__(self) -> str:
        """Return the mechanism with all parameters: by the papers' name, or by its parts where one
        is not nzc's own.
        """
        boost = None if self.boost.plain else self.boost
        name = self._names.get((type(self.noise), boost is not None, type(self.screen)))
        shown: dict[str, Any] = {"boost": boost, "screen": self.screen, "noise": self.noise}
        if name is not None:
            settings: dict[str, Any] = {}
            for part in filter(None, shown.values()):
                settings |= {field.name: getattr(part, field.name) for field in fields(part)}
            shown = settings
        shown |= {
            "first": self.first,
            "adjacency": None if self.adjacency == Adjacency() else self.adjacency,
        }
        arguments = ", ".join(
            f"{key}={value!r}" for key, value in shown.items() if value is not None
        )
        return f"{name or type(self).__name__}({arguments})"

    def check(self, teachers: int) -> None:
        """Raise InputError where so few teachers make no sense for the screen."""
        for part in (self.screen, self.first):
            if part is not None:
                part.check(teachers)

    def release(
        self, votes: Ints, rng: np.random.Generator, student_probs: Floats | None = None
    ) -> Ints:
        """Return one label per query, [queries]; ABSTAIN (−1) where a query is not answered.

        Privacy boundary: the votes are private, the labels may be published at the ε of
        `cost(votes, labels)`, drawn by `nzc.system_rng()`: who knows a seed can subtract its noise.
        `student_probs` are the student's class probabilities, [queries, classes]; None while there
        is no student.
        """
        votes = self.votes(votes)
        if self.screen is not None and not is_shipped(self.screen) and len(votes):
            require_statistic(
                self.screen, int(votes[0].sum()), votes.shape[1]
            )  # both numbers are public
        labels = self.draw(votes, rng, self.known_to_screen(votes, student_probs))
        return (
            labels
            if self.screen is None
            else np.where(self.screen.ended(labels != ABSTAIN), ABSTAIN, labels)
        )

    def reinforce(self, labels: Ints, student_probs: Floats) -> Ints:
        """Return `labels`, with the sure student's own label where a query was not answered:
        post-processing.
        """
        return labels if self.screen is None else self.screen.reinforce(labels, student_probs)

    def between(self, adjacency: Adjacency) -> "NoisyArgmax":
        """Return this mechanism for votes with other neighbours. InputError: it has no price for
        them.
        """
        refused = None
        if not adjacency.everywhere:
            refused = "must have no screen where records count in their own cells; or type teachers=ensemble"
        elif (
            adjacency.teachers is not None
            and self.screen is not None
            and not is_shipped(self.screen)
        ):
            refused = "must be a screen of nzc where teachers abstain: a vote that appears may change yours by more"
        elif not adjacency.known and (self.one_round or self.delta_cost is not None):
            refused = "must have no such screen where a record is in several teachers (budget.groups) or in samples"
        if self.screen is not None and refused:
            raise InputError("_target_", type(self.screen).__name__, refused)
        mechanism = copy(self)  # no second comparison of a user's noise with its law
        object.__setattr__(mechanism, "adjacency", adjacency)
        object.__setattr__(
            mechanism, "first", None if self.first is None else self.first.between(adjacency)
        )
        return mechanism

    def worst_case_epsilon(
        self,
        queries: int,
        delta: float,
        rough: bool = False,
        answers: int | None = None,
        other: WorstCaseCost = FREE,
    ) -> float:
        """Return ε at δ of `queries` queries, whatever the votes, and whichever of them are asked
        by `first`.

        rough    see `Cost.data_independent`
        answers  how many queries are answered at most; None: all
        other    the cost of another release beside the labels
        """
        answered = queries if answers is None else min(queries, answers)
        cost = self.promise(queries, answered)
        if self.first is not None:
            cost = cost.dearer(self.first.promise(queries, answered))
        return (cost + Cost(0, None, (), ((1, other),))).published(delta, rough)[0]


class NoisyCounts(NoisyArgmax):
    """n + Z, rounded to whole numbers, [queries, classes]; labels are its argmax. What follows from
    it costs nothing.

    Counts beyond ±2^53 are set to ±2^53. Z is Laplace or Gaussian noise of nzc itself: other noise
    has no such price.

    A moved vote shifts two counts by one: a query costs a pure 2γ with Laplace noise, a mean shift
    of √2/σ with Gaussian noise. In own cells all queries together cost as much as the labels alone.
    """

    _names: ClassVar[Names] = {
        (LaplaceNoise, False, NoneType): "Counts",
        (GaussianNoise, False, NoneType): "CountsGaussian",
    }
    noise: LaplaceNoise | GaussianNoise
    releases_counts = True

    def __init__(self, noise: LaplaceNoise | GaussianNoise) -> None:
        super().__init__(noise)

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.noise) not in (
            LaplaceNoise,
            GaussianNoise,
        ):  # the price of a label is not that of its counts
            allowed = "must be nzc.LaplaceNoise or nzc.GaussianNoise itself, where noisy counts are released"
            raise InputError("noise", self.noise, allowed)

    def draw(
        self, votes: Ints, rng: np.random.Generator, student_probs: Floats | None = None
    ) -> Ints:
        # Float64 noise of such a size has gaps of whole votes, in which the count would show.
        if isinstance(rng, ExactGenerator) or self.noise.unit > _COARSE:
            exactly = ExactGenerator(rng.bit_generator)
            return exactly.round_up(self.noise.exact, votes.astype(np.float64) - 0.5).astype(
                np.int64
            )
        return votes + np.rint(self.noise.sample(votes.shape, rng)).astype(np.int64)

    def labels_of(self, released: Ints) -> Ints:
        if released.ndim != 2:
            raise InputError(
                "labels", list(released.shape), "must be released counts, [queries, classes]"
            )
        return np.asarray(released.argmax(axis=1))

    def worst_label(self, labels: int) -> tuple[int, WorstCaseCost]:
        count, cost = super().worst_label(labels)
        return count, replace(cost, shown=None)  # which is about the argmax

    def evidence(self, pair: tuple[Ints, Ints]) -> Callable[[Ints], Floats]:
        """Return the log-likelihood ratio of noisy counts [queries, classes], of the noise before
        it was rounded.
        """
        of, unit = self.noise.log_density, self.noise.unit
        return lambda drawn: (
            of((drawn - pair[0]) / unit).sum(axis=1) - of((drawn - pair[1]) / unit).sum(axis=1)
        )


class GroundTruth(NoisyArgmax):
    """The true labels, the papers' upper baseline: its votes are one-hot true labels. It has no
    privacy, ε = ∞.
    """

    _names: ClassVar[Names] = {(NoNoise, False, NoneType): "GroundTruth"}

    def __init__(self) -> None:
        super().__init__(NoNoise())

    def cost(self, votes: Ints, labels: Ints, student_probs: Floats | None = None) -> Cost:
        return self.promise(len(votes), len(votes))

    def audit(self, *_: object, **__: object) -> None:
        return None


def audit(
    mechanism: NoisyArgmax,
    teachers: int,
    classes: int,
    queries: int,
    trials: int = 20_000,
    delta: float = 1e-5,
    rng: np.random.Generator | None = None,
) -> float:
    """Return an empirical lower bound on the mechanism's ε at δ, 95 % confidence; 0: nothing was
    found.

    The mechanism is run `trials` times on its worst pair of neighbouring histograms, each time with
    `queries` queries. accounting.audit.Contradiction: the bound is above what accounting says holds
    for any votes.
    """
    return (
        mechanism.audit(teachers, classes, queries, trials, delta, rng or np.random.default_rng())
        or 0.0
    )
