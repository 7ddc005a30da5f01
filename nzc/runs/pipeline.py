"""One run, stage by stage: representation, teachers, votes, labels, student, accounting, files."""

import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nzc.accounting import Epsilon
from nzc.data import DataSplits
from nzc.labeling.randomness import SYSTEM
from nzc.labeling.spent import Spent
from nzc.mechanisms import ABSTAIN, GroundTruth
from nzc.runs.curves import POINTS, Curves, LearningCurves, curves_of, write_curves
from nzc.runs.formatting import number, optional
from nzc.runs.layout import RUN_FIGURES, RUN_FILES, clear, digests
from nzc.runs.metrics import Metrics, class_names, evaluate, share_right, warnings_of
from nzc.runs.outputs import write_outputs
from nzc.runs.prepare import PreparedRun
from nzc.runs.result import Clock, RoundResult, RunResult, versions
from nzc.storage.files import make_own
from nzc.students import FittedStudent, StudentData
from nzc.students.labels import clean_labels, soft_labels, spread_labels
from nzc.teachers import VoteHistograms
from nzc.types import CurveLog, Floats, Ints, StageLog
from nzc.validation import within


def execute(
    run: PreparedRun, folder: Path, begun: float, log: CurveLog | None = None, say: StageLog | None = None
) -> RunResult:
    """Run the job and write everything into `folder`.

    begun  when the user started it, in seconds since 1970
    log    receives the student's learning curves as they grow
    say    receives every stage when it ends
    """
    session, stage, made_by, learner = run.session, Clock(begun, say), versions(), Learner(run, LearningCurves(log))
    votes, rounds = VoteHistograms(np.zeros((0, run.classes), np.int64), 0), list[RoundResult]()
    curves, facts = Curves(), dict[str, Any]()
    clear(folder, RUN_FILES, RUN_FIGURES)
    make_own(run.parts.store.root)
    sys.stderr.writelines(f"nzc: {line}\n" for line in run.warnings)
    if run.parts.baseline:
        from nzc.runs import baseline  # imports torch

        with stage("student"), within("representation"):
            learner.student, epsilon, facts = baseline.learn(run)
        stage.done("student", f"learned by DP-SGD from {facts['learned_from']}")
    else:
        votes, rounds = _label(run, learner, stage)
        with stage("accounting"):
            spent = Spent(session, votes)
            epsilon = spent.epsilon()
            if votes.teachers:
                curves = curves_of(votes.votes, session.rows, session.released, spent.curve(POINTS))
    with stage("student"):
        learner.accuracy, learner.metrics = evaluate(learner.student, run.splits)
    result = _result(run, votes, rounds, epsilon, learner)
    result = replace(result, seconds=stage.seconds, versions=made_by, folder=folder, **facts)
    arrays = write_outputs(folder, run, learner.student, result.voters)
    learner.curves.write(folder)
    write_curves(folder, curves)
    result.waited(begun).write(folder)
    if run.parts.figures:
        with optional("figures"):
            from nzc.runs.plots import plot_run  # matplotlib takes half a second to import

            plot_run(folder, curves, session.released, run.truth)
    result = result.waited(begun)  # with the time of the figures
    result.write(folder)
    session.close(digests(folder))
    return replace(result, **arrays)


def train_worker(run: PreparedRun) -> None:
    """On a worker node: train its share of the teachers."""
    splits, teachers = run.splits, run.parts.teachers
    if splits is not None and teachers.labels_asked_only:
        placed, places = _represent(run, Clock(time.time()))
        splits = placed and replace(placed, asked=run.session.choose(embedding=places))
    teachers.train_worker(splits, run.parts.store, run.parts.trainer)


def _represent(run: PreparedRun, stage: Clock) -> tuple[DataSplits | None, Floats | None]:
    """Return the splits with the places of their rows in the public representation, and those of the pool."""
    parts, splits = run.parts, run.splits
    if parts.representation is None or splits is None:
        return splits, None
    splits = parts.teachers.counted(splits)
    with stage("representation"), within("representation"):
        embedding = parts.representation.embed(splits, parts.store, parts.trainer)
    stage.done("representation", f"{len(splits.pool):,} public rows placed")
    places = np.concatenate([embedding.public, embedding.private[splits.joined]])
    return replace(splits, embedding=embedding), places


def _vote(run: PreparedRun, splits: DataSplits | None, rows: Ints, stage: Clock) -> VoteHistograms:
    """Return the votes of the trained teachers; for GroundTruth the true labels as votes. `rows` are asked first."""
    parts, teachers = run.parts, run.parts.teachers
    if isinstance(parts.policy.mechanism, GroundTruth) and run.truth is not None:
        return VoteHistograms.of_truth(run.truth, run.classes)
    if splits is not None and teachers.labels_asked_only:
        splits = replace(splits, asked=rows, coins=run.session.coins(rows))
    with stage("teachers"):
        trained = teachers.train(splits, parts.store, parts.trainer)
    stage.done("teachers", f"{teachers.check(splits).teachers:,} ready")
    with stage("votes"):
        votes = teachers.vote(splits, trained)
    stage.done("votes", f"{len(votes.votes):,} rows counted")
    return votes


def _label(run: PreparedRun, learner: "Learner", stage: Clock) -> tuple[VoteHistograms, list[RoundResult]]:
    """Train the teachers, ask them round by round, and let the student learn; return votes and rounds."""
    session, rounds = run.session, list[RoundResult]()
    splits, learner.places = _represent(run, stage)
    rows = session.choose(embedding=learner.places)
    votes = _vote(run, splits, rows, stage)
    for at in range(1, len(session.promise.sizes) + 1):
        rounds.append(_round(run, at, votes, rows, learner, stage))
        if at < len(session.promise.sizes):
            rows = session.choose(learner.probs, learner.places)
    return votes, rounds


@dataclass(repr=False)
class Learner:
    """Fits the student to the labels so far and to the unlabeled public rows. It never sees a vote.

    places   of the pool in the public representation; None: there is none
    student  the last fit; None: no student is wanted, or there is no label
    labels   [pool] which that fit learned from; `sources`: the same in words
    probs    class probabilities [public, classes] of the student of the round before; None: there was none
    """

    run: PreparedRun
    curves: LearningCurves
    places: Floats | None = None
    student: FittedStudent | None = None
    labels: Ints | None = None
    sources: str | None = None
    probs: Floats | None = None
    accuracy: float | None = None
    metrics: Metrics = field(default_factory=Metrics)

    def fit(self, labels: Ints, number: int) -> None:
        """Learn from labels [pool] after round `number`, the released and the reinforced ones."""
        student, splits, session = self.run.parts.student, self.run.splits, self.run.session
        if student is None or splits is None or (labels == ABSTAIN).all():
            return
        released = int((session.released != ABSTAIN).sum())
        sources = [f"{released:,} released labels"]
        if own := int((labels != ABSTAIN).sum()) - released:
            sources.append(f"{own:,} labels of its own")
        pool = len(splits.pool)  # votes may cover a part
        labels = np.pad(labels, (0, pool - len(labels)), constant_values=ABSTAIN)
        data = StudentData(splits.pool, labels, splits.classes)
        if (probs := session.probabilities) is not None:
            probs = np.pad(probs, ((0, pool - len(probs)), (0, 0)))
            data = soft_labels(data, probs, student.spread, session.mixed)
        learn = partial(student.fit, seed=session.policy.seed, trainer=self.run.parts.trainer, log=self.curves)
        if student.folds > 1:
            data = clean_labels(data, student.folds, session.policy.seed, lambda part, name: learn(part, name=name))
            sources.append(f"{data.labeled.sum():,} kept by cross-validation")
        if student.spread and self.places is not None:
            data = data if data.soft is not None else spread_labels(data, self.places, student.spread)
            sources.append(f"spread to {data.labeled.sum():,} rows")
        last = number == len(session.promise.sizes)
        self.student = learn(data, name="Student" if last else f"Student of round {number}")
        self.labels, self.sources = data.labels, ", ".join(sources)
        if last:
            self.student = student.decided(self.student, splits.public.x)
        else:
            self.probs = self.student.probabilities(splits.public.x)


def _round(
    run: PreparedRun, number: int, votes: VoteHistograms, rows: Ints, learner: Learner, stage: Clock
) -> RoundResult:
    """Ask the rows, charge what that costs, and learn from all labels so far."""
    session, truth = run.session, run.truth
    with stage("labels"):  # privacy boundary: private votes become public labels
        queries = session.ask(votes, rows, learner.probs)
    with stage("accounting"):
        session.charge()  # on disk before anyone sees a label
        epsilon = queries.cost.exact_epsilon(session.policy.delta)[0]
    session.infer(learner.places)
    stage.done("labels", f"{queries.answered:,} of {len(queries.rows):,} queries answered")
    labels = session.training_labels(learner.probs)
    with stage("student"):
        learner.fit(labels, number)
    if learner.student is not None:
        stage.done("student", f"learned from {learner.sources}")
    reinforced = int((labels != ABSTAIN).sum() - (session.released != ABSTAIN).sum())
    right = None if truth is None else share_right(session.released[queries.rows], truth[queries.rows])
    return RoundResult(len(queries.rows), queries.answered, reinforced, right, epsilon)


def _result(
    run: PreparedRun, votes: VoteHistograms, rounds: list[RoundResult], epsilon: Epsilon, learner: Learner
) -> RunResult:
    """Return all figures of the run, and print its warnings."""
    session, splits, policy, teachers = run.session, run.splits, run.session.policy, run.parts.teachers
    names, sizes = class_names(splits, run.classes), session.promise.sizes
    released = session.released if rounds else None
    warnings = warnings_of(splits, released, learner.labels, names, learner.accuracy, learner.metrics, *run.remedies)
    learned = None
    if splits is not None and learner.labels is not None:
        learned = share_right(learner.labels[: len(splits.public)], splits.public.y)
    if (times := session.ledger.repeats) > 1:
        (each, delta), together = session.promise.bound, "both" if times == 2 else f"all {times}"
        total = f"{together} together cost at most ε = {number(times * each)} at δ = {times * delta:g}"
        again = f"rng={SYSTEM} draws new noise in every run, and this command has now released labels {times} times"
        warnings.append(f"{again}: {total}, each alone ε = {number(each)}")
    sys.stderr.writelines(f"nzc: {line}\n" for line in warnings)
    return RunResult(
        dataset=run.parts.names["dataset"],
        aggregator=run.parts.names["aggregator"],
        student=run.parts.names["student"],
        seed=policy.seed,
        rng=policy.rng,
        mechanism=repr(policy.mechanism),
        delta=policy.delta,
        queries=sum(sizes),
        answered=sum(past.answered for past in rounds),
        refused=sum(sizes) - len(session.rows),
        reinforced=rounds[-1].reinforced if rounds else 0,
        label_accuracy=None if run.truth is None else share_right(session.released, run.truth),
        accuracy=learner.accuracy,
        teachers=votes.summary,
        epsilon=epsilon,
        ledger_trials=len(session.ledger.split()[1]) if session.ledger.entries else None,
        rounds=rounds,
        data=None if splits is None else splits.summary,
        neighbours=teachers.neighbours(splits),
        unit=teachers.unit(splits),
        publish=policy.publish,
        metrics=learner.metrics,
        warnings=[*([] if splits is None else splits.warnings), *run.warnings, *warnings],
        learned_from=learner.sources,
        learned_accuracy=learned,
        grouped_by=None if splits is None else splits.grouped_by,
        moved_votes=policy.mechanism.adjacency.rows,
        individual=session.promise.individual,
        voters=policy.mechanism.adjacency.voters,
    )
