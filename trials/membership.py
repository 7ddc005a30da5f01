"""Who was in the private data? Attacks on what is released, beside the ε that promises against them.

Every world gives each teacher a random half of its own shard of digits, so that a record that is in stands where else
another stood: nzc's neighbours. Each target is attacked by all other worlds. Three attackers, from real to worst:

  LiRA      sees a model, and has shadow worlds: Carlini et al. 2022, arXiv 2112.03570, online, one query a record.
            Its rows without privacy say what it can do: a network that learned random labels by heart, one trained on
            the records as they are, and that one again, asked about coin flips that it never saw.
  labels    sees the released labels and knows all else: every other record, all seeds, which record may stand instead.
            It draws on the mechanism's law at both votes: no attack on the labels of these records does better.
  crafted   the same where teachers disagree as the mechanism likes least, on every query, over one record
            (nzc.accounting.audit.worst_pair).

(ε, δ) promises: true positives ≤ e^ε · false positives + δ. In brackets 95 % intervals: bootstrap over worlds and over
records at once (Owen 2007: wider rather than too narrow); Clopper–Pearson where every game was won, or none.

    python trials/membership.py [--worlds 32]
"""

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import hydra
import numpy as np
from hydra import initialize_config_dir
from omegaconf import DictConfig
from rich.progress import track
from rich.table import Table

from nzc import config
from nzc._types import AnyArray, Bools, Floats, Ints
from nzc.mechanisms import NoisyArgmax
from nzc.mechanisms import ABSTAIN
from nzc.data import Dataset, DataSplits
from nzc.accounting import Epsilon, audit
from nzc.runs.formatting import number, percent, show
from nzc.students import StudentConfig, StudentData
from nzc.teachers import VoteHistograms
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble
from nzc.training.trainer import TrainerSettings

#: What is attacked: a name, and how the command would say it.
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


@dataclass(frozen=True)
class Found:
    """A figure, and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} – {100 * self.high:.1f})"


def lira(scores: Floats, member: Bools) -> Floats:
    """log Pr[score | in] / Pr[score | out], [worlds, records], each world judged by all others as its shadows.

    A Gaussian for each record and side; a side's variance is common to all records, as few shadows want it.
    """
    away, seen = [], np.ones_like(member)
    for side in (member, ~member):
        count, total, squares = (
            part.sum(axis=0) - part for part in (side.astype(int), side * scores, side * scores**2)
        )
        mean = total / np.maximum(count, 1)
        freedom = (count - 1).clip(0).sum(axis=1, keepdims=True)
        variance = (squares - count * mean**2).sum(axis=1, keepdims=True) / freedom
        away.append((scores - mean) ** 2 / variance + np.log(variance))
        seen &= count > 0
    return np.where(seen, away[1] - away[0], 0.0) / 2


def measure(scores: Floats, member: Bools, fpr: float, rng: np.random.Generator, times: int = 400) -> list[Found]:
    """AUC, true positives at this rate of false ones, and balanced accuracy at 0, of scores [worlds, records].

    Equal scores are told apart by a coin.
    """
    order = np.argsort(-scores, axis=None)
    value, hit = scores.ravel()[order], member.ravel()[order]
    world, record = np.divmod(order, scores.shape[1])
    ends = np.append(np.flatnonzero(np.diff(value)), len(value) - 1)
    sure = (np.sign(value) + 1) / 2

    def at(worlds: Ints, records: Ints) -> list[float]:
        weight = worlds[world] * records[record]
        positive, negative = weight * hit, weight * ~hit
        true, false = (np.append(0, np.cumsum(side)[ends] / side.sum()) for side in (positive, negative))
        right = (positive @ sure / positive.sum() + negative @ (1 - sure) / negative.sum()) / 2
        return [float(np.trapezoid(true, false)), float(np.interp(fpr, false, true)), float(right)]

    def drawn(count: int) -> Ints:
        return rng.multinomial(count, np.full(count, 1 / count)) if count > 1 else np.ones(1, np.int64)

    found = at(*(np.ones(count, np.int64) for count in scores.shape))
    spread = np.quantile([at(*map(drawn, scores.shape)) for _ in range(times)], [0.025, 0.975], axis=0)
    never = 0.025 ** (1 / hit.sum())  # the lower end for a share of 1
    return [
        Found(value, min(low, never) if value == 1 else low, max(high, 1 - never) if value == 0 else high)
        for value, low, high in zip(found, *spread, strict=True)
    ]


def known(
    mechanism: NoisyArgmax, votes: Ints, moved: Ints, record: Ints, records: int, games: int, rng: np.random.Generator
) -> tuple[Floats, Bools]:
    """Scores and membership, [2 · games, records], of one who knows the votes with a record and without it.

    votes, moved   [queries, classes] with it and without it, where these differ
    record         [queries] whose membership they tell
    """
    ratio = np.subtract(*(np.maximum(mechanism.log_law(side), -700.0) for side in (votes, moved)))
    every = np.arange(len(record))
    scores = [
        np.bincount(record, ratio[every, mechanism.release(side, rng)], records)  # abstaining, −1, reads the last
        for side in (votes, moved)
        for _ in range(games)
    ]
    return np.stack(scores), np.repeat([True, False], games)[:, None] & np.ones(records, dtype=bool)


def worst(mechanism: NoisyArgmax, teachers: int, classes: int) -> tuple[Ints, Ints]:
    """The neighbouring histograms that the mechanism likes least."""
    largest = [] if mechanism.screen is None else [round(min(mechanism.screen.threshold, teachers))]
    return audit.worst_pair(mechanism.log_law, teachers, classes, largest)


def compose(*overrides: str) -> DictConfig:
    """The configuration of `nzc OVERRIDES`."""
    with initialize_config_dir(str(config.CONF), version_base="1.3"):
        return hydra.compose("config", overrides=list(overrides))


class Job:
    """The parts of nzc, put together once."""

    def __init__(self, teachers: int, seed: int) -> None:
        cfg = compose(f"seed={seed}", f"teachers.count={teachers}", "trainer.progress=false", "trainer.accelerator=cpu")
        self.teachers: Ensemble = config.build(cfg, "teachers", Ensemble)
        self.training: TrainerSettings = config.build(cfg, "trainer", Training)
        self.roles: DataSplits = config.build(cfg, "dataset", Dataset).load()
        self.shards: list[Ints] = self.teachers.shards(self.roles)

    def halves(self, rng: np.random.Generator) -> tuple[list[Ints], list[Ints]]:
        """Of each shard the rows that are in, and as many that are out; all shards alike, to be trained as one."""
        orders = [rng.permutation(shard) for shard in self.shards]
        half = min(len(order) for order in orders) // 2
        return [order[:half] for order in orders], [order[half : 2 * half] for order in orders]

    def predictions(self, shards: list[Ints], seed: int) -> Ints:
        """The teachers' labels, [teachers, queries]."""
        settings = replace(self.teachers, seed=seed, parallel=len(shards), stacked=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            engine = TeacherEnsemble(
                settings, self.roles.private, self.roles.public.x, shards, self.roles.classes, folder
            )
            self.training.fit(engine, "Teachers", max_epochs=1)
            return np.stack([np.load(folder / f"{at}.npy") for at in range(len(shards))]).astype(np.int64)

    def learn(self, learner: StudentConfig, x: AnyArray, labels: Ints, seed: int, about: Ints) -> tuple[Floats, float]:
        """What a network says of the private records having the labels `about`, log p/(1 − p), [records]; and its
        accuracy on the test split."""
        student = learner.student(StudentData(x, labels, self.roles.classes), seed)
        self.training.fit(student, "Student", max_epochs=1)
        p = np.log(np.maximum(student.probabilities(self.roles.private.x), 1e-300))
        others = np.arange(self.roles.classes) != about[:, None]
        score = p[~others] - np.logaddexp.reduce(p, axis=1, where=others, initial=-np.inf)
        return score, float((student.predict(self.roles.test.x) == self.roles.test.y).mean())


class Report:
    """The table, row by row."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.fpr, self.delta, self.rng = arguments.fpr, arguments.delta, np.random.default_rng([arguments.seed, 2])
        self.table = Table(
            title=f"digits, {arguments.teachers} teachers, {arguments.worlds} worlds", title_style="bold"
        )
        at = f"true positives at {100 * arguments.fpr:g} % false"
        for name in ("attacked", "accuracy", "ε claimed", "ε exact", "ε any votes", "ε allows", at, "AUC", "balanced"):
            self.table.add_column(name, justify="left" if name == "attacked" else "right")

    def add(
        self, name: str, scores: Floats, member: Bools, epsilon: Epsilon | None, accuracy: float | None = None
    ) -> None:
        area, true, balanced = measure(scores, member, self.fpr, self.rng)
        costs = ["–"] * 4
        if epsilon is not None and (bound := epsilon.data_independent) is not None:
            allows = 1.0 if bound > 700 else min(1.0, float(np.exp(bound)) * self.fpr + self.delta)
            costs = [number(epsilon.claimed), number(epsilon.exact), number(bound), percent(allows)]
        self.table.add_row(name, percent(accuracy), *costs, str(true), str(area), str(balanced))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=32, help="each is attacked by the others as its shadows")
    parser.add_argument("--teachers", type=int, default=50)
    parser.add_argument("--games", type=int, default=2000, help="with and without a crafted record, each")
    parser.add_argument("--fpr", type=float, default=0.01, help="rate of false positives")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.worlds < 4:
        parser.error(f"--worlds {arguments.worlds}: must be 4 or more, or there are no shadows to learn from")
    config.register()

    job = Job(arguments.teachers, arguments.seed)
    private, public, classes = job.roles.private, job.roles.public, job.roles.classes
    settings = {name: compose(*overrides) for name, overrides in ATTACKED.items()}
    mechanisms: dict[str, NoisyArgmax] = {
        name: config.build(cfg, "aggregator", NoisyArgmax) for name, cfg in settings.items()
    }
    queries = {name: cfg.queries or len(public) for name, cfg in settings.items()}
    student: StudentConfig = config.build(compose(), "student", StudentConfig)
    plain = ["student.augment=null", "student.weight_decay=0", "student.lr=0.01", "student.steps=1000"]
    by_heart: StudentConfig = config.build(compose(*plain), "student", StudentConfig)
    rng = np.random.default_rng([arguments.seed, 0])
    lies = rng.integers(classes, size=len(private))

    shape = (arguments.worlds, len(private))
    names = ["random labels, learned by heart", "the records, no privacy", *ATTACKED]
    member, scores = np.zeros(shape, dtype=bool), {name: np.zeros(shape) for name in names}
    right: dict[str, list[float]] = {name: [] for name in names}
    epsilon: dict[str, Epsilon] = {}
    for world in track(range(arguments.worlds), "Worlds", transient=True):
        inside, outside = job.halves(rng)
        member[world, np.concatenate(inside)] = True
        predictions = job.predictions(inside, world)
        votes = VoteHistograms.tally(predictions, classes, public.y).votes
        if world == 0:
            first = inside, outside, predictions, votes
        lessons = [
            (by_heart, private.x, np.where(member[world], labels, ABSTAIN), labels) for labels in (lies, private.y)
        ]
        for name, mechanism in mechanisms.items():
            asked = votes[: queries[name]]
            labels = mechanism.release(asked, rng)
            if world == 0:
                epsilon[name] = mechanism.epsilon(asked, labels, arguments.delta)
            lessons.append((student, public.x[: queries[name]], labels, private.y))
        for name, (learner, x, labels, about) in zip(names, lessons, strict=True):
            scores[name][world], accuracy = job.learn(learner, x, labels, world, about)
            right[name].append(accuracy)

    report = RunResult(arguments)
    for name in names:
        report.add(f"LiRA: {name}", lira(scores[name], member), member, epsilon.get(name), float(np.mean(right[name])))
        if name == names[1]:
            coins = rng.random(shape) < 0.5
            report.add(
                "LiRA: the same, about coin flips", lira(scores[name], coins), coins, None, float(np.mean(right[name]))
            )
    report.table.add_section()

    inside, outside, predictions, votes = first
    half, one = len(inside[0]), np.eye(classes, dtype=np.int64)
    exchanged = np.stack(
        [
            job.predictions([np.where(np.arange(half) == at, b, a) for a, b in zip(inside, outside, strict=True)], 0)
            for at in track(range(half), "Records", transient=True)
        ]
    )  # [half, teachers, queries]
    record, teacher, query = np.nonzero(exchanged != predictions)
    moved = votes[query] - one[predictions[teacher, query]] + one[exchanged[record, teacher, query]]
    record = record * arguments.teachers + teacher
    for name, mechanism in mechanisms.items():
        early = query < queries[name]
        played = known(mechanism, votes[query[early]], moved[early], record[early], half * arguments.teachers, 20, rng)
        report.add(f"labels: {name}", *played, epsilon[name])
    report.table.add_section()

    for name, mechanism in mechanisms.items():
        count = 1 if name == "NZC" else queries[name]
        here, there = (np.tile(side, (count, 1)) for side in worst(mechanism, arguments.teachers, classes))
        played = known(mechanism, here, there, np.zeros(count, np.int64), 1, arguments.games, rng)
        cost = mechanism.epsilon(here, mechanism.release(here, rng), arguments.delta)
        report.add(f"crafted: {name}{', 1 query' if count == 1 else ''}", *played, cost)
    report.table.caption = f"δ = {arguments.delta:g}; ε exact at the votes of the first world, or at the crafted ones"
    show(report.table)


if __name__ == "__main__":
    main()
