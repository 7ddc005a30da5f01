"""One run, step by step: what is private becomes public by `Protocol.release`, and nowhere else."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from nzc.accounting import Epsilon
from nzc.clock import Clock
from nzc.mechanisms import ABSTAIN
from nzc.protocols import Released
from nzc.runs import advice
from nzc.runs.curves import POINTS, Curves, curves_of, write_curves
from nzc.runs.formatting import optional
from nzc.runs.layout import RUN_FIGURES, RUN_FILES, clear, digests
from nzc.runs.learner import Learner
from nzc.runs.metrics import Metrics, class_names, evaluate, share_right
from nzc.runs.outputs import public_arrays, write_outputs
from nzc.runs.prepare import Run
from nzc.runs.result import RoundResult, RunResult, versions
from nzc.runs.summary import unbounded
from nzc.saying import say
from nzc.storage.files import make_own, require_there
from nzc.teachers import VoteHistograms
from nzc.types import StageLog
from nzc.validation import Tree, in_a_line


def execute(
    run: Run,
    folder: Path,
    begun: float,
    log: StageLog | None = None,
    show: Callable[[RunResult], None] | None = None,
) -> RunResult:
    """Run the job and write everything into `folder`.

    begun  when the user started it, in seconds since 1970
    log    receives every stage when it ends
    show   receives the result when its numbers are known, before files and figures are made

    RuntimeError: the folder has gone, or cannot be written. Then no label is drawn that would be
    lost.
    """
    protocol = run.parts.protocol
    session = run.session
    stage = Clock(begun, log)
    packages = versions()
    clear(folder, RUN_FILES, RUN_FIGURES)
    make_own(run.parts.store.root)
    say(*run.warnings)

    data = protocol.placed(run.data, stage)
    taught = protocol.teach(data, session, stage)
    learner = Learner(run, data, folder, stage)
    rounds: list[RoundResult] = []
    for number in range(len(session.promise.rounds)):
        require_there(folder)
        with stage("labels"):
            released = protocol.release(taught, data, session, learner.probs)
        with stage("accounting"):
            session.charge()  # on disk before anyone sees what was released
            _require_recorded(run, released)
            rounds += _rounds(run, number, released)
        for past in rounds[number:]:
            stage.done("labels", f"{past.answered:,} of {past.asked:,} queries answered")
        learner.learn(released)

    votes = protocol.votes(taught, session)
    with stage("accounting"):
        epsilon = session.epsilon()
        curves = _curves(run, votes, learner.released, epsilon)
    result = _result(run, learner, votes, epsilon, rounds, stage)
    result = replace(result, versions=packages, folder=folder)
    if show is not None:
        _show(show, result)
    _write(run, learner, curves, result, folder)
    return result


def train_worker(run: Run) -> None:
    """On a worker node: train its share of the teachers."""
    run.parts.protocol.train_worker(run.data, run.session, Clock(time.time()))


def _require_recorded(run: Run, released: Released) -> None:
    """Raise RuntimeError where a protocol returns labels that its session has not recorded."""
    labeled = np.flatnonzero(released.labels != ABSTAIN)
    if not np.isin(labeled, run.session.rows).all():
        raise RuntimeError(
            "a protocol returned labels that it has not recorded, so nothing is paid"
        )


def _rounds(run: Run, first: int, released: Released) -> list[RoundResult]:
    """Return what the result says of the rounds of queries from the number `first` on."""
    rounds = []
    for past in run.session.rounds[first:]:
        right = None
        if run.truth is not None:
            right = share_right(released.labels[past.rows], run.truth[past.rows])
        epsilon = past.cost.exact_epsilon(run.session.policy.delta)[0]
        asked = len(past.rows)
        rounds.append(RoundResult(asked, past.answered, released.reinforced, right, epsilon))
    return rounds


def _curves(run: Run, votes: VoteHistograms, released: Released, epsilon: Epsilon) -> Curves:
    """Return the curves that votes of teachers explain."""
    if not len(votes.votes) or not votes.teachers:
        return {}
    session = run.session
    return curves_of(votes.votes, session.rows, released.labels, session.curve(POINTS), epsilon)


def _result(
    run: Run,
    learner: Learner,
    votes: VoteHistograms,
    epsilon: Epsilon,
    rounds: list[RoundResult],
    stage: Clock,
) -> RunResult:
    """Return all figures of the run, and print its warnings."""
    splits = run.splits
    policy = run.session.policy
    released = learner.released
    arrays = public_arrays(run, released, learner.fitted)
    with stage("student"):
        accuracy, metrics, failed = evaluate(learner.fitted, splits, run.parts.metrics)
    warnings = [*_warnings(run, learner, accuracy, metrics), *failed]
    say(*warnings)
    learned_accuracy = None
    if learner.labels is not None:
        labels = learner.labels[: len(splits.public)]
        learned_accuracy = share_right(labels, splits.public.y)
        metrics = replace(metrics, agreement=share_right(labels, arrays["predictions"]))
    stage.since_begun("total")
    return RunResult(
        dataset=run.parts.names["dataset"],
        seed=policy.seed,
        rng=policy.rng,
        mechanism=released.mechanism or repr(policy.mechanism),
        delta=policy.delta,
        answered=sum(past.answered for past in rounds),
        reinforced=rounds[-1].reinforced if rounds else 0,
        label_accuracy=share_right(released.labels, run.truth),
        accuracy=accuracy,
        teachers=votes.summary,
        epsilon=epsilon,
        rounds=rounds,
        data=None if splits.is_empty else splits.summary,
        unit=run.data.task.unit,
        neighbours=run.data.task.neighbours,
        bound=policy.bound,
        seconds=stage.seconds,
        metrics=metrics,
        warnings=[*splits.warnings, *run.warnings, *warnings],
        learned_from=learner.sources,
        learned_accuracy=learned_accuracy,
        grouped_by=splits.units.grouped_by,
        **learner.names,
        **_of_queries(run),
        **_of_ledger(run, epsilon),
        **arrays,
    )


def _of_queries(run: Run) -> Tree:
    """Return what the result says of the queries, and of who answered them."""
    session = run.session
    queries = sum(session.promise.sizes)
    facts: Tree = {"queries": queries, "refused": queries - len(session.rows)}
    if session.rounds:
        adjacency = session.mechanism.adjacency
        facts |= {
            "moved_votes": adjacency.rows,
            "voters": run.parts.protocol.voters or adjacency.voters,
        }
    return facts


def _of_ledger(run: Run, epsilon: Epsilon) -> Tree:
    """Return what the result says of other runs with the same private data."""
    ledger = run.session.ledger
    if not ledger.entries:
        return {}
    counted, trials = ledger.split()
    facts: Tree = {
        "ledger_trials": len(trials),
        "ledger_releases": len(counted) - len(ledger.entries),
    }
    if epsilon.ledger_total == np.inf:
        facts["ledger_unbounded"] = unbounded([*counted, *trials], run.session.policy.delta)
    return facts


def _warnings(run: Run, learner: Learner, accuracy: float | None, metrics: Metrics) -> list[str]:
    """Return what a reader of the accuracy must know, a line each.

    All but the first follow from public facts only.
    """
    names = class_names(run.splits, run.classes)
    lines = advice.about_classes(run.splits, names)
    if run.session.rounds:
        lines += advice.about_labels(learner.released.labels, learner.labels, names)
    if accuracy is not None:
        lines += advice.about_accuracy(accuracy, metrics)
        lines += advice.about_recall(metrics)
    return lines


def _write(run: Run, learner: Learner, curves: Curves, result: RunResult, folder: Path) -> None:
    """Write all files of the run. After them, another run draws its noise anew."""
    session = run.session
    released = learner.released
    write_outputs(folder, run, released, learner.fitted, result)
    write_curves(folder, curves)
    result.write(folder)
    if run.parts.figures:
        with optional("figures"):
            from nzc.runs.plots import plot_run  # matplotlib takes half a second to import

            plot_run(folder, curves, released.labels, run.truth)
    session.ledger.finish(
        digests(folder), {"sizes": session.promise.sizes, "rows": len(session.labels)}
    )


def _show(show: Callable[[RunResult], None], result: RunResult) -> None:
    """Show the result. Where that fails the run goes on: its labels are charged by now."""
    try:
        show(result)
    except (Exception, SystemExit) as error:  # rich exits where nobody reads standard output
        say(f"the table could not be shown ({in_a_line(repr(error), 200)})")
