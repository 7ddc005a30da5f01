"""Plans: which labels a privacy budget buys, from public facts and before any vote is counted."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from operator import attrgetter

from nzc.accounting.calibration import calibrate
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.mechanisms.presets import GNMax, LNMax
from nzc.planning.advice import ENOUGH, about_votes
from nzc.planning.expected import AGREEMENT, expected, histograms, vote_shares
from nzc.types import Floats, Ints, Shape
from nzc.validation import InputError, between_0_and_1, keep, positive, share, whole

QUERIES = (10, 20, 50, 100, 200, 500, 1000)  # numbers of queries that are compared by default
#: Runs of gnmax that are so good by the quick bound may be good by the precise one.
_NEAR = 0.75
#: The mechanisms that are planned, by their option, and the noise parameter of each.
_MECHANISMS: dict[str, tuple[Callable[..., NoisyArgmax], str]] = {
    "gnmax": (GNMax, "sigma"),
    "lnmax": (LNMax, "gamma"),
}


@dataclass(frozen=True)
class PlannedRun:
    """What a run is expected to release."""

    aggregator: str  # its name, the option of the group `aggregator`
    settings: dict[str, float]  # its noise parameter, by key
    queries: int  # how many public rows are asked
    right: float  # expected number of right labels

    @property
    def accuracy(self) -> float:
        """Expected share of the released labels that are right."""
        return self.right / self.queries


@dataclass(frozen=True, eq=False)
class Plan:
    """The runs that a budget ε at δ allows, and the best of them. All arguments are public facts.

    agreement  share of the teachers that vote for the right class of a query; all queries are alike
    queries    the numbers of queries to compare
    records    number of private records; it is compared with δ
    InputError names the argument that is wrong.

        >>> import nzc
        >>> plan = nzc.Plan(teachers=1000, classes=10, epsilon=0.5, agreement=0.9, queries=(20, 99))
        >>> [(row.aggregator, row.queries, round(row.right)) for row in plan.rows]
        [('gnmax', 20, 20), ('gnmax', 99, 99), ('lnmax', 20, 20), ('lnmax', 99, 99)]
    """

    teachers: int
    classes: int
    epsilon: float
    delta: float = 1e-5
    agreement: float = AGREEMENT
    queries: Shape = QUERIES
    records: int | None = None

    def __post_init__(self) -> None:
        keep(self, epsilon=positive, agreement=positive, delta=between_0_and_1)
        keep(self, agreement=share, teachers=partial(whole, at_least=1, at_most=2**31))
        keep(self, classes=partial(whole, at_least=2, at_most=1_000))
        for queries in self.queries:
            whole("queries", queries, 1, 100_000)
        if self.records is not None:
            whole("records", self.records, self.teachers)
        shares = vote_shares(self.classes, self.agreement)[0]
        if shares[0] <= shares[1]:
            raise InputError(
                "agreement",
                self.agreement,
                f"must be above the share of the runner-up, {shares[1]:.3g}",
            )

    @cached_property
    def rows(self) -> list[PlannedRun]:
        """A run of each aggregator for each number of queries.

        That of gnmax is by a quick bound: it has up to a fifth too much noise.
        """
        return [self._run(*run) for run in product(_MECHANISMS, self.queries)]

    @cached_property
    def recommended(self) -> PlannedRun:
        """The good row with the most right labels; else the row with the most per query."""
        # Here the noise of gnmax is precise, which takes seconds; so a row may be good only now.
        precise = cache(partial(self._run, "gnmax", rough=False))

        def refined(row: PlannedRun) -> PlannedRun:
            if row.aggregator == "gnmax":
                return precise(row.queries)
            return row

        good = [row for row in self.rows if self.is_good(row)]
        near = [row for row in self.rows if row not in good and self.is_good(row, _NEAR)]
        near = sorted((row for row in near if row.aggregator == "gnmax"), key=attrgetter("queries"))
        good += near[: bisect_left(near, True, key=lambda row: not self.is_good(refined(row)))]
        if good:
            return refined(max(good, key=lambda row: round(row.right)))
        return refined(max(self.rows, key=lambda row: round(row.right / row.queries, 3)))

    def is_good(self, row: PlannedRun, enough: float = ENOUGH) -> bool:
        """Return whether noise spoils at most one label in ten, and each class may have a label."""
        return row.accuracy >= enough and row.queries >= self.classes

    @property
    def warnings(self) -> list[str]:
        """What speaks against the recommended run, one sentence each."""
        return about_votes(
            self.recommended.queries,
            self.recommended.accuracy,
            self.classes,
            self.epsilon,
            self.delta,
            self.records,
            agreement=None,
        )

    @cached_property
    def _histograms(self) -> tuple[Ints, Floats]:
        """The histogram of every query, and that all queries have it."""
        return histograms(vote_shares(self.classes, self.agreement), self.teachers)

    def _run(self, name: str, queries: int, rough: bool = True) -> PlannedRun:
        """Return the run of an aggregator whose noise spends ε."""
        mechanism, noise = _MECHANISMS[name]
        value = calibrate(mechanism, self.epsilon, self.delta, queries, noise, rough)
        _, right = expected(mechanism(**{noise: value}), *self._histograms)
        return PlannedRun(name, {noise: value}, queries, right * queries)
