"""One run, stage by stage: representation, teachers, votes, labels, student, accounting, files."""

import sys
from dataclasses import replace
from pathlib import Path

from nzc.accounting import Epsilon
from nzc.data import DataSplits
from nzc.labeling.spent import Spent
from nzc.mechanisms import ABSTAIN, GroundTruth
from nzc.runs.clock import Clock
from nzc.runs.curves import POINTS, Curves, LearningCurves, curves_of, write_curves
from nzc.runs.formatting import optional
from nzc.runs.layout import RUN_FIGURES, RUN_FILES, clear, digests
from nzc.runs.learner import Learner
from nzc.runs.metrics import Metrics, class_names, evaluate, share_right, undeclared, warnings_of
from nzc.runs.outputs import write_labels, write_student
from nzc.runs.prepare import PreparedRun
from nzc.runs.provenance import versions
from nzc.runs.result import RoundResult, RunResult
from nzc.storage.claim import make_own
from nzc.teachers import VoteHistograms
from nzc.types import CurveLog, Floats, Ints, StageLog
from nzc.validation import within


def execute(run: PreparedRun, folder: Path, log: CurveLog | None = None, say: StageLog | None = None) -> RunResult:
    """Run the job and write everything into `folder`.

    log  receives the student's learning curves as they grow
    say  receives every stage when it ends
    """
    session, stage, made_by, rounds = run.session, Clock(say), versions(), []
    clear(folder, RUN_FILES, RUN_FIGURES)
    make_own(run.parts.store.root)
    with stage("total"):
        splits, places = _represent(run, stage)
        learner, rows = Learner(run, places, LearningCurves(log)), session.choose(embedding=places)
        votes = _vote(run, splits, rows, stage)
        for number in range(1, len(session.promise.sizes) + 1):
            rounds.append(_round(run, number, votes, rows, learner, stage))
            if number < len(session.promise.sizes):
                rows = session.choose(learner.probs, places)
        with stage("accounting"):
            spent = Spent(session, votes)
            epsilon, cost_curve = spent.epsilon(), spent.curve(POINTS)
        with stage("student"):
            measured = evaluate(learner.student, run.splits)
    result = _result(run, votes, rounds, epsilon, learner, measured)
    result = replace(result, seconds=stage.seconds, versions=made_by, folder=folder)
    curves = curves_of(votes.votes, session.rows, session.released, cost_curve) if votes.teachers else {}
    _write(run, folder, result, learner, curves)
    return result


def train_worker(run: PreparedRun) -> None:
    """On a worker node: train its share of the teachers."""
    splits, teachers = run.splits, run.parts.teachers
    if splits is not None and teachers.labels_asked_only:
        placed, places = _represent(run, Clock())
        splits = placed and replace(placed, asked=run.session.choose(embedding=places))
    teachers.train_worker(splits, run.parts.store, run.parts.trainer)


def _represent(run: PreparedRun, stage: Clock) -> tuple[DataSplits | None, Floats | None]:
    """Return the splits with the places of their rows in the public representation, and those of public rows."""
    parts, splits = run.parts, run.splits
    if parts.representation is None or splits is None:
        return splits, None
    with stage("representation"), within("representation"):
        embedding = parts.representation.embed(splits, parts.store, parts.trainer)
    stage.done("representation", f"{len(splits.public):,} public rows placed")
    return replace(splits, embedding=embedding), embedding.public


def _vote(run: PreparedRun, splits: DataSplits | None, rows: Ints, stage: Clock) -> VoteHistograms:
    """Return the votes of the trained teachers; for GroundTruth the true labels as votes. `rows` are asked first."""
    parts, teachers = run.parts, run.parts.teachers
    if isinstance(parts.policy.mechanism, GroundTruth) and run.truth is not None:
        return VoteHistograms.of_truth(run.truth, run.classes)
    if splits is not None and teachers.labels_asked_only:
        splits = replace(splits, asked=rows)
    with stage("teachers"):
        trained = teachers.train(splits, parts.store, parts.trainer)
    stage.done("teachers", f"{teachers.check(splits).teachers:,} ready")
    with stage("votes"):
        votes = teachers.vote(splits, trained)
    stage.done("votes", f"{len(votes.votes):,} rows counted")
    return votes


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
    stage.done("labels", f"{queries.answered:,} of {len(queries.rows):,} queries answered")
    labels = session.training_labels(learner.probs)
    with stage("student"):
        learner.fit(labels, number)
    if learner.student is not None:
        stage.done("student", f"learned from {learner.sources}")
    reinforced = int((labels != ABSTAIN).sum() - (session.released != ABSTAIN).sum())
    right = None if truth is None else share_right(queries.labels, truth[queries.rows])
    return RoundResult(len(queries.rows), queries.answered, reinforced, right, epsilon)


def _result(
    run: PreparedRun,
    votes: VoteHistograms,
    rounds: list[RoundResult],
    epsilon: Epsilon,
    learner: Learner,
    measured: tuple[float | None, Metrics],
) -> RunResult:
    """Return all figures of the run, and print its warnings. `measured`: the student's accuracy and metrics."""
    session, splits, policy, teachers = run.session, run.splits, run.session.policy, run.parts.teachers
    (accuracy, metrics), names, moved = measured, class_names(splits, run.classes), policy.mechanism.adjacency.queries
    warnings = [*undeclared(splits), *warnings_of(session.released, learner.labels, names, accuracy, metrics)]
    for line in warnings:
        print(f"nzc: {line}", file=sys.stderr)
    return RunResult(
        dataset=run.parts.names["dataset"],
        aggregator=run.parts.names["aggregator"],
        student=run.parts.names["student"],
        seed=policy.seed,
        rng=policy.rng,
        mechanism=repr(policy.mechanism),
        delta=policy.delta,
        queries=sum(session.promise.sizes),
        answered=sum(past.answered for past in rounds),
        refused=sum(session.promise.sizes) - len(session.rows),
        reinforced=rounds[-1].reinforced,
        label_accuracy=None if run.truth is None else share_right(session.released, run.truth),
        accuracy=accuracy,
        teachers=votes.summary,
        epsilon=epsilon,
        ledger_trials=len(session.ledger.split()[1]) if session.ledger.entries else None,
        rounds=rounds,
        data=None if splits is None else splits.summary,
        neighbours=teachers.neighbours(splits),
        unit=teachers.unit(splits),
        publish=policy.publish,
        metrics=metrics,
        warnings=warnings,
        learned_from=learner.sources,
        grouped_by=None if splits is None else splits.grouped_by,
        moved_votes="any number of rows" if moved is None else f"at most {moved} asked rows",
    )


def _write(run: PreparedRun, folder: Path, result: RunResult, learner: Learner, curves: Curves) -> None:
    """Write the files of the run, record in the ledger that it is finished, and draw its figures."""
    released = run.session.released
    write_labels(folder, released, run.splits)
    if learner.student is not None and run.splits is not None:
        write_student(folder, learner.student, released, run.splits)
    learner.curves.write(folder)
    write_curves(folder, curves)
    result.write(folder)
    run.session.close(digests(folder))
    if run.parts.figures:
        with optional("figures"):
            from nzc.runs.plots import plot_run  # matplotlib takes half a second to import

            plot_run(folder, curves, released, run.truth)
