"""One run, stage by stage: representation, teachers, votes, labels, student, accounting, files."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from nzc.accounting import Epsilon
from nzc.data import DataSplits
from nzc.labeling.release import QueryRound
from nzc.mechanisms import ABSTAIN
from nzc.runs import advice
from nzc.runs.checks import PreparedRun
from nzc.runs.curves import POINTS, Curves, curves_of, write_curves
from nzc.runs.formatting import optional
from nzc.runs.layout import LEARNING_CURVES, RUN_FIGURES, RUN_FILES, clear, digests
from nzc.runs.metrics import Metrics, class_names, evaluate, share_right
from nzc.runs.outputs import padded, public_arrays, write_outputs
from nzc.runs.result import Clock, RoundResult, RunResult, versions
from nzc.runs.summary import unbounded
from nzc.saying import say
from nzc.storage.files import make_own, require_there
from nzc.students import FittedStudent, StudentData
from nzc.students.labels import clean_labels, soft_labels, spread_labels
from nzc.teachers import VoteHistograms
from nzc.teachers.sums import Sums
from nzc.types import Floats, Ints, StageLog
from nzc.validation import Tree, in_a_line, within


def execute(
    run: PreparedRun,
    folder: Path,
    begun: float,
    log: StageLog | None = None,
    show: Callable[[RunResult], None] | None = None,
) -> RunResult:
    """Run the job and write everything into `folder`.

    begun  when the user started it, in seconds since 1970
    log    receives every stage when it ends
    show   receives the result when its numbers are known, before files and figures are made
    """
    work = Execution(run, Clock(begun, log), folder)
    clear(folder, RUN_FILES, RUN_FIGURES)
    make_own(run.parts.store.root)
    say(*run.warnings)
    if run.parts.baseline:
        work.learn_baseline()
    elif isinstance(run.parts.teachers, Sums):
        work.ask_sums()
        work.account()
    else:
        splits = work.represent()
        rows = run.session.choose(work.places)
        work.votes = work._vote(splits, rows)
        work.ask(rows)
        work.account()
    result = work.result()
    if show is not None:
        _show(show, result)
    work.write(result)
    return result


def train_worker(run: PreparedRun) -> None:
    """On a worker node: train its share of the teachers."""
    teachers = run.parts.teachers
    splits = run.splits
    if teachers.labels_asked_only:
        work = Execution(run, Clock(time.time()), Path())
        splits = replace(work.represent(), asked=run.session.choose(work.places))
    teachers.train_worker(splits, run.parts.store, run.parts.trainer)


@dataclass(repr=False)
class Execution:
    """A run under way. Its student learns from public rows and released labels: it sees no vote.

    places   of the pool in the public representation; None: there is none
    student  the last fit; None: no student is wanted, or there is no label
    labels   [pool] which that fit learned from, and `sources` the same in words
    probs    class probabilities [public, classes] by the student of the round before
    facts    what the result says of that which was released, and how
    """

    run: PreparedRun
    stage: Clock
    folder: Path
    versions: dict[str, str] = field(default_factory=versions)
    places: Floats | None = None
    votes: VoteHistograms = field(
        default_factory=lambda: VoteHistograms(np.zeros((0, 0), np.int64), 0)
    )
    rounds: list[RoundResult] = field(default_factory=list)
    student: FittedStudent | None = None
    labels: Ints | None = None
    sources: str | None = None
    probs: Floats | None = None
    curves: Curves = field(default_factory=dict)
    epsilon: Epsilon = field(default_factory=Epsilon)
    facts: Tree = field(default_factory=dict)

    def learn_baseline(self) -> None:
        """Let DP-SGD learn from the private records, in place of teachers and student."""
        from nzc.runs import baseline  # imports torch

        with self.stage("student"), within("representation"):
            self.student, self.epsilon, self.facts = baseline.learn(self.run)
        self.stage.done("student", f"learned by DP-SGD from {self.facts['learned_from']}")

    def represent(self) -> DataSplits:
        """Place the pool in the public representation, and return the splits with all places."""
        parts = self.run.parts
        splits = self.run.splits
        if parts.representation is None:
            return splits
        splits = parts.teachers.counted(splits)
        with self.stage("representation"), within("representation"):
            embedding = parts.representation.embed(splits, parts.store, parts.trainer)
        self.stage.done("representation", f"{len(splits.pool):,} public rows placed")
        self.places = np.concatenate([embedding.public, embedding.private[splits.joined]])
        return replace(splits, embedding=embedding)

    def _vote(self, splits: DataSplits, rows: Ints) -> VoteHistograms:
        """Train the teachers and return their votes, or the true labels where these are asked.

        rows  are asked first
        """
        run = self.run
        parts = run.parts
        if parts.asks_truth and run.truth is not None:
            return VoteHistograms.of_truth(run.truth, run.classes)
        if parts.teachers.labels_asked_only:
            splits = replace(splits, asked=rows, coins=run.session.coins(rows))
        with self.stage("teachers"):
            trained = parts.teachers.train(splits, parts.store, parts.trainer)
        self.stage.done(
            "teachers",
            f"{parts.teachers.check(splits).teachers:,} ready",
            parts.policy.mechanism.adjacency.voters,
        )
        with self.stage("votes"):
            votes = parts.teachers.vote(splits, trained)
        self.stage.done("votes", f"{len(votes.votes):,} rows counted")
        return votes

    def ask(self, rows: Ints) -> None:
        """Ask round by round, first these `rows`; after each, the student learns from all labels.

        RuntimeError: the folder of the run has gone, or cannot be written. Then no label is drawn
        that would be lost.
        """
        session = self.run.session
        for number in range(len(session.promise.sizes)):
            require_there(self.folder)
            if number:
                rows = session.choose(self.places, self.probs)
            with self.stage("labels"):  # privacy boundary: private votes become public labels
                queries = session.ask(self.votes, rows, self.probs)
            self._use(queries)

    def ask_sums(self) -> None:
        """Release noisy sums of all records. The model that follows labels all public rows.

        It is the student itself where none is chosen. RuntimeError: see `ask`.
        """
        from nzc.runs import sums  # imports torch

        require_there(self.folder)
        with self.stage("labels"), within("representation"):
            model = sums.release(self.run)
        self.votes = replace(self.votes, teachers=self.run.session.voters)
        self._use(self.run.session.rounds[-1])
        if self.run.parts.student is None:
            self.student = model
            self.labels = self.run.session.released
            self.sources = (
                f"noisy sums of {self.votes.teachers:,} private "
                f"{self.run.parts.teachers.unit(self.run.splits)}s"
            )

    def _use(self, queries: QueryRound) -> None:
        """Charge what the last round costs, and learn from all labels so far."""
        session = self.run.session
        with self.stage("accounting"):
            session.charge()  # on disk before anyone sees a label
            epsilon = queries.cost.exact_epsilon(session.policy.delta)[0]
        session.infer(self.places)
        self.stage.done("labels", f"{queries.answered:,} of {len(queries.rows):,} queries answered")

        labels = session.training_labels(self.probs)
        reinforced = int((labels != ABSTAIN).sum() - (session.released != ABSTAIN).sum())
        with self.stage("student"):
            self._learn(labels, reinforced)
        if self.student is not None:
            self.stage.done("student", f"learned from {self.sources}")

        right = None
        if self.run.truth is not None:
            right = share_right(session.released[queries.rows], self.run.truth[queries.rows])
        self.rounds.append(
            RoundResult(len(queries.rows), queries.answered, reinforced, right, epsilon)
        )

    def _learn(self, labels: Ints, reinforced: int) -> None:
        """Fit the student to labels [pool], of which it gave so many itself."""
        parts = self.run.parts
        student = parts.student
        splits = self.run.splits
        session = self.run.session
        count = int((labels != ABSTAIN).sum())
        if student is None or not count:
            return
        data = StudentData(splits.pool, padded(labels, len(splits.pool), ABSTAIN), splits.classes)
        sources = [f"{count - reinforced:,} released labels"]
        if reinforced:
            sources.append(f"{reinforced:,} labels of its own")
        if session.probabilities is not None:
            data = soft_labels(
                data,
                padded(session.probabilities, len(splits.pool), 0),
                student.spread,
                session.mixed,
            )

        seed = session.policy.seed
        learn = partial(
            student.fit, seed=seed, trainer=parts.trainer, log=partial(_record, self.folder)
        )
        if student.folds > 1:
            data = clean_labels(data, student.folds, seed, learn)
            sources.append(f"{data.labeled.sum():,} kept by cross-validation")
        if student.spread and self.places is not None:
            if data.soft is None:
                data = spread_labels(data, self.places, student.spread)
            sources.append(f"spread to {data.labeled.sum():,} rows")

        if len(session.rounds) == len(session.promise.sizes):
            self.student = student.decided(learn(data, name="Student"), splits.public.x)
        else:
            self.student = learn(data, name=f"Student of round {len(session.rounds)}")
            self.probs = self.student.probabilities(splits.public.x)
        self.labels = data.labels
        self.sources = ", ".join(sources)

    def account(self) -> None:
        """Account for all rounds: every ε, and the curves that the votes explain."""
        parts = self.run.parts
        session = self.run.session
        with self.stage("accounting"):
            self.epsilon = session.epsilon()
            if len(self.votes.votes) and self.votes.teachers:
                self.curves = curves_of(
                    self.votes.votes,
                    session.rows,
                    session.released,
                    session.curve(POINTS),
                    self.epsilon,
                )
        mechanism = parts.policy.mechanism
        queries = sum(session.promise.sizes)
        student = parts.names["student"]
        if parts.student is None and self.student is not None:
            student = parts.names["teachers"]
        self.facts = {
            "aggregator": parts.names["aggregator"],
            "student": student,
            "mechanism": repr(mechanism),
            "queries": queries,
            "refused": queries - len(session.rows),
            "neighbours": parts.teachers.neighbours(self.run.splits),
            "moved_votes": mechanism.adjacency.rows,
            "voters": mechanism.adjacency.voters,
            "learned_from": self.sources,
        }

    def result(self) -> RunResult:
        """Return all figures of the run, and print its warnings."""
        run = self.run
        splits = run.splits
        session = run.session
        policy = session.policy
        arrays = public_arrays(run, self.student)
        with self.stage("student"):
            accuracy, metrics, failed = evaluate(self.student, splits, run.parts.metrics)
        warnings = self._warnings(accuracy, metrics) + failed
        say(*warnings)
        warnings = [*splits.warnings, *run.warnings, *warnings]
        facts = dict(self.facts)
        if not splits.is_empty:
            facts["data"] = splits.summary
        if self.labels is not None:
            labels = self.labels[: len(splits.public)]
            facts["learned_accuracy"] = share_right(labels, splits.public.y)
            metrics = replace(metrics, agreement=share_right(labels, arrays["predictions"]))
        counted, trials = session.ledger.split()
        entries = session.ledger.entries
        if entries:
            facts["ledger_trials"] = len(trials)
            facts["ledger_releases"] = len(counted) - len(entries)
            if self.epsilon.ledger_total == np.inf:
                facts["ledger_unbounded"] = unbounded([*counted, *trials], policy.delta)
        self.stage.since_begun("total")
        return RunResult(
            dataset=run.parts.names["dataset"],
            seed=policy.seed,
            rng=policy.rng,
            delta=policy.delta,
            answered=sum(past.answered for past in self.rounds),
            reinforced=self.rounds[-1].reinforced if self.rounds else 0,
            label_accuracy=share_right(session.released, run.truth),
            accuracy=accuracy,
            teachers=self.votes.summary,
            epsilon=self.epsilon,
            rounds=self.rounds,
            unit=run.parts.teachers.unit(splits),
            bound=policy.bound,
            seconds=self.stage.seconds,
            versions=self.versions,
            metrics=metrics,
            warnings=warnings,
            folder=self.folder,
            grouped_by=splits.units.grouped_by,
            individual=session.promise.individual,
            **facts,
            **arrays,
        )

    def _warnings(self, accuracy: float | None, metrics: Metrics) -> list[str]:
        """Return what a reader of the accuracy must know, a line each.

        All but the first follow from public facts only.
        """
        run = self.run
        names = class_names(run.splits, run.classes)
        lines = advice.about_classes(run.splits, names)
        if self.rounds:
            lines += advice.about_labels(run.session.released, self.labels, names)
        if accuracy is not None:
            lines += advice.about_accuracy(accuracy, metrics)
            lines += advice.about_recall(metrics)
        return lines

    def write(self, result: RunResult) -> None:
        """Write all files of the run. After them, another run draws its noise anew."""
        session = self.run.session
        write_outputs(self.folder, self.run, self.student, result)
        write_curves(self.folder, self.curves)
        result.write(self.folder)
        if self.run.parts.figures:
            with optional("figures"):
                from nzc.runs.plots import plot_run  # matplotlib takes half a second to import

                plot_run(self.folder, self.curves, session.released, self.run.truth)
        session.ledger.finish(
            digests(self.folder),
            {"sizes": session.promise.sizes, "rows": len(session.released)},
        )


def _show(show: Callable[[RunResult], None], result: RunResult) -> None:
    """Show the result. Where that fails the run goes on: its labels are charged by now."""
    try:
        show(result)
    except (Exception, SystemExit) as error:  # rich exits where nobody reads standard output
        say(f"the table could not be shown ({in_a_line(repr(error), 200)})")


def _record(folder: Path, fit: str, values: Mapping[str, float], step: int) -> None:
    """Add points of the learning curves of a fit to student.csv, where a tracker reads them.

    A user's callback finds what calls this among those of the fit, so it leads to the folder alone,
    and to no vote.
    """
    path = folder / LEARNING_CURVES
    lines = [] if path.exists() else ["curve,step,value"]
    lines += [f"{fit}/{name},{step},{value:.9g}" for name, value in values.items()]
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
