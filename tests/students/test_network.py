"""What all students share: batches, averaging, labels, decisions and odd data."""

import pickle
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from conftest import SMALL, TEACHERS, RunNzc, parametrize
from few_labels import COMMON, QUIET, STRONG, clouds, fit, quiet
from numpy.testing import assert_allclose, assert_array_equal
from pytest import MonkeyPatch, approx, raises
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

from nzc.data.digits import Digits
from nzc.mechanisms import ABSTAIN
from nzc.students import FittedStudent, NetworkStudent, Student, StudentData, network
from nzc.students.forest import Forest
from nzc.students.gan_ssl import GANSSL
from nzc.students.labels import clean_labels, soft_labels
from nzc.students.linear import Linear
from nzc.students.network import StudentModule
from nzc.students.sklearn import SklearnStudent
from nzc.students.softmatch import SoftMatch
from nzc.students.supervised import Supervised
from nzc.students.vat import VAT
from nzc.training.trainer import TrainerSettings
from nzc.validation import InputError

PLAIN = Supervised(**COMMON | {"batch_size": 16})
_POOL = {**vars(PLAIN), "unlabeled": 20, "average": 0.9}
_GAN = {"network": "gan_mlp", "steps": 3, "lr_generator": 1e-3, "entropy": 0.3, "consistency": 1}
SUPERVISED_VAT_SOFTMATCH = [
    PLAIN,
    VAT(**_POOL, alpha=1, entropy=1, radius=0.75, xi=0.01, power=1),
    SoftMatch(**_POOL, strong=STRONG, weight=1, momentum=0.9, width=2),
]
NETWORKS = [*SUPERVISED_VAT_SOFTMATCH, GANSSL(**_POOL | _GAN)]
TABLES = [Linear(strength=1, balance=0), Forest(trees=30, leaf=3, balance=0)]


def each_of(students: list[Any]) -> Any:
    """Run a test with each of these students."""
    return parametrize("config", students, ids=lambda config: type(config).__name__)


def _data(wrong: int = 0, rows: int = 200, asked: int = 120) -> StudentData:
    """Three clouds that lie apart; the first `wrong` labels are wrong."""
    data, y = clouds(rows, asked, shape=(10,))
    data.labels[:wrong] = (y[:wrong] + 1) % 3
    return data


def test_steps_are_the_same_in_epochs_of_any_length(monkeypatch: MonkeyPatch) -> None:
    """Also where the last epoch is shorter, and in bf16."""
    config = replace(PLAIN, steps=13, average=0.9)
    weights = []
    for evaluations in (1, 2, 50):  # of 13, 6 and 1 steps
        monkeypatch.setattr(network, "EVALUATIONS", evaluations)
        student = config.fit(_data(), 0, quiet(precision="bf16-mixed"), "Student")
        weights.append(student.classifier.state_dict())
    for others in weights[1:]:
        torch.testing.assert_close(others, weights[0], rtol=0, atol=0)


def test_the_labeled_loss_by_hand() -> None:
    """It fades over half of the steps: half is gone after a quarter, all after half and later.

    Where classes mix, so much of it stays. It stays whole for a class of which the student expects
    far too little.
    """
    config = replace(PLAIN, label_noise_rate=0.1, labeled_loss_decay=0.5)
    y = torch.tensor([0, 1, 2, 2, 1, 0])
    logits = 3 * torch.eye(3, dtype=torch.float64)[y] + 0.1 * torch.randn(6, 3, dtype=torch.float64)

    def corrected(logits: torch.Tensor) -> np.ndarray:
        p = logits.softmax(1)[torch.arange(6), y].numpy()
        return -np.log(0.9 * p + 0.1 / 3)

    def loss(logits: torch.Tensor, progress: float, mixed: float = 0.0) -> float:
        student = config.student(_data(), 0)
        student.progress = progress
        student.mixed = mixed
        return student.labeled_loss(logits, y).item()

    for progress, left in ((0.0, 1.0), (0.25, 0.5), (0.5, 0.0), (0.9, 0.0)):
        assert loss(logits, progress) == approx(left * corrected(logits).mean())
    assert loss(logits, 0.9, mixed=0.3) == approx(0.3 * corrected(logits).mean())
    forgetful = logits - torch.tensor([0.0, 0.0, 6.0])
    expected = corrected(forgetful)[2:4].sum() / 6
    assert loss(forgetful, 0.9) == approx(expected)


def _on_the_cpu(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return x + torch.rand(x.shape, generator=rng)


@each_of(NETWORKS)
def test_which_steps_a_cuda_graph_can_repeat(config: NetworkStudent) -> None:
    assert config.graphable != isinstance(config, VAT)
    assert not replace(config, augment=_on_the_cpu).graphable
    assert not replace(config, optimizer=torch.optim.LBFGS).graphable
    if isinstance(config, SoftMatch):
        for strong in (_on_the_cpu, replace(STRONG, colour=0.5)):
            assert not replace(config, strong=strong).graphable


def _soft(data: StudentData, probabilities: np.ndarray) -> StudentData:
    """The labeled rows with these class probabilities; those of other rows are not looked at."""
    labels = np.where(data.labeled, probabilities.argmax(axis=1), ABSTAIN)
    soft = np.where(data.labeled[:, None], probabilities, np.nan)
    return replace(data, labels=labels, soft=soft)


@each_of([*NETWORKS, *TABLES])
def test_certain_probabilities_are_labels_to_the_last_digit(config: Student) -> None:
    """Also with presumed wrong labels, balance, and removed labels."""
    data = _data(wrong=12, rows=120, asked=90)
    config = replace(config, balance=0.7)  # type: ignore[call-arg]
    if isinstance(config, NetworkStudent):
        config = replace(config, steps=4, label_noise_rate=0.1)

    learn = partial(config.fit, seed=0, trainer=QUIET)
    hard = clean_labels(data, 2, 0, learn)
    soft = clean_labels(_soft(data, np.eye(3)[data.labels]), 2, 0, learn)
    assert np.array_equal(hard.labels, soft.labels)
    assert 20 < hard.labeled.sum() < 90
    fitted = [learn(part, name="Student").probabilities(data.x) for part in (hard, soft)]
    assert_array_equal(*fitted)


@parametrize(("student", "repeating"), [(TABLES[0], {"strength": 10}), (TABLES[1], {"leaf": 30})])
def test_weights_of_probabilities_are_those_of_repeated_rows(
    student: SklearnStudent, repeating: dict[str, int], monkeypatch: MonkeyPatch
) -> None:
    """Tenths as probabilities: the same as ten rows, of which so many have the class."""
    plain = partial(RandomForestClassifier, bootstrap=False)
    monkeypatch.setattr("sklearn.ensemble.RandomForestClassifier", plain)
    data = _data(rows=60, asked=60)
    rng = np.random.default_rng(0)
    tenths = rng.permuted([[0, 3, 7], [0, 1, 9], [5, 0, 5]] * 20, axis=1)
    soft = student.fit(_soft(data, tenths / 10), 0, QUIET, "")
    labels = np.concatenate([np.repeat(range(3), count) for count in tenths])
    many = StudentData(data.x.repeat(10, axis=0), labels, 3)
    repeated = replace(student, **repeating).fit(many, 0, QUIET, "")
    # But for ties of the trees.
    assert_allclose(soft.probabilities(data.x), repeated.probabilities(data.x), atol=0.01)


@parametrize(
    ("ours", "theirs"),
    [
        (replace(TABLES[0], strength=10), LogisticRegression(C=0.1, max_iter=1000)),
        (TABLES[1], RandomForestClassifier(30, min_samples_leaf=3, random_state=0)),
    ],
    ids=["linear", "forest"],
)
def test_students_of_scikit_learn_predict_the_same_as_tensors(ours: Any, theirs: Any) -> None:
    """One class has no row."""
    data, y = clouds(300, 150)
    known = data.labeled
    theirs.fit(data.x[known], y[known], np.ones(known.sum()))
    fitted = ours.fit(replace(data, classes=4), 0, QUIET, "")
    expected = np.pad(theirs.predict_proba(data.x), ((0, 0), (0, 1)))
    assert_allclose(fitted.probabilities(data.x), expected, atol=1e-6)
    assert torch.isfinite(fitted.classifier(torch.from_numpy(data.x))).all()


@parametrize(
    ("threshold", "labels"),
    [(None, [0, 0, 0, 1]), (0.3, [0, 0, 1, 1]), (0.6, [0, 0, 0, 0]), ("balanced", [0, 1, 1, 1])],
)
def test_a_decision_rule_moves_labels_and_no_probability(
    threshold: float | str | None, labels: list[int]
) -> None:
    """Balanced, the second class is the label above its mean in the public rows, 0.15."""
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.45, 0.55]], np.float32)
    rows = np.log(p)
    public = np.log(np.array([[0.8, 0.2], [0.9, 0.1]], np.float32))
    student = replace(TABLES[0], threshold=threshold).decided(FittedStudent(nn.Identity()), public)
    assert student.predict(rows).tolist() == labels
    assert_allclose(student.probabilities(rows), p, rtol=1e-6)


@parametrize(
    ("share", "labels"),
    [(0.0, [0, -1, -1, 0, -1]), (0.4, [0, 1, 0, 0, -1])],
)
def test_soft_labels_are_of_labeled_rows_and_of_the_surest(share: float, labels: list[int]) -> None:
    data = StudentData(np.zeros((5, 1)), np.array([0, ABSTAIN, ABSTAIN, 1, ABSTAIN]), 2)
    probabilities = np.array([[0.6, 0.4], [0.1, 0.9], [0.8, 0.2], [0.55, 0.45], [0, 0]])
    soft = soft_labels(data, probabilities, share, 0.3)
    assert soft.labels.tolist() == labels
    assert soft.soft is probabilities and soft.mixed == 0.3


@parametrize("counts", [[2, 1, 0], [30, 9, 6], [3, 3, 3], [1, 0, 0]])
def test_expected_shares_are_the_james_stein_estimate(counts: list[int]) -> None:
    """λ of Hausser and Strimmer's equation 7, from counts; by it the drawn classes are balanced."""
    rows = sum(counts)
    labels = np.repeat(range(3), counts)
    data = StudentData(np.zeros((rows, 2), np.float32), labels, 3)
    observed = np.array(counts) / rows
    distance = (rows - 1) * np.square(1 / 3 - observed).sum()
    shrinkage = min(1, (1 - np.square(observed).sum()) / distance) if distance else 1
    assert_allclose(data.shares, shrinkage / 3 + (1 - shrinkage) * observed)
    loader = replace(PLAIN, balance=1.0, steps=1000).student(data, 0).train_dataloader()
    drawn = torch.cat([labeled for labeled, _ in loader.batches])
    expected = np.sqrt(data.shares) * (observed > 0)
    drawn_shares = np.bincount(labels[drawn], minlength=3) / 16000
    assert_allclose(drawn_shares, expected / expected.sum(), atol=0.02)


def test_labels_that_contradict_the_others_are_left_out() -> None:
    data = _data(wrong=12)
    cleaned = clean_labels(data, 3, 0, lambda part, name: fit(PLAIN, part))
    removed = data.labeled & ~cleaned.labeled
    assert np.array_equal(cleaned.labels[~removed], data.labels[~removed])
    assert removed[:12].mean() > 0.8
    assert removed[12:120].mean() < 0.1


@parametrize(
    ("rows", "labels"),
    [
        (100, [0, 1]),
        (1, [3]),
    ],
    ids=["few classes", "one row"],
)
@each_of(NETWORKS)
def test_odd_data(config: NetworkStudent, rows: int, labels: list[int]) -> None:
    data = clouds(rows, 0, 4)[0]
    data.labels[: len(labels)] = labels
    few = replace(config, steps=3, balance=1.0)
    assert clean_labels(data, 2, 0, lambda part, name: fit(few, part)).labeled.any()
    fitted = fit(config, data)
    assert_allclose(fitted.probabilities(data.x).sum(axis=1), 1, rtol=1e-6)
    if not isinstance(config, GANSSL):
        assert set(fitted.predict(data.x)) <= set(labels)


@parametrize("kind", ["vat", "softmatch", "gan_ssl"])
def test_a_whole_run(run_nzc: RunNzc, kind: str) -> None:
    cheap = [*TEACHERS, "teachers.count=2", "teachers.epochs=1"]
    cheap += ["aggregator=ground_truth", "queries=100", "student.steps=2", "student.folds=2"]
    ran = run_nzc(*cheap, f"student={kind}")
    assert ran.result["student"] == kind
    assert ran.result["accuracy"] > 0
    curves = next(ran.folder.glob("outputs/*/*/student.csv")).read_text()
    for curve in ("Fold 2/loss_labeled", "Student/loss_labeled"):
        assert curve in curves


@parametrize(
    ("config", "devices"),
    [
        (NETWORKS[3], {"devices": 2, "strategy": "ddp_spawn"}),
        (PLAIN, {"devices": 1, "strategy": "ddp"}),
    ],
)
def test_students_learn_on_one_device_in_this_process(
    config: NetworkStudent, devices: dict[str, Any], monkeypatch: MonkeyPatch
) -> None:
    """The curves go to the run, which holds private records: no other process may get it."""
    monkeypatch.setattr(torch.multiprocessing, "start_processes", None)
    config = replace(config, steps=3)
    data = _data()
    steps = []
    learned = config.fit(
        data, 0, quiet(**devices), "Student", lambda fit, curves, step: steps.append(step)
    )
    expected = fit(config, data).probabilities(data.x)
    assert_array_equal(learned.probabilities(data.x), expected)
    assert steps == [0, 1, 2]


def test_what_a_student_holds_is_public(run_nzc: RunNzc, monkeypatch: MonkeyPatch) -> None:
    """So it tells a callback, or a file of it, nothing of private records; nor do its callbacks."""
    held = []
    fit = TrainerSettings.fit

    def noted(settings: TrainerSettings, module: Any, *arguments: Any, **options: Any) -> None:
        fit(settings, module, *arguments, **options)
        held.append((module, options.get("callbacks")))

    monkeypatch.setattr(TrainerSettings, "fit", noted)
    run_nzc(
        *SMALL, "teachers.count=2", "teachers.epochs=1", "queries=50", "student.steps=5",
        "trainer.devices=1",
    )  # fmt: skip
    _, learned = held  # the first ones are the teachers
    student = pickle.dumps(learned)
    splits = Digits(0, 1200, 400).load()
    public = {row.tobytes() for row in splits.public.x}
    private = {row.tobytes() for row in splits.private.x} - public
    assert all(row in student for row in public)
    assert not any(row in student for row in private)


def batches(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a network with batch normalisation, which needs two rows."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(shape[0]), nn.Linear(shape[0], classes))


class Ranked(Supervised):
    """A loss of one's own that needs four rows."""

    def losses(
        self, student: StudentModule, x: torch.Tensor, y: torch.Tensor, u: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        return {"ranked": student.network(x).amax(1).topk(4).values.mean()}


RANKED = Ranked(**vars(PLAIN))


@parametrize("mode", ["eval", "train"])
def test_an_average_that_teaches_is_there_in_its_mode(mode: str, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(Ranked, "average_mode", mode)
    with raises(InputError, match=r"^average=0: .*Ranked"):
        replace(RANKED, steps=3)
    student = replace(RANKED, average=0.9, steps=3).student(_data(), 0)
    QUIET.fit(student, "Student", max_epochs=3)
    assert student.classifier.training == (mode == "train")


@parametrize(
    ("config", "wrong", "line"),
    [
        (PLAIN, {"network": batches, "batch_size": 1}, "student.network=batches: "),
        (PLAIN, {"optimizer": torch.optim.SparseAdam}, "student.optimizer=SparseAdam: "),
        (NETWORKS[1], {"augment": lambda x, rng: x[:, :1]}, "student.augment="),
        (RANKED, {"batch_size": 3}, "student.network=mlp: .*Ranked"),
    ],
)
def test_what_cannot_take_a_step_is_refused_before_training(
    config: NetworkStudent, wrong: dict[str, Any], line: str
) -> None:
    with raises(InputError, match=f"^{line}"):
        replace(config, **wrong).check((3,), 3, QUIET)


@each_of([*NETWORKS, RANKED])
def test_what_takes_a_step_is_accepted_and_leaves_no_trace(config: NetworkStudent) -> None:
    optimizer = partial(torch.optim.LBFGS, lr=0.1)
    if isinstance(config, GANSSL):  # two players are groups of weights, which LBFGS does not take
        optimizer = partial(torch.optim.SGD, lr=0.1)
    batch_size = config.batch_size if config is RANKED else 2
    config = replace(config, network=batches, batch_size=batch_size, optimizer=optimizer)
    before = torch.get_rng_state()
    config.check((3,), 3, QUIET)
    assert before.equal(torch.get_rng_state())
