"""Plans: which labels a privacy budget buys, from public facts and before any vote is counted."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from operator import attrgetter

import numpy as np

from nzc.accounting.calibration import calibrate
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.mechanisms.presets import GNMax, LNMax
from nzc.mechanisms.votes import as_labels, as_votes
from nzc.planning.advice import ENOUGH, doubts
from nzc.planning.expected import AGREEMENT, expected, histograms, vote_shares
from nzc.types import Floats, Ints
from nzc.validation import InputError, between_0_and_1, positive, share, whole

QUERIES = (10, 20, 50, 100, 200, 500, 1000)  # numbers of queries that are compared by default
#: Runs of gnmax that are so good by the quick bound may be good by the precise one.
_NEAR = 0.75
_MOST_ROWS = 1_000  # of more measured rows than this, so many at equal distances are used


@dataclass(frozen=True)
class PlannedRun:
    """What a run is expected to release."""

    aggregator: str  # its name, the option of the group `aggregator`
    settings: dict[str, float]  # of the aggregator, by key; the last is the noise parameter
    queries: int  # how many public rows are asked
    labels: float  # expected number of released labels
    right: float  # expected number of right labels

    @property
    def accuracy(self) -> float:
        """Expected share of the released labels that are right."""
        if self.labels == 0:
            return 0.0
        return self.right / self.labels


@dataclass(frozen=True, eq=False)
class Plan:
    """The runs that a budget ε at δ allows, and the best of them. All arguments are public facts.

    agreement  share of the teachers that vote for the right class of a query; all queries are alike
    runner_up  share of the other votes that one wrong class gets; the rest is spread evenly. 0: all
               of it, evenly
    measured   replaces both: vote histograms [rows, classes] of any number of teachers, and the
               true classes [rows], −1 where not known. Teachers and rows must be public: the votes
               of private teachers are private.
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
    runner_up: float = 0.5
    measured: tuple[Ints, Ints] | None = field(default=None, repr=False)
    queries: tuple[int, ...] = QUERIES
    records: int | None = None

    def __post_init__(self) -> None:
        whole("teachers", self.teachers, 1, 2**31)
        whole("classes", self.classes, 2, 1_000)
        positive("epsilon", self.epsilon)
        positive("agreement", self.agreement)
        share("agreement", self.agreement)
        share("runner_up", self.runner_up)
        between_0_and_1("delta", self.delta)
        for queries in self.queries:
            whole("queries", queries, 1, 100_000)
        if self.records is not None:
            whole("records", self.records, self.teachers)
        if self.plurality == 0 and self.measured is None:
            allowed = f"must be above the share of the runner-up, {self._shares[0, 1]:.3g}"
            raise InputError("agreement", self.agreement, allowed)
        if self.plurality == 0:
            allowed = "must have rows whose largest count is that of the true class"
            raise InputError("measured", "votes", allowed)

    @cached_property
    def plurality(self) -> float:
        """The share of queries whose plurality is right: the accuracy of labels without noise."""
        return float((self._shares[:, 0] > self._shares[:, 1:].max(axis=1)).mean())

    @cached_property
    def rows(self) -> list[PlannedRun]:
        """A run of each aggregator for each number of queries.

        That of gnmax is by a quick bound: it has up to a fifth too much noise.
        """
        names = ("gnmax", "lnmax")
        return [self._run(name, queries) for name in names for queries in self.queries]

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
        return row.accuracy >= enough * self.plurality and round(row.labels) >= self.classes

    @property
    def warnings(self) -> list[str]:
        """What speaks against the recommended run, one sentence each."""
        return doubts(
            self.recommended.labels,
            self.recommended.accuracy,
            self.classes,
            self.epsilon,
            self.delta,
            self.records,
            self.plurality,
            agreement=None,
        )

    @cached_property
    def _shares(self) -> Floats:
        """Shares of the votes [rows, classes]: for the right class, then others, largest first."""
        if self.measured is None:
            return vote_shares(self.classes, self.agreement, self.runner_up)
        votes = as_votes(self.measured[0])
        labels = as_labels(self.measured[1], votes)
        if votes.shape[1] != self.classes or labels.dtype.kind not in "iu":
            allowed = f"must have {self.classes} classes, and whole numbers as labels"
            raise InputError("measured", f"{list(votes.shape)}, {labels.dtype}", allowed)
        (known,) = np.nonzero(labels >= 0)
        if not len(known):
            raise InputError("measured", "labels", "must hold at least one known class")
        places = np.linspace(0, len(known) - 1, min(len(known), _MOST_ROWS))
        rows = known[places.astype(np.int64)]
        right = np.arange(self.classes) == labels[rows, None]
        ranked = -np.sort(np.where(right, -np.inf, -votes[rows]), axis=1)
        ranked[:, 0] = votes[rows, labels[rows]]
        return np.asarray(ranked / ranked.sum(axis=1, keepdims=True))

    @cached_property
    def _histograms(self) -> tuple[Ints, Floats]:
        """The distinct histograms, and how frequent they are."""
        return histograms(self._shares, self.teachers)

    def _run(self, name: str, queries: int, rough: bool = True) -> PlannedRun:
        """Return the run of an aggregator whose noise spends ε."""
        build: Callable[..., NoisyArgmax] = GNMax
        noise = "sigma"
        if name == "lnmax":
            build = LNMax
            noise = "gamma"
        value = calibrate(build, self.epsilon, self.delta, queries, noise, rough)
        answered, right = expected(build(**{noise: value}), *self._histograms)
        return PlannedRun(name, {noise: value}, queries, answered * queries, right * queries)
