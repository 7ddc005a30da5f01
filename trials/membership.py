"""Who was in the private data? Attacks on what is released, beside the ε that bounds their success.

In every world each teacher learns from a random half of its own shard of digits. So a record that
is in replaces another record, as in neighbouring datasets of nzc. Each world is attacked by all
others. Attackers:

  LiRA      sees a model, and has shadow models: Carlini et al. 2022, arXiv 2112.03570, online, one
  query per record.
            Its rows without privacy show what it can do: a network that has memorised random
            labels, a network that learned from the records as they are, and the same network where
            membership is a coin flip.
  labels    sees the released labels and knows everything else: all other records, all seeds, and
  the record that may
            stand in the place of the attacked one. No attack on the labels of these records does
            better.
  crafted   the same where teachers disagree over one record on every query in the way that is worst
  for the mechanism.

(ε, δ) promises: true positives ≤ e^ε · false positives + δ. Brackets hold 95 % intervals (see
`measure`).

    python trials/membership.py [--worlds 32]

`--cells` tries the attacker `labels` on what recipe=near_zero releases: `random` are pairs of
records, `crafted` the worst votes. Only one or two queries have other votes with the record than
without, so nothing has to be sampled.

    python trials/membership.py --cells aggregator=gumbel dataset=mnist dataset.root=DIR queries=10
    \\
        aggregator=gnmax aggregator.sigma=848.2
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _nzc import show_table
from rich.progress import track

from nzc.accounting import Epsilon, audit
from nzc.app.build import build
from nzc.app.components import build_components
from nzc.app.config import compose_run
from nzc.data import DataSplits
from nzc.mechanisms import ABSTAIN, NoisyArgmax, count_votes
from nzc.protocols.cells import Cells, counts_of
from nzc.protocols.smoothing import nearest
from nzc.runs.formatting import number, percent
from nzc.students import NetworkStudent, StudentData
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble
from nzc.teachers.sharded import collect
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Bools, Floats, Ints

#: The attacked settings, by the name of their row.
ATTACKED = {
    "NZC": ["aggregator=nzc"],
    "LNMax, γ 0.05": ["aggregator=lnmax", "aggregator.gamma=0.05"],
    "GNMax, σ 15": ["aggregator=gnmax", "aggregator.sigma=15"],
    "Confident, T 25, σ₁ 20, σ 10": [
        "aggregator=confident", "aggregator.threshold=25", "aggregator.sigma1=20",
        "aggregator.sigma=10",
    ],
    "GNMax, σ 30, 50 queries": ["aggregator=gnmax", "aggregator.sigma=30", "queries=50"],
}  # fmt: skip
#: The rows without privacy.
RANDOM, RECORDS = "random labels, memorised", "the records, no privacy"


class Estimate(NamedTuple):
    """A share, and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} – {100 * self.high:.1f})"


def lira(scores: Floats, member: Bools) -> Floats:
    """Return log Pr[score | in] − log Pr[score | out], [worlds, records], of scores and membership,
    likewise.

    The other worlds are the shadow models of a world. Scores are Gaussian for each record, in and
    out; because shadow models are few, all records share one variance for in and one for out.
    """
    distances, known = [], np.ones_like(member)
    for side in (member, ~member):
        count, total, squares = (
            part.sum(axis=0) - part for part in (side.astype(int), side * scores, side * scores**2)
        )
        mean = total / np.maximum(count, 1)
        freedom = (count - 1).clip(0).sum(axis=1, keepdims=True)
        variance = (squares - count * mean**2).sum(axis=1, keepdims=True) / freedom
        distances.append((scores - mean) ** 2 / variance + np.log(variance))
        known &= count > 0
    return np.where(known, distances[1] - distances[0], 0.0) / 2


def measure(
    scores: Floats, member: Bools, fpr: float, rng: np.random.Generator, resamples: int = 400
) -> list[Estimate]:
    """Return AUC, rate of true positives at the rate `fpr` of false positives, and balanced
    accuracy at threshold 0.

    Of scores and membership, [worlds, records]; equal scores are decided by a coin. Intervals:
    bootstrap over worlds and records at once, rather too wide (Owen 2007); Clopper–Pearson where an
    attack always succeeds, or never.
    """
    order = np.argsort(-scores, axis=None)
    value, hit = scores.ravel()[order], member.ravel()[order]
    world, record = np.divmod(order, scores.shape[1])
    ends = np.append(np.flatnonzero(np.diff(value)), len(value) - 1)
    guess = (np.sign(value) + 1) / 2

    def evaluate(worlds: Ints, records: Ints) -> list[float]:
        """Return the three figures where each world and each record counts so many times."""
        weight = worlds[world] * records[record]
        positive, negative = weight * hit, weight * ~hit
        true, false = (
            np.append(0, np.cumsum(side)[ends] / side.sum()) for side in (positive, negative)
        )
        right = (positive @ guess / positive.sum() + negative @ (1 - guess) / negative.sum()) / 2
        return [float(np.trapezoid(true, false)), float(np.interp(fpr, false, true)), float(right)]

    def resample(count: int) -> Ints:
        return (
            rng.multinomial(count, np.full(count, 1 / count)) if count > 1 else np.ones(1, np.int64)
        )

    figures = evaluate(*(np.ones(count, np.int64) for count in scores.shape))
    drawn = [evaluate(*map(resample, scores.shape)) for _ in range(resamples)]
    intervals = np.quantile(drawn, [0.025, 0.975], axis=0)
    certain = 0.025 ** (1 / hit.sum())  # the lower end of the interval of a share of 1
    return [
        Estimate(
            value,
            min(low, certain) if value == 1 else low,
            max(high, 1 - certain) if value == 0 else high,
        )
        for value, low, high in zip(figures, *intervals, strict=True)
    ]


def attack_labels(
    mechanism: NoisyArgmax,
    votes: Ints,
    moved: Ints,
    record: Ints,
    records: int,
    games: int,
    rng: np.random.Generator,
) -> tuple[Floats, Bools]:
    """Play `games` games with each record in and out, against an attacker who knows both vote
    histograms.

    Return the log-likelihood ratios of the released labels, the best scores, and the membership, [2
    · games, records]. `votes` and `moved` [queries, classes] are with and without `record`
    [queries], where they differ.
    """
    ratio = np.subtract(*(np.maximum(mechanism.log_law(side), -700.0) for side in (votes, moved)))
    every = np.arange(len(record))
    scores = [
        np.bincount(
            record, ratio[every, mechanism.release(side, rng)], records
        )  # label −1 (abstaining) reads the last
        for side in (votes, moved)
        for _ in range(games)
    ]
    return np.stack(scores), np.repeat([True, False], games)[:, None] & np.ones(records, dtype=bool)


def worst_pair(mechanism: NoisyArgmax, teachers: int, classes: int) -> tuple[Ints, Ints]:
    """Return the neighbouring histograms at which the mechanism's labels differ most."""
    largest = [] if mechanism.screen is None else [round(min(mechanism.screen.threshold, teachers))]
    return audit.worst_pair(mechanism.log_law, teachers, classes, largest)


class World(NamedTuple):
    """One world: the records in and out of each shard, the teachers' labels [teachers, queries],
    and their votes.
    """

    inside: list[Ints]
    outside: list[Ints]
    predictions: Ints
    votes: Ints


class Experiment:
    """The components of nzc that all worlds share."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.rng = arguments, np.random.default_rng([arguments.seed, 0])
        self.resampler = np.random.default_rng([arguments.seed, 2])
        settings = [f"seed={arguments.seed}", f"teachers.count={arguments.teachers}"]
        cfg = compose_run([*settings, "trainer.progress=false", "trainer.accelerator=cpu"])
        self.teachers: Ensemble = build(cfg, "teachers")
        self.trainer: TrainerSettings = build(cfg, "trainer")
        self.splits: DataSplits = build(cfg, "dataset").load()
        self.shards = self.teachers.shards(self.splits)
        attacked = {name: compose_run(overrides) for name, overrides in ATTACKED.items()}
        self.mechanisms: dict[str, NoisyArgmax] = {
            name: build(cfg, "aggregator") for name, cfg in attacked.items()
        }
        self.queries = {
            name: cfg.queries or len(self.splits.public) for name, cfg in attacked.items()
        }
        self.student: NetworkStudent = build(cfg, "student")
        self.memoriser = replace(self.student, augment=None, weight_decay=0.0, lr=0.01, steps=1000)
        self.random_labels = self.rng.integers(self.splits.classes, size=len(self.splits.private))
        self.first, self.epsilon = self.world(0), dict[str, Epsilon]()

    def world(self, number: int) -> World:
        """Train the teachers of one world.

        All shards have the same size, so that they are trained as one network.
        """
        orders = [self.rng.permutation(shard) for shard in self.shards]
        half = min(len(order) for order in orders) // 2
        inside, outside = (
            [order[:half] for order in orders],
            [order[half : 2 * half] for order in orders],
        )
        predictions = self.predictions(inside, number)
        return World(inside, outside, predictions, count_votes(predictions, self.splits.classes))

    def predictions(self, shards: list[Ints], seed: int) -> Ints:
        """Return the labels of teachers that learn from these shards, [teachers, queries]."""
        settings = replace(self.teachers, seed=seed, parallel=len(shards), stacked=True)
        with tempfile.TemporaryDirectory() as name:
            engine = TeacherEnsemble(settings, self.splits, shards, Path(name))
            self.trainer.fit(engine, "Teachers", max_epochs=1)
            return collect(Path(name), len(shards)).astype(np.int64)

    def learn(
        self, config: NetworkStudent, x: AnyArray, labels: Ints, seed: int, about: Ints
    ) -> tuple[Floats, float]:
        """Train a network, and return its scores of the private records, and its test accuracy.

        The score is log p/(1 − p), p being the probability of the label `about` [records].
        """
        student = config.fit(
            StudentData(x, labels, self.splits.classes), seed, self.trainer, "Student"
        )
        p = np.log(np.maximum(student.probabilities(self.splits.private.x[:]), 1e-300))
        others = np.arange(self.splits.classes) != about[:, None]
        score = p[~others] - np.logaddexp.reduce(p, axis=1, where=others, initial=-np.inf)
        return score, float((student.predict(self.splits.test.x) == self.splits.test.y).mean())

    def without_record(self, world: World) -> tuple[Ints, Ints, Ints, Ints]:
        """Exchange every record that is in for one that is out, one of each teacher at a time.
        Return, for every vote
        that changes: the histograms [changes, classes] with and without the record, and the record
        and the query.
        """
        half, one_hot = len(world.inside[0]), np.eye(self.splits.classes, dtype=np.int64)
        pairs = list(zip(world.inside, world.outside, strict=True))
        shards = [
            [np.where(np.arange(half) == at, out, into) for into, out in pairs]
            for at in range(half)
        ]
        exchanged = np.stack(
            [self.predictions(each, 0) for each in track(shards, "Records", transient=True)]
        )
        record, teacher, query = np.nonzero(exchanged != world.predictions)
        with_record = world.votes[query]
        without = (
            with_record
            - one_hot[world.predictions[teacher, query]]
            + one_hot[exchanged[record, teacher, query]]
        )
        return with_record, without, record * len(pairs) + teacher, query

    def row(
        self,
        name: str,
        scores: Floats,
        member: Bools,
        epsilon: Epsilon | None,
        accuracy: float | None = None,
    ) -> list[str]:
        """Return a row of the table: the success of an attack by scores, and what ε allows."""
        fpr, costs = self.arguments.fpr, ["–"] * 4
        area, true, balanced = measure(scores, member, fpr, self.resampler)
        if epsilon is not None and (bound := epsilon.data_independent) is not None:
            allows = (
                1.0 if bound > 700 else min(1.0, float(np.exp(bound)) * fpr + self.arguments.delta)
            )
            costs = [number(epsilon.claimed), number(epsilon.exact), number(bound), percent(allows)]
        return [name, percent(accuracy), *costs, str(true), str(area), str(balanced)]

    def attack_models(self) -> Iterator[list[str]]:
        """Yield the rows of LiRA. Keep the ε of the first world's released labels by setting."""
        splits, shape = self.splits, (self.arguments.worlds, len(self.splits.private))
        names, member = [RANDOM, RECORDS, *ATTACKED], np.zeros(shape, dtype=bool)
        scores, accuracies = (
            {name: np.zeros(shape) for name in names},
            {name: np.zeros(shape[0]) for name in names},
        )
        for at in track(range(shape[0]), "Worlds", transient=True):
            world = self.first if at == 0 else self.world(at)
            member[at, np.concatenate(world.inside)] = True
            lessons = {
                name: (
                    self.memoriser,
                    splits.private.x[:],
                    np.where(member[at], labels, ABSTAIN),
                    labels,
                )
                for name, labels in ((RANDOM, self.random_labels), (RECORDS, splits.private.y))
            }
            for name, mechanism in self.mechanisms.items():
                asked = world.votes[: self.queries[name]]
                labels = mechanism.release(asked, self.rng)
                if at == 0:
                    self.epsilon[name] = mechanism.cost(asked, labels).epsilon(self.arguments.delta)
                lessons[name] = (
                    self.student,
                    splits.public.x[: len(asked)],
                    labels,
                    splits.private.y,
                )
            for name, (config, x, labels, about) in lessons.items():
                scores[name][at], accuracies[name][at] = self.learn(config, x, labels, at, about)
        for name in names:
            accuracy = float(accuracies[name].mean())
            yield self.row(
                f"LiRA: {name}",
                lira(scores[name], member),
                member,
                self.epsilon.get(name),
                accuracy,
            )
            if name == RECORDS:
                coins = self.rng.random(shape) < 0.5
                scored = lira(scores[name], coins)
                yield self.row(
                    "LiRA: the same, membership a coin flip", scored, coins, None, accuracy
                )

    def rows(self) -> Iterator[list[str]]:
        """Yield all rows of the table; an empty one is a line."""
        yield from self.attack_models()
        yield []
        records = len(self.first.inside) * len(self.first.inside[0])
        votes, moved, record, query = self.without_record(self.first)
        for name, mechanism in self.mechanisms.items():
            asked = query < self.queries[name]
            played = attack_labels(
                mechanism, votes[asked], moved[asked], record[asked], records, 20, self.rng
            )
            yield self.row(f"labels: {name}", *played, self.epsilon[name])
        yield []
        for name, mechanism in self.mechanisms.items():
            count = 1 if name == "NZC" else self.queries[name]
            pair = worst_pair(mechanism, self.arguments.teachers, self.splits.classes)
            here, there = (np.tile(side, (count, 1)) for side in pair)
            nobody = np.zeros(count, np.int64)
            played = attack_labels(
                mechanism, here, there, nobody, 1, self.arguments.games, self.rng
            )
            cost = mechanism.cost(here, mechanism.release(here, self.rng)).epsilon(
                self.arguments.delta
            )
            yield self.row(f"crafted: {name}{', 1 query' if count == 1 else ''}", *played, cost)


def best_attack(mechanism: NoisyArgmax, here: Ints, there: Ints, fpr: float) -> tuple[float, float]:
    """Return true positives of the likelihood ratio at `fpr` false positives, and balanced
    accuracy, without sampling:
    of histograms of one or two queries [queries, classes] with and without the record.
    """
    laws = []
    for votes in (here, there):
        law = np.ones(1)
        for outcomes in np.exp(mechanism.log_law(votes)):
            law = np.outer(law, outcomes).ravel()
        laws.append(law)
    p, q = laws
    order = np.argsort(np.log(np.maximum(q, 1e-300)) - np.log(np.maximum(p, 1e-300)))
    false, true = np.concatenate([[0], q[order].cumsum()]), np.concatenate([[0], p[order].cumsum()])
    return float(np.interp(fpr, false, true)), float(0.5 + np.abs(p - q).sum() / 4)


def attack_cells(overrides: list[str], fpr: float, pairs: int = 2000) -> None:
    """Show the best attacks on the labels of recipe=near_zero."""
    cfg = compose_run(["recipe=near_zero", *overrides, "student=none"])
    parts = build_components(cfg, cfg.hydra.runtime.choices, figures=False)
    policy = parts.policy
    assert (
        isinstance(parts.protocol, Cells)
        and isinstance(policy.mechanism, NoisyArgmax)
        and parts.dataset is not None
        and parts.representation is not None
    )
    splits, mechanism, rng = (
        parts.dataset.load(),
        policy.mechanism,
        np.random.default_rng([policy.seed, 4, 0]),
    )
    embedding = parts.representation.embed(splits, parts.store, parts.trainer)
    rows = parts.selection.choose(
        np.arange(len(splits.public)), parts.selection.queries or 1, None, rng, embedding.public
    )
    votes = counts_of(splits, embedding, rows)[rows]

    home, y = nearest(embedding.private, embedding.public[rows]), splits.private.y
    attacks = []
    for record, other in np.random.default_rng(0).integers(len(y), size=(pairs, 2)):
        there = votes.copy()
        there[home[record], y[record]] -= 1
        there[home[other], y[other]] += 1
        cells = np.unique([home[record], home[other]])
        attacks.append(best_attack(mechanism, votes[cells], there[cells], fpr))
    worst = np.stack(worst_pair(mechanism, int(votes[0].sum()), splits.classes))
    crafted = best_attack(mechanism, worst[[0]], worst[[1]], fpr)
    epsilon, delta = mechanism.promise(len(rows), len(rows)).published(policy.delta)
    cost = mechanism.cost(votes, votes.argmax(axis=1)).epsilon(policy.delta)
    factor = float(np.exp(epsilon))
    allows = factor * fpr + delta, (factor + delta) / (1 + factor)
    rates = {
        "random, mean": np.mean(attacks, axis=0),
        "random, most": np.max(attacks, axis=0),
        "crafted": crafted,
    }
    rates["what ε allows"] = allows
    show_table(
        f"{len(y):,} records, {len(rows)} labels, "
        f"ε published {epsilon:.4g}, ε exact {number(cost.exact)}",
        ("attack", f"true positives at {100 * fpr:g} % false", "balanced accuracy"),
        [(name, *(f"{100 * rate:.4f} %" for rate in pair)) for name, pair in rates.items()],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--worlds", type=int, default=32, help="each is attacked with the others as shadow models"
    )
    parser.add_argument("--teachers", type=int, default=50)
    parser.add_argument(
        "--games",
        type=int,
        default=2000,
        help="games with a crafted record, and as many without it",
    )
    parser.add_argument("--fpr", type=float, default=0.01, help="rate of false positives")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--cells",
        nargs="*",
        metavar="OVERRIDE",
        help="attack recipe=near_zero with these overrides",
    )
    arguments = parser.parse_args()
    if arguments.cells is not None:
        return attack_cells(arguments.cells, arguments.fpr)
    if arguments.worlds < 4:
        parser.error(
            f"--worlds {arguments.worlds}: must be 4 or more: the others are the shadow models"
        )
    rate = f"true positives at {100 * arguments.fpr:g} % false"
    columns = (
        "attack",
        "accuracy",
        "ε claimed",
        "ε exact",
        "ε any votes",
        "ε allows",
        rate,
        "AUC",
        "balanced",
    )
    show_table(
        f"digits, {arguments.teachers} teachers, {arguments.worlds} worlds",
        columns,
        list(Experiment(arguments).rows()),
        f"δ = {arguments.delta:g}; ε exact at the votes of the first world, or at the crafted ones",
    )


if __name__ == "__main__":
    main()
