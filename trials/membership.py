"""Who was in the private data? Attacks on what is released, beside the ε that bounds their success.

In every world each teacher learns from a random half of its own shard of digits. So a record that is in replaces
another record, as in neighbouring datasets of nzc. Each world is attacked by all others. Attackers, from realistic to
worst case:

  LiRA      sees a model, and has shadow models: Carlini et al. 2022, arXiv 2112.03570, online, one query per record.
            Its rows without privacy show what it can do: a network that has memorised random labels, a network that
            learned from the records as they are, and the same network where membership is a coin flip.
  labels    sees the released labels and knows everything else: all other records, all seeds, and the record that may
            stand in the place of the attacked one. It uses the mechanism's law at both vote histograms, so no attack
            on the labels of these records does better.
  crafted   the same where teachers disagree over one record on every query in the way that is worst for the mechanism
            (nzc.accounting.audit.worst_pair).

(ε, δ) promises: true positives ≤ e^ε · false positives + δ. Brackets hold 95 % intervals (see `measure`).

    python trials/membership.py [--worlds 32]
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import hydra
import numpy as np
from hydra import initialize_config_dir
from membership_attacks import attack_labels, lira, measure, worst_pair
from omegaconf import DictConfig
from rich.progress import track
from rich.table import Table

from nzc.accounting import Epsilon
from nzc.app.components import build
from nzc.app.config import CONF, register
from nzc.data import DataSplits
from nzc.mechanisms import ABSTAIN, NoisyArgmax, count_votes
from nzc.runs.formatting import number, percent, show
from nzc.students import StudentConfig, StudentData
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
        "aggregator=confident",
        "aggregator.threshold=25",
        "aggregator.sigma1=20",
        "aggregator.sigma=10",
    ],
    "GNMax, σ 30, 50 queries": ["aggregator=gnmax", "aggregator.sigma=30", "queries=50"],
}
#: The rows without privacy.
RANDOM, RECORDS = "random labels, memorised", "the records, no privacy"


def compose(*overrides: str) -> DictConfig:
    """Return the configuration of `nzc OVERRIDES`."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose("config", overrides=["recipe=papers", *overrides])


class World(NamedTuple):
    """One world: the records in and out of each shard, the teachers' labels [teachers, queries], and their votes."""

    inside: list[Ints]
    outside: list[Ints]
    predictions: Ints
    votes: Ints


class Experiment:
    """The components of nzc that all worlds share."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.rng = arguments, np.random.default_rng([arguments.seed, 0])
        settings = [f"seed={arguments.seed}", f"teachers.count={arguments.teachers}"]
        cfg = compose(*settings, "trainer.progress=false", "trainer.accelerator=cpu")
        self.teachers: Ensemble = build(cfg, "teachers")
        self.trainer: TrainerSettings = build(cfg, "trainer")
        self.splits: DataSplits = build(cfg, "dataset").load()
        self.shards = self.teachers.shards(self.splits)
        attacked = {name: compose(*overrides) for name, overrides in ATTACKED.items()}
        self.mechanisms: dict[str, NoisyArgmax] = {name: build(cfg, "aggregator") for name, cfg in attacked.items()}
        self.queries = {name: cfg.queries or len(self.splits.public) for name, cfg in attacked.items()}
        self.student: StudentConfig = build(compose(), "student")
        unregularised = ["student.augment=null", "student.weight_decay=0", "student.lr=0.01", "student.steps=1000"]
        self.memoriser: StudentConfig = build(compose(*unregularised), "student")
        self.random_labels = self.rng.integers(self.splits.classes, size=len(self.splits.private))

    def world(self, number: int) -> World:
        """Train the teachers of one world. All shards have the same size, so that they are trained as one network."""
        orders = [self.rng.permutation(shard) for shard in self.shards]
        half = min(len(order) for order in orders) // 2
        inside, outside = [order[:half] for order in orders], [order[half : 2 * half] for order in orders]
        predictions = self.predictions(inside, number)
        return World(inside, outside, predictions, count_votes(predictions, self.splits.classes))

    def predictions(self, shards: list[Ints], seed: int) -> Ints:
        """Return the labels of teachers that learn from these shards, [teachers, queries]."""
        settings = replace(self.teachers, seed=seed, parallel=len(shards), stacked=True)
        with tempfile.TemporaryDirectory() as name:
            engine = TeacherEnsemble(settings, self.splits, shards, Path(name))
            self.trainer.fit(engine, "Teachers", max_epochs=1)
            return collect(Path(name), len(shards)).astype(np.int64)

    def learn(self, config: StudentConfig, x: AnyArray, labels: Ints, seed: int, about: Ints) -> tuple[Floats, float]:
        """Train a network, and return its scores of the private records, [records], and its test accuracy.

        The score is log p/(1 − p), where p is the probability that the network gives to the label `about` [records].
        """
        student = config.student(StudentData(x, labels, self.splits.classes), seed)
        self.trainer.fit(student, "Student", max_epochs=1)
        p = np.log(np.maximum(student.probabilities(self.splits.private.x[:]), 1e-300))
        others = np.arange(self.splits.classes) != about[:, None]
        score = p[~others] - np.logaddexp.reduce(p, axis=1, where=others, initial=-np.inf)
        return score, float((student.predict(self.splits.test.x) == self.splits.test.y).mean())

    def without_record(self, world: World) -> tuple[Ints, Ints, Ints, Ints]:
        """Exchange every record that is in for one that is out, one record of each teacher at a time.

        Return, for every vote that changes: the histograms [changes, classes] with and without the record, and the
        numbers of the record and of the query, [changes].
        """
        half, one_hot = len(world.inside[0]), np.eye(self.splits.classes, dtype=np.int64)
        pairs = list(zip(world.inside, world.outside, strict=True))
        exchanged = np.stack(
            [
                self.predictions([np.where(np.arange(half) == at, out, into) for into, out in pairs], 0)
                for at in track(range(half), "Records", transient=True)
            ]
        )  # [half, teachers, queries]
        record, teacher, query = np.nonzero(exchanged != world.predictions)
        with_record = world.votes[query]
        without = with_record - one_hot[world.predictions[teacher, query]] + one_hot[exchanged[record, teacher, query]]
        return with_record, without, record * len(pairs) + teacher, query


class AttackTable:
    """The table of attacks, row by row."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.fpr, self.delta, self.rng = arguments.fpr, arguments.delta, np.random.default_rng([arguments.seed, 2])
        self.table = Table(
            title=f"digits, {arguments.teachers} teachers, {arguments.worlds} worlds", title_style="bold"
        )
        rate = f"true positives at {100 * arguments.fpr:g} % false"
        for name in ("attack", "accuracy", "ε claimed", "ε exact", "ε any votes", "ε allows", rate, "AUC", "balanced"):
            self.table.add_column(name, justify="left" if name == "attack" else "right")

    def add(
        self, name: str, scores: Floats, member: Bools, epsilon: Epsilon | None, accuracy: float | None = None
    ) -> None:
        """Add a row: the success of an attack with these scores [worlds, records], and what ε allows."""
        area, true, balanced = measure(scores, member, self.fpr, self.rng)
        costs = ["–"] * 4
        if epsilon is not None and (bound := epsilon.data_independent) is not None:
            allows = 1.0 if bound > 700 else min(1.0, float(np.exp(bound)) * self.fpr + self.delta)
            costs = [number(epsilon.claimed), number(epsilon.exact), number(bound), percent(allows)]
        self.table.add_row(name, percent(accuracy), *costs, str(true), str(area), str(balanced))


def attack_models(experiment: Experiment, table: AttackTable) -> tuple[World, dict[str, Epsilon]]:
    """Add the rows of LiRA. Return the first world, and the ε of its released labels by setting."""
    arguments, splits, rng = experiment.arguments, experiment.splits, experiment.rng
    shape, names = (arguments.worlds, len(splits.private)), [RANDOM, RECORDS, *ATTACKED]
    member, scores = np.zeros(shape, dtype=bool), {name: np.zeros(shape) for name in names}
    accuracies: dict[str, list[float]] = {name: [] for name in names}
    epsilon: dict[str, Epsilon] = {}
    for at in track(range(arguments.worlds), "Worlds", transient=True):
        world = experiment.world(at)
        if at == 0:
            first = world
        member[at, np.concatenate(world.inside)] = True
        lessons = {
            name: (experiment.memoriser, splits.private.x[:], np.where(member[at], labels, ABSTAIN), labels)
            for name, labels in ((RANDOM, experiment.random_labels), (RECORDS, splits.private.y))
        }
        for name, mechanism in experiment.mechanisms.items():
            asked = world.votes[: experiment.queries[name]]
            labels = mechanism.release(asked, rng)
            if at == 0:
                epsilon[name] = mechanism.cost(asked, labels).epsilon(arguments.delta)
            lessons[name] = (experiment.student, splits.public.x[: len(asked)], labels, splits.private.y)
        for name, (config, x, labels, about) in lessons.items():
            scores[name][at], accuracy = experiment.learn(config, x, labels, at, about)
            accuracies[name].append(accuracy)
    for name in names:
        accuracy = float(np.mean(accuracies[name]))
        table.add(f"LiRA: {name}", lira(scores[name], member), member, epsilon.get(name), accuracy)
        if name == RECORDS:
            coins = rng.random(shape) < 0.5
            table.add("LiRA: the same, membership a coin flip", lira(scores[name], coins), coins, None, accuracy)
    return first, epsilon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=32, help="each is attacked with the others as shadow models")
    parser.add_argument("--teachers", type=int, default=50)
    parser.add_argument("--games", type=int, default=2000, help="games with a crafted record, and as many without it")
    parser.add_argument("--fpr", type=float, default=0.01, help="rate of false positives")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.worlds < 4:
        parser.error(f"--worlds {arguments.worlds}: must be 4 or more, because the others are the shadow models")
    register()

    experiment, table = Experiment(arguments), AttackTable(arguments)
    first, epsilon = attack_models(experiment, table)
    table.table.add_section()

    rng, records = experiment.rng, len(first.inside) * len(first.inside[0])
    votes, moved, record, query = experiment.without_record(first)
    for name, mechanism in experiment.mechanisms.items():
        asked = query < experiment.queries[name]
        played = attack_labels(mechanism, votes[asked], moved[asked], record[asked], records, 20, rng)
        table.add(f"labels: {name}", *played, epsilon[name])
    table.table.add_section()

    for name, mechanism in experiment.mechanisms.items():
        count = 1 if name == "NZC" else experiment.queries[name]
        pair = worst_pair(mechanism, arguments.teachers, experiment.splits.classes)
        here, there = (np.tile(side, (count, 1)) for side in pair)
        played = attack_labels(mechanism, here, there, np.zeros(count, np.int64), 1, arguments.games, rng)
        cost = mechanism.cost(here, mechanism.release(here, rng)).epsilon(arguments.delta)
        table.add(f"crafted: {name}{', 1 query' if count == 1 else ''}", *played, cost)
    table.table.caption = f"δ = {arguments.delta:g}; ε exact at the votes of the first world, or at the crafted ones"
    show(table.table)


if __name__ == "__main__":
    main()
