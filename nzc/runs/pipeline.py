"""One run, stage by stage: representation, teachers, votes, labels, student, accounting, files."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nzc.accounting import Epsilon
from nzc.data import DataSplits
from nzc.labeling.randomness import SYSTEM
from nzc.mechanisms import ABSTAIN, GroundTruth
from nzc.runs.checks import PreparedRun
from nzc.runs.curves import POINTS, Curves, curves_of, write_curves
from nzc.runs.formatting import number, optional
from nzc.runs.layout import LEARNING_CURVES, RUN_FIGURES, RUN_FILES, clear, digests
from nzc.runs.metrics import Agreement, Metrics, class_names, evaluate, share_right, warnings_of
from nzc.runs.outputs import write_outputs
from nzc.runs.result import Clock, RoundResult, RunResult, versions
from nzc.storage.files import make_own, require_there
from nzc.students import FittedStudent, StudentData
from nzc.students.labels import clean_labels, soft_labels, spread_labels
from nzc.teachers import VoteHistograms
from nzc.types import Floats, Ints, StageLog
from nzc.validation import in_a_line, within


def execute(
    run: PreparedRun,
    folder: Path,
    begun: float,
    say: StageLog | None = None,
    show: Callable[[RunResult], None] | None = None,
) -> RunResult:
    """Run the job and write everything into `folder`.

    begun  when the user started it, in seconds since 1970
    say    receives every stage when it ends
    show   receives the result when its numbers are known, before files and figures are made
    """
    session, stage, made_by, curves, facts = (
        run.session,
        Clock(begun, say),
        versions(),
        Curves(),
        dict[str, Any](),
    )
    work = Execution(run, stage, folder)
    clear(folder, RUN_FILES, RUN_FIGURES)
    make_own(run.parts.store.root)
    sys.stderr.writelines(f"nzc: {line}\n" for line in run.warnings)
    if run.parts.baseline:
        from nzc.runs import baseline  # imports torch

        with stage("student"), within("representation"):
            work.student, epsilon, facts = baseline.learn(run)
        stage.done("student", f"learned by DP-SGD from {facts['learned_from']}")
    else:
        work.label()
        with stage("accounting"):
            epsilon = session.epsilon()
            if work.votes.teachers:
                curves = curves_of(
                    work.votes.votes, session.rows, session.released, session.curve(POINTS)
                )
    with stage("student"):
        accuracy, metrics, failed = evaluate(work.student, run.splits, run.parts.metrics)
    result = work.result(epsilon, accuracy, metrics, failed)
    stage.seconds["total"] = round(time.time() - begun, 3)
    result = replace(result, seconds=stage.seconds, versions=made_by, folder=folder, **facts)
    if show is not None:
        _show(show, result)
    arrays = write_outputs(folder, run, work.student, result.voters)
    write_curves(folder, curves)
    result.write(folder)
    if run.parts.figures:
        with optional("figures"):
            from nzc.runs.plots import plot_run  # matplotlib takes half a second to import

            plot_run(folder, curves, session.released, run.truth)
    session.ledger.finish(
        digests(folder), {"sizes": session.promise.sizes, "rows": len(session.released)}
    )
    return replace(result, **arrays)


def _show(show: Callable[[RunResult], None], result: RunResult) -> None:
    """Show the result. Where that fails, a line says so, and the run goes on: its labels are
    charged by now.
    """
    try:
        show(result)
    except (
        Exception,
        SystemExit,
    ) as error:  # rich exits where nobody reads standard output any more
        why = (
            in_a_line(error, 200)
            if isinstance(error, Exception)
            else "nobody reads standard output"
        )
        print(f"nzc: the table could not be shown ({why})", file=sys.stderr)


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


def train_worker(run: PreparedRun) -> None:
    """On a worker node: train its share of the teachers."""
    teachers, splits, work = (
        run.parts.teachers,
        run.splits,
        Execution(run, Clock(time.time()), Path()),
    )
    if splits is not None and teachers.labels_asked_only:
        splits = replace(
            work.represent() or splits, asked=run.session.choose(embedding=work.places)
        )
    teachers.train_worker(splits, run.parts.store, run.parts.trainer)


@dataclass(repr=False)
class Execution:
    """A run under way. Its student learns from released labels and unlabeled public rows, and never
    sees a vote.
    """

    run: PreparedRun
    stage: Clock
    folder: Path  # of the run
    places: Floats | None = None  # of the pool in the public representation; None: there is none
    votes: VoteHistograms = field(
        default_factory=lambda: VoteHistograms(np.zeros((0, 0), np.int64), 0)
    )
    rounds: list[RoundResult] = field(default_factory=list)
    student: FittedStudent | None = (
        None  # the last fit; None: no student is wanted, or there is no label
    )
    labels: Ints | None = None  # [pool] which that fit learned from
    sources: str | None = None  # the same in words
    probs: Floats | None = (
        None  # class probabilities [public, classes] by the student of the round before
    )

    def label(self) -> None:
        """Train the teachers, ask them round by round, and let the student learn.

        RuntimeError: the folder of the run has gone, or cannot be written. Then no label is drawn
        that would be lost.
        """
        session, splits = self.run.session, self.represent()
        rows = session.choose(embedding=self.places)
        self.votes = self._vote(splits, rows)
        for _ in session.promise.sizes:
            require_there(self.folder)
            self._ask(session.choose(self.probs, self.places) if self.rounds else rows)

    def represent(self) -> DataSplits | None:
        """Place the pool in the public representation, and return the splits with all places."""
        parts, splits = self.run.parts, self.run.splits
        if parts.representation is None or splits is None:
            return splits
        splits = parts.teachers.counted(splits)
        with self.stage("representation"), within("representation"):
            embedding = parts.representation.embed(splits, parts.store, parts.trainer)
        self.stage.done("representation", f"{len(splits.pool):,} public rows placed")
        self.places = np.concatenate([embedding.public, embedding.private[splits.joined]])
        return replace(splits, embedding=embedding)

    def _vote(self, splits: DataSplits | None, rows: Ints) -> VoteHistograms:
        """Return the votes of the trained teachers; for GroundTruth the true labels. `rows` are
        asked first.
        """
        run, parts, teachers = self.run, self.run.parts, self.run.parts.teachers
        if isinstance(parts.policy.mechanism, GroundTruth) and run.truth is not None:
            return VoteHistograms.of_truth(run.truth, run.classes)
        if splits is not None and teachers.labels_asked_only:
            splits = replace(splits, asked=rows, coins=run.session.coins(rows))
        with self.stage("teachers"):
            trained = teachers.train(splits, parts.store, parts.trainer)
        voters = parts.policy.mechanism.adjacency.voters
        self.stage.done("teachers", f"{teachers.check(splits).teachers:,} ready", voters)
        with self.stage("votes"):
            votes = teachers.vote(splits, trained)
        self.stage.done("votes", f"{len(votes.votes):,} rows counted")
        return votes

    def _ask(self, rows: Ints) -> None:
        """Ask the rows, charge what that costs, and learn from all labels so far."""
        session, truth = self.run.session, self.run.truth
        with self.stage("labels"):  # privacy boundary: private votes become public labels
            queries = session.ask(self.votes, rows, self.probs)
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
        right = (
            None
            if truth is None
            else share_right(session.released[queries.rows], truth[queries.rows])
        )
        self.rounds.append(
            RoundResult(len(queries.rows), queries.answered, reinforced, right, epsilon)
        )

    def _learn(self, labels: Ints, own: int) -> None:
        """Fit the student to labels [pool]; so many are its `own`, the others were released."""
        parts, splits, session = self.run.parts, self.run.splits, self.run.session
        student, known, pool = (
            parts.student,
            int((labels != ABSTAIN).sum()),
            0 if splits is None else len(splits.pool),
        )
        if student is None or splits is None or not known:
            return
        sources = [
            f"{known - own:,} released labels",
            *([f"{own:,} labels of its own"] if own else []),
        ]
        labels = np.pad(
            labels, (0, pool - len(labels)), constant_values=ABSTAIN
        )  # votes may cover a part
        data = StudentData(splits.pool, labels, splits.classes)
        if (probs := session.probabilities) is not None:
            probs = np.pad(probs, ((0, pool - len(probs)), (0, 0)))
            data = soft_labels(data, probs, student.spread, session.mixed)
        learn = partial(
            student.fit,
            seed=session.policy.seed,
            trainer=parts.trainer,
            log=partial(_record, self.folder),
        )
        if student.folds > 1:
            data = clean_labels(
                data, student.folds, session.policy.seed, lambda part, name: learn(part, name=name)
            )
            sources.append(f"{data.labeled.sum():,} kept by cross-validation")
        if student.spread and self.places is not None:
            data = (
                data if data.soft is not None else spread_labels(data, self.places, student.spread)
            )
            sources.append(f"spread to {data.labeled.sum():,} rows")
        last = len(session.rounds) == len(session.promise.sizes)
        self.student = learn(
            data, name="Student" if last else f"Student of round {len(session.rounds)}"
        )
        self.labels, self.sources = data.labels, ", ".join(sources)
        if last:
            self.student = student.decided(self.student, splits.public.x)
        else:
            self.probs = self.student.probabilities(splits.public.x)

    def agreement(self) -> Agreement | None:
        """Return the student beside the labels that it learned from; None: there is no student, or
        no label.
        """
        session, splits = self.run.session, self.run.splits
        if self.student is None or self.labels is None or splits is None:
            return None
        labels = self.labels[: len(splits.public)]
        known = labels != ABSTAIN
        if not known.any():
            return None
        predicted = self.student.predict(splits.public.x)
        right = np.ones(len(labels))
        if (probs := session.probabilities) is not None:
            right[: len(probs)] = probs[: len(labels)].max(axis=1)
        counted = probs is not None and self.student.weights is None
        return Agreement(labels[known], right[known], predicted[known], predicted[~known], counted)

    def result(
        self, epsilon: Epsilon, accuracy: float | None, metrics: Metrics, failed: list[str]
    ) -> RunResult:
        """Return all figures of the run, and print its warnings; `failed`: those of the user's own
        metrics.
        """
        run, session, splits, rounds = self.run, self.run.session, self.run.splits, self.rounds
        policy, promise, teachers = session.policy, session.promise, run.parts.teachers
        counted, trials = session.ledger.split()
        released, names = session.released if rounds else None, class_names(splits, run.classes)
        warnings = warnings_of(
            splits, released, self.labels, names, accuracy, metrics, *run.remedies
        )
        if (agreement := self.agreement()) is not None:
            metrics = replace(metrics, agreement=agreement.share)
            warnings += agreement.warnings(names, _others(run))
        warnings += failed + _repeated(run)
        sys.stderr.writelines(f"nzc: {line}\n" for line in warnings)
        learned = None
        if splits is not None and self.labels is not None:
            learned = share_right(self.labels[: len(splits.public)], splits.public.y)
        return RunResult(
            dataset=run.parts.names["dataset"],
            aggregator=run.parts.names["aggregator"],
            student=run.parts.names["student"],
            seed=policy.seed,
            rng=policy.rng,
            mechanism=repr(policy.mechanism),
            delta=policy.delta,
            queries=sum(promise.sizes),
            answered=sum(past.answered for past in rounds),
            refused=sum(promise.sizes) - len(session.rows),
            reinforced=rounds[-1].reinforced if rounds else 0,
            label_accuracy=None if run.truth is None else share_right(session.released, run.truth),
            accuracy=accuracy,
            teachers=self.votes.summary,
            epsilon=epsilon,
            ledger_trials=len(trials) if session.ledger.entries else None,
            ledger_releases=len(counted) - len(session.ledger.entries)
            if session.ledger.entries
            else None,
            rounds=rounds,
            data=None if splits is None else splits.summary,
            neighbours=teachers.neighbours(splits),
            unit=teachers.unit(splits),
            bound=policy.bound,
            metrics=metrics,
            warnings=[*([] if splits is None else splits.warnings), *run.warnings, *warnings],
            learned_from=self.sources,
            learned_accuracy=learned,
            grouped_by=None if splits is None else splits.grouped_by,
            moved_votes=policy.mechanism.adjacency.rows,
            individual=promise.individual,
            voters=policy.mechanism.adjacency.voters,
        )


def _others(run: PreparedRun) -> str:
    """Return what to try where the student contradicts the labels: other students."""
    names = ["student=supervised", "student=linear"]
    return " or ".join(name for name in names if name != f"student={run.parts.names['student']}")


def _repeated(run: PreparedRun) -> list[str]:
    """Return the warning that this command has released labels before, if it has."""
    if (times := run.session.ledger.repeats) < 2:
        return []
    (each, delta), together = run.session.promise.bound, "both" if times == 2 else f"all {times}"
    total = f"{together} together cost at most ε = {number(times * each)} at δ = {times * delta:g}"
    again = f"rng={SYSTEM} draws new noise in every run, and this command has now released labels {times} times"
    return [f"{again}: {total}, each alone ε = {number(each)}"]
