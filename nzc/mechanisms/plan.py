"""Plans: which labels a privacy budget buys, from public facts and before any vote is counted."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, partial

import numpy as np
from scipy.special import bdtr

from nzc.accounting.calibration import calibrate
from nzc.mechanisms.noisy_argmax import NoisyArgmax
from nzc.mechanisms.presets import GNMax, LNMax, SparseStable
from nzc.mechanisms.sparse_vector import SparseScreen
from nzc.mechanisms.votes import as_labels, as_votes
from nzc.types import Floats, Ints
from nzc.validation import InputError, between_0_and_1, positive, share, whole

#: Numbers of queries that are compared by default.
QUERIES = (10, 20, 50, 100, 200, 500, 1000)
#: Labels are good enough where the noise spoils at most one in ten.
ENOUGH = 0.9
#: Rows of gnmax that are at least so good by the quick bound may be good by the precise one.
_NEAR = 0.75
#: A student needs at least so many labels of each class; fewer are warned of.
_PER_CLASS = 2
#: Of more measured rows than this, so many at equal distances are used.
_MOST_ROWS = 1_000
#: Cutoffs of sparse_stable; the best of them is planned.
_CUTOFFS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)


@dataclass(frozen=True)
class PlannedRun:
    """What a run is expected to release.

    aggregator  its name, the option of the group `aggregator`
    settings    keys of the aggregator with their values; the last is the noise parameter, which spends ε
    queries     how many public rows are asked
    labels      expected number of released labels
    right       expected number of right labels
    """

    aggregator: str
    settings: dict[str, float]
    queries: int
    labels: float
    right: float

    @property
    def accuracy(self) -> float:
        """Expected share of the released labels that are right."""
        return self.right / self.labels if self.labels > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Plan:
    """The runs that a budget ε at δ allows, and the best of them. All arguments must be public facts.

    agreement  share of the teachers that vote for the right class of a query; every query is assumed to be alike
    runner_up  share of the other votes that one wrong class gets; the rest is spread evenly. 0: all of it, evenly
    measured   replaces both: vote histograms [rows, classes] of any number of teachers, and the true classes [rows],
               −1 where not known. Teachers and rows must be public: the votes of private teachers are private.
               Only with it, sparse_stable is planned too.
    queries    the numbers of queries to compare
    records    number of private records; it is compared with δ
    InputError names the argument that is wrong.

        >>> import nzc
        >>> plan = nzc.Plan(teachers=1000, classes=10, epsilon=0.5, agreement=0.9, queries=(20, 100))
        >>> [(row.aggregator, row.queries, round(row.right)) for row in plan.rows]
        [('gnmax', 20, 20), ('gnmax', 100, 100), ('lnmax', 20, 20), ('lnmax', 100, 98)]
    """

    teachers: int
    classes: int
    epsilon: float
    delta: float = 1e-5
    agreement: float = 0.8
    runner_up: float = 0.5
    measured: tuple[Ints, Ints] | None = field(default=None, repr=False)
    queries: tuple[int, ...] = QUERIES
    records: int | None = None

    def __post_init__(self) -> None:
        whole(1, 2**31, teachers=self.teachers)
        whole(2, 1_000, classes=self.classes)
        positive(epsilon=self.epsilon, agreement=self.agreement)
        share(agreement=self.agreement, runner_up=self.runner_up)
        between_0_and_1(delta=self.delta)
        for queries in self.queries:
            whole(1, 100_000, queries=queries)
        if self.records is not None:
            whole(self.teachers, records=self.records)
        if self.plurality == 0:
            if self.measured is not None:
                raise InputError("measured", "votes", "must have rows whose largest count is that of the true class")
            allowed = f"must be above the share of the runner-up, {self._shares[0, 1]:.3g}"
            raise InputError("agreement", self.agreement, allowed)

    @cached_property
    def plurality(self) -> float:
        """The share of queries whose plurality is the right class: the accuracy of labels without noise."""
        return float((self._shares[:, 0] > self._shares[:, 1:].max(axis=1)).mean())

    @cached_property
    def rows(self) -> list[PlannedRun]:
        """A run of each aggregator for each number of queries.

        For gnmax a quick bound on ε is used: the noise is up to a fifth larger than that of the run.
        """
        # One number of agreement does not say how often sparse_stable ends its run.
        sparse = ("sparse_stable",) if self.measured is not None and self.teachers >= 4 else ()
        return [self._run(name, queries) for name in ("gnmax", "lnmax", *sparse) for queries in self.queries]

    @cached_property
    def recommended(self) -> PlannedRun:
        """The good row with the most right labels; if no row is good, the one with the most right labels per query.

        Here the noise of gnmax is precise, which takes seconds; so a row may be good only now.
        """
        precise = cache(lambda queries: self._run("gnmax", queries, rough=False))

        def refined(row: PlannedRun) -> PlannedRun:
            return precise(row.queries) if row.aggregator == "gnmax" else row

        good = [row for row in self.rows if self.is_good(row)]
        near = [row for row in self.rows if row.aggregator == "gnmax" and row not in good and self.is_good(row, _NEAR)]
        near.sort(key=lambda row: row.queries)
        good += near[: bisect_left(near, True, key=lambda row: not self.is_good(refined(row)))]
        if good:
            return refined(max(good, key=lambda row: round(row.right)))
        return refined(max(self.rows, key=lambda row: round(row.right / row.queries, 3)))

    def is_good(self, row: PlannedRun, enough: float = ENOUGH) -> bool:
        """Return whether noise spoils at most one label in ten, and there is a label for each class on average."""
        return row.accuracy >= enough * self.plurality and round(row.labels) >= self.classes

    @property
    def warnings(self) -> list[str]:
        """What speaks against the recommended run, one sentence each."""
        best, lines = self.recommended, []
        if best.accuracy < ENOUGH * self.plurality:
            lines.append(
                f"noise drowns the votes: {100 * best.accuracy:.1f} % of the labels would be right, without noise "
                f"{100 * self.plurality:.1f} %; use more teachers, a larger ε or fewer queries"
            )
        if best.labels < _PER_CLASS * self.classes:
            few = f"fewer than {_PER_CLASS} for each of {self.classes} classes"
            lines.append(f"ε = {self.epsilon:g} buys {best.labels:.3g} labels, {few}")
        if self.records is not None and self.delta > 1 / self.records:
            lines.append(f"δ = {self.delta:g} is above 1/records = {1 / self.records:.2g}: choose a smaller δ")
        return lines

    @cached_property
    def _shares(self) -> Floats:
        """Shares of the votes [rows, classes]: first those for the right class, then the others, largest first."""
        if self.measured is None:
            rest, others = 1 - self.agreement, self.classes - 1
            first = rest * max(self.runner_up, 1 / others)
            return np.array([[self.agreement, first, *[(rest - first) / max(others - 1, 1)] * (others - 1)]])
        votes = as_votes(self.measured[0])
        labels = as_labels(self.measured[1], votes)
        if votes.shape[1] != self.classes or labels.dtype.kind not in "iu":
            allowed = f"must have {self.classes} classes, and whole numbers as labels"
            raise InputError("measured", f"{list(votes.shape)}, {labels.dtype}", allowed)
        (known,) = np.nonzero(labels >= 0)
        if not len(known):
            raise InputError("measured", "labels", "must hold at least one known class")
        known = known[np.linspace(0, len(known) - 1, min(len(known), _MOST_ROWS)).astype(np.int64)]
        right = np.arange(self.classes) == labels[known, None]
        order = np.argsort(np.where(right, -np.inf, -votes[known]), axis=1, kind="stable")
        sorted_votes = np.take_along_axis(votes[known], order, axis=1)
        return np.asarray(sorted_votes / sorted_votes.sum(axis=1, keepdims=True))

    @cached_property
    def _histograms(self) -> tuple[Ints, Floats]:
        """Distinct histograms of so many teachers, each row as in `_shares`, and how frequent they are [rows]."""
        exact = self._shares * self.teachers
        votes = np.floor(exact + 1e-9).astype(np.int64)
        missing = self.teachers - votes.sum(axis=1, keepdims=True)
        votes += np.argsort(np.argsort(votes - exact, axis=1, kind="stable"), axis=1) < missing
        distinct, counts = np.unique(votes, axis=0, return_counts=True)
        return distinct, counts / counts.sum()

    def _run(self, name: str, queries: int, rough: bool = True) -> PlannedRun:
        """Return the run of an aggregator whose noise spends ε, with the best cutoff if it has one."""
        kinds: list[tuple[Callable[..., NoisyArgmax], str, dict[str, float]]]  # with the noise parameter, settings
        kinds = [(GNMax, "sigma", {}) if name == "gnmax" else (LNMax, "gamma", {})]
        if name == "sparse_stable":
            cutoffs = sorted({min(cutoff, queries) for cutoff in _CUTOFFS})
            sparse = partial(SparseStable, teachers=self.teachers, delta=self.delta)
            kinds = [(partial(sparse, cutoff=cutoff), "scale", {"cutoff": cutoff}) for cutoff in cutoffs]
        runs = []
        for build, parameter, settings in kinds:
            noise = calibrate(build, self.epsilon, self.delta, queries, parameter, rough)
            labels, right = self._expected(build(**{parameter: noise}), queries)
            runs.append(PlannedRun(name, {**settings, parameter: noise}, queries, labels, right))
        return max(runs, key=lambda run: run.right)

    def _expected(self, mechanism: NoisyArgmax, queries: int) -> tuple[float, float]:
        """Return the expected numbers of released and of right labels, by the mechanism's law."""
        votes, frequency = self._histograms
        law = np.exp(mechanism.log_law(votes))
        answered, right, reached = float(frequency @ (1 - law[:, -1])), float(frequency @ law[:, 0]), float(queries)
        if isinstance(mechanism.screen, SparseScreen):  # its run ends early, after so many unstable queries
            before = np.arange(queries)
            reached = float(bdtr(np.minimum(mechanism.screen.cutoff - 1, before), before, 1 - answered).sum())
        return answered * reached, right * reached
