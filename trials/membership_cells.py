"""Who was in the private data? The best attack on the labels that `recipe=near_zero` releases.

The attacker knows everything but one record: all other records, all settings, and the two of which one was in the
data. He sees the labels. Only one or two queries have other votes in one case than in the other, and the law of their
labels is known, so the best attack, the likelihood ratio, is computed without sampling. (ε, δ) promises: true positives
≤ e^ε · false positives + δ.

    random   a private record, or another one in its place
    crafted  votes at which one moved vote changes the law most (nzc.accounting.audit.worst_pair), on two queries

    python trials/membership_cells.py dataset=mnist dataset.root=DIR representation=contrastive queries=10 \\
        aggregator=gnmax aggregator.sigma=848.2
"""

import argparse
from dataclasses import replace
from pathlib import Path

import hydra
import numpy as np
from hydra import initialize_config_dir
from rich.table import Table

from nzc.accounting.audit import worst_pair
from nzc.app.components import build_components
from nzc.app.config import CONF, register
from nzc.labeling.run_record import RunRecord
from nzc.labeling.session import LabelingSession
from nzc.mechanisms import NoisyArgmax
from nzc.runs.formatting import number, show
from nzc.runs.pipeline import load
from nzc.teachers.neighbours import Neighbours
from nzc.types import Floats, Ints

FALSE = 0.01


def joint(mechanism: NoisyArgmax, votes: Ints) -> Floats:
    """Return the probabilities of all labels of one or two queries together, flat."""
    law = np.ones(1)
    for each in np.exp(mechanism.log_law(votes)):
        law = np.outer(law, each).ravel()
    return law


def best_attack(here: Floats, there: Floats) -> tuple[float, float]:
    """Return the true positives of the best attack at FALSE false positives, and its balanced accuracy."""
    order = np.argsort(-np.log(np.maximum(here, 1e-300)) + np.log(np.maximum(there, 1e-300)))
    false, true = np.concatenate([[0], there[order].cumsum()]), np.concatenate([[0], here[order].cumsum()])
    return float(np.interp(FALSE, false, true)), float(0.5 + np.abs(here - there).sum() / 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2000, help="random pairs of records")
    arguments, overrides = parser.parse_known_args()
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", overrides=[*overrides, "student=none"], return_hydra_config=True)
    parts = build_components(cfg, cfg.hydra.runtime.choices, figures=False)
    teachers, mechanism, delta = parts.teachers, parts.policy.mechanism, parts.policy.delta
    assert isinstance(teachers, Neighbours) and parts.dataset is not None and parts.representation is not None
    splits = load(parts.dataset)
    embedding = parts.representation.embed(splits, parts.store, parts.trainer)
    nothing = RunRecord(Path(), "", None, parts.policy.rng, parts.policy.seed, 0)  # nothing is drawn
    session = LabelingSession(parts.policy, [parts.queries or 1], len(splits.public), nothing)
    asked = session.choose(embedding=embedding.public)
    splits = replace(splits, embedding=embedding, asked=asked)
    votes = teachers.vote(splits, teachers.train(splits, parts.store, parts.trainer)).votes[asked]

    own = np.empty(len(splits.private), np.int64)
    for teacher, shard in enumerate(teachers.shards(splits)):
        own[shard] = teacher % splits.classes
    places = embedding.public[asked]
    home = ((places**2).sum(axis=1) - 2 * embedding.private @ places.T).argmin(axis=1)
    rng, y, found = np.random.default_rng(0), splits.private.y, []
    for record, other in rng.integers(len(y), size=(arguments.pairs, 2)):
        there = votes.copy()
        there[home[record], [y[record]]] -= 1
        there[home[record], [own[record]]] += 1
        there[home[other], [own[record]]] -= 1
        there[home[other], [y[other]]] += 1
        cells = np.unique([home[record], home[other]])
        found.append(best_attack(joint(mechanism, votes[cells]), joint(mechanism, there[cells])))
    rates = np.array(found)
    here, there = (
        np.stack([side, side]).reshape(2, -1)
        for side in worst_pair(mechanism.log_law, int(votes[0].sum()), splits.classes)
    )
    crafted = best_attack(joint(mechanism, here), joint(mechanism, there))

    epsilon = mechanism.worst_case_epsilon(len(asked), delta)
    cost = mechanism.cost(votes, votes.argmax(axis=1)).epsilon(delta)
    title = f"{len(y):,} records, {len(asked)} labels, ε published {epsilon:.4g}, ε exact {number(cost.exact)}"
    table = Table(title=title, title_style="bold")
    for column in ("attack", f"true positives at {100 * FALSE:g} % false", "balanced accuracy"):
        table.add_column(column, justify="left" if column == "attack" else "right")
    for name, (true, balanced) in (
        ("random, mean", rates.mean(axis=0)), ("random, most", rates.max(axis=0)), ("crafted", crafted),
        ("what ε allows", (np.exp(epsilon) * FALSE + delta, (np.exp(epsilon) + delta) / (1 + np.exp(epsilon)))),
    ):  # fmt: skip
        table.add_row(name, f"{100 * true:.4f} %", f"{100 * balanced:.4f} %")
    show(table)


if __name__ == "__main__":
    main()
