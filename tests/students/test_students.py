"""What all students share: batches, averaging, early stopping, cross-checked labels, and odd data."""

import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import SMALL, TEACHERS, Nzc
from few_labels import COMMON, QUIET, clouds, fit
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from nzc.data import Standardizer
from nzc.data.augment import Strong
from nzc.data.digits import Digits
from nzc.data.images import Pixels
from nzc.mechanisms import ABSTAIN
from nzc.students import FittedStudent, Student, StudentConfig, StudentData, exported, network
from nzc.students.export import RawInput, write_student
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

PLAIN = Supervised(**COMMON | {"batch_size": 16, "patience": 10})


def _data(wrong: int = 0, rows: int = 200, asked: int = 120) -> StudentData:
    """Three clouds that a line apiece tells apart; the first `wrong` labels are wrong."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, rows)
    x = (np.eye(3)[y] * 4 + rng.normal(size=(rows, 3))).astype(np.float32)
    labels = np.where(np.arange(rows) < asked, y, ABSTAIN)
    labels[:wrong] = (y[:wrong] + 1) % 3
    return StudentData(x, labels, 3)


def _fitted(config: Supervised, data: StudentData) -> StudentModule:
    QUIET.fit(student := config.student(data, 0), "Student", max_epochs=1)
    return student


_POOL = {**vars(PLAIN), "unlabelled": 20, "average": 0.9}
_STRONG = Strong(None, stretch=1, contrast=0, brightness=0, cutout=0, mask=0.3, noise=0.1)
IN_DOUBLE = [
    PLAIN,
    VAT(**_POOL, alpha=1, entropy=1, radius=0.75, xi=0.01, power=1),
    SoftMatch(**_POOL, strong=_STRONG, weight=1, momentum=0.9, width=2),
]
_GAN = {"network": "gan_mlp", "steps": 3, "lr_generator": 1e-3, "entropy": 0.3, "consistency": 1}
ALL = [*IN_DOUBLE, GANSSL(**_POOL | _GAN)]
TABLES = [
    Linear(strength=1, balance=0, folds=1, spread=0),
    Forest(trees=30, leaf=3, balance=0, folds=1, spread=0),
]


@pytest.mark.parametrize("config", IN_DOUBLE, ids=lambda config: type(config).__name__)
def test_a_step_in_double_precision_is_the_step_up_to_rounding(config: StudentConfig) -> None:
    """So nothing but rounding depends on the precision, as on a GPU. GAN-SSL draws its generator's
    input in float32.
    """
    data, found = _data(), []
    for dtype in (torch.float32, torch.float64):
        student = config.student(
            replace(data, x=data.x.astype(str(dtype).removeprefix("torch."))), 0
        ).to(dtype)
        student.on_train_start()
        labeled, pool = next(iter(student.train_dataloader()))
        torch.stack([*student.batch_losses(labeled[0], pool[0]).values()]).sum().backward()
        gradients = [weight.grad.double() for weight in student.network.parameters()]
        found.append([*(loss.detach().double() for loss in student.losses.values()), *gradients])
        assert gradients[0].abs().max() > 0
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


def test_steps_of_a_chunk_are_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in bf16, where autocast keeps copies of the weights."""
    weights = []
    for evaluations in (1, 50):  # two chunks, and one for each step
        monkeypatch.setattr(network, "EVALUATIONS", evaluations)
        trainer = TrainerSettings(
            progress=False, accelerator="cpu", devices=1, precision="bf16-mixed"
        )
        student = replace(PLAIN, steps=12, average=0.9).fit(_data(), 0, trainer, "Student")
        weights.append(student.classifier.state_dict())
    torch.testing.assert_close(*weights, rtol=0, atol=0)


def test_batches_hold_labeled_rows_and_rows_of_the_whole_pool() -> None:
    data = _data()
    student = replace(PLAIN, unlabelled=50, steps=8).student(data, 0)
    labeled, pool = (torch.cat(part) for part in zip(*student.train_dataloader(), strict=True))
    assert labeled.shape == (8, 16) and pool.shape == (8, 50)
    assert labeled.max() < 120 and sorted(pool.flatten()[:200].tolist()) == list(
        range(200)
    )  # once before twice


def test_the_labeled_loss_by_hand() -> None:
    """It fades over half of the steps: half is gone after a quarter of them, all after half and
    later.

    Where classes mix, so much of it stays. It stays whole for a class of which the student expects
    far too little.
    """
    student = replace(PLAIN, label_noise_rate=0.1, labeled_loss_decay=0.5).student(_data(), 0)
    y = torch.tensor([0, 1, 2, 2, 1, 0])
    logits = 3 * torch.eye(3, dtype=torch.float64)[y] + 0.1 * torch.randn(6, 3, dtype=torch.float64)
    p = logits.softmax(1)[torch.arange(6), y].numpy()
    for student.progress, left in ((0.0, 1.0), (0.25, 0.5), (0.5, 0.0), (0.9, 0.0)):
        expected = pytest.approx(-left * np.log(0.9 * p + 0.1 / 3).mean())
        assert student.labeled_loss(logits, y).item() == expected
    forgetful = logits - torch.tensor([0.0, 0.0, 6.0])
    p_forgotten = forgetful.softmax(1)[2:4, 2].numpy()
    expected = pytest.approx(-np.log(0.9 * p_forgotten + 0.1 / 3).sum() / 6)
    assert student.labeled_loss(forgetful, y).item() == expected
    student.labeled_loss(
        logits, y
    )  # the average is that of the last batch as long as no step is done
    student.mixed = 0.3
    assert student.labeled_loss(logits, y).item() == pytest.approx(
        -0.3 * np.log(0.9 * p + 0.1 / 3).mean()
    )
    plain = PLAIN.student(_data(), 0).labeled_loss(1e4 * logits, y)
    torch.testing.assert_close(plain, torch.nn.functional.cross_entropy(1e4 * logits, y))


def _soft(data: StudentData, probabilities: np.ndarray) -> StudentData:
    """The labeled rows of `data` with these class probabilities; the other rows' are not to be
    looked at.
    """
    labeled = data.labeled[:, None]
    labels = np.where(data.labeled, probabilities.argmax(axis=1), ABSTAIN)
    return replace(data, labels=labels, soft=np.where(labeled, probabilities, np.nan))


@pytest.mark.parametrize("config", [*ALL, *TABLES], ids=lambda config: type(config).__name__)
def test_certain_probabilities_are_labels_to_the_last_digit(config: Student) -> None:
    """Also with presumed wrong labels, held-out rows, balance, and labels that cross-validation
    removes.
    """
    data = _data(wrong=12, rows=120, asked=90)
    if isinstance(config, StudentConfig):
        config = replace(config, steps=4, validation=0.2, label_noise_rate=0.1)
    config = replace(config, balance=0.7)  # type: ignore[call-arg]
    hard, soft = (
        clean_labels(given, 2, 0, lambda part, _: config.fit(part, 0, QUIET, "Student"))
        for given in (data, _soft(data, np.eye(3)[data.labels]))
    )
    assert np.array_equal(hard.labels, soft.labels) and 20 < hard.labeled.sum() < 90
    fitted = [
        config.fit(given, 0, QUIET, "Student").probabilities(data.x) for given in (hard, soft)
    ]
    np.testing.assert_array_equal(*fitted)


@pytest.mark.parametrize("config", [*ALL, *TABLES], ids=lambda config: type(config).__name__)
def test_true_probabilities_calibrate_better_than_labels_drawn_from_them(config: Student) -> None:
    """Mean Kullback-Leibler divergence from the true probabilities, over rows without a label."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3)).astype(np.float32)
    truth = np.exp(x @ rng.normal(size=(3, 3)))
    truth /= truth.sum(axis=1, keepdims=True)
    labels = np.where(
        np.arange(600) < 100, (truth.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1), ABSTAIN
    )
    if isinstance(config, StudentConfig):
        config = replace(config, steps=30 if isinstance(config, GANSSL) else 150)
    drawn = StudentData(x, labels, 3)
    divergences = []
    for data in (drawn, _soft(drawn, truth)):
        p = config.fit(data, 0, QUIET, "Student").probabilities(x)[100:].clip(1e-6)
        divergences.append((truth[100:] * np.log(truth[100:] / p)).sum(axis=1).mean())
    assert divergences[1] < 0.8 * divergences[0]


@pytest.mark.parametrize("student", TABLES, ids=lambda config: type(config).__name__)
def test_weights_of_probabilities_are_those_of_repeated_rows(
    student: SklearnStudent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenths as probabilities: the same as ten rows, of which so many have the class; but for ties
    of the trees.
    """
    rng, data = np.random.default_rng(0), _data(rows=60, asked=60)
    tenths = rng.permuted([[0, 3, 7], [0, 1, 9], [5, 0, 5]] * 20, axis=1)
    monkeypatch.setattr(
        "sklearn.ensemble.RandomForestClassifier", partial(RandomForestClassifier, bootstrap=False)
    )
    soft = student.fit(_soft(data, tenths / 10), 0, QUIET, "")
    labels = np.concatenate([np.repeat(range(3), count) for count in tenths])
    many = replace(student, **{"strength": 10} if isinstance(student, Linear) else {"leaf": 30})
    repeated = many.fit(StudentData(data.x.repeat(10, axis=0), labels, 3), 0, QUIET, "")
    np.testing.assert_allclose(
        soft.probabilities(data.x), repeated.probabilities(data.x), atol=0.01
    )


@pytest.mark.parametrize(
    ("threshold", "labels"),
    [(None, [0, 0, 0, 1]), (0.3, [0, 0, 1, 1]), (0.6, [0, 0, 0, 0]), ("balanced", [0, 1, 1, 1])],
)
def test_a_decision_rule_moves_labels_and_no_probability(
    threshold: float | str | None, labels: list[int]
) -> None:
    """Balanced, the second class is the label where it is more probable than in the public rows,
    0.15 in the mean.
    """
    p = np.array([0.1, 0.2, 0.4, 0.55])
    rows = np.stack([np.log(1 - p), np.log(p)], axis=1).astype(np.float32)
    public = np.log(np.array([[0.8, 0.2], [0.9, 0.1]], np.float32))
    student = replace(TABLES[0], threshold=threshold).decided(FittedStudent(nn.Identity()), public)
    assert student.predict(rows).tolist() == labels
    np.testing.assert_allclose(student.probabilities(rows)[:, 1], p, rtol=1e-6)


def test_soft_labels_are_of_labeled_rows_and_of_the_surest() -> None:
    data = StudentData(np.zeros((5, 1)), np.array([0, ABSTAIN, ABSTAIN, 1, ABSTAIN]), 2)
    probs = np.array([[0.6, 0.4], [0.1, 0.9], [0.8, 0.2], [0.55, 0.45], [0, 0]])
    for share, labels in (
        (0.0, [0, -1, -1, 0, -1]),
        (0.4, [0, 1, 0, 0, -1]),
        (1.0, [0, 1, 0, 0, -1]),
    ):
        soft = soft_labels(data, probs, share, 0.3)
        assert soft.labels.tolist() == labels and soft.soft is probs and soft.mixed == 0.3


@pytest.mark.parametrize(
    "counts", [[2, 1, 0], [30, 9, 6], [3, 3, 3], [900, 90, 10], [1, 0, 0], [12, 0, 0]]
)
def test_expected_shares_are_the_james_stein_estimate(counts: list[int]) -> None:
    """λ of Hausser and Strimmer's equation 7, from counts; by it the drawn classes are balanced."""
    rows, labels = sum(counts), np.repeat(range(3), counts)
    data = StudentData(np.zeros((rows, 2), np.float32), labels, 3)
    often = np.array(counts) / rows
    distance = (rows - 1) * np.square(1 / 3 - often).sum()
    shrunk = min(1, (1 - np.square(often).sum()) / distance) if distance else 1
    np.testing.assert_allclose(data.shares, shrunk / 3 + (1 - shrunk) * often)
    drawn = replace(PLAIN, balance=1.0, steps=1000).student(data, 0).train_dataloader()
    expected = np.sqrt(data.shares) * (often > 0)
    drawn_shares = (
        np.bincount(labels[torch.cat([rows.flatten() for rows, _ in drawn])], minlength=3) / 16000
    )
    np.testing.assert_allclose(drawn_shares, expected / expected.sum(), atol=0.02)


def test_the_average_follows_the_weights() -> None:
    student = _fitted(replace(PLAIN, average=0.9, steps=200), _data())
    for averaged, last in zip(
        student.classifier.parameters(), student.network.parameters(), strict=True
    ):
        assert not torch.equal(averaged, last)
        torch.testing.assert_close(averaged, last, atol=0.1, rtol=0.5)
    assert (
        FittedStudent(student.classifier).predict(_data().x) == _data(asked=200).labels
    ).mean() > 0.9


def test_early_stopping_keeps_the_best_weights_and_sees_no_other_label() -> None:
    stopped = _fitted(
        replace(PLAIN, validation=0.25, patience=3, steps=2000, lr=1e-4), _data(wrong=30)
    )
    assert len(stopped.held_out) == 30
    assert not set(stopped.held_out.tolist()) & set(stopped.labeled.tolist())
    assert stopped.trainer.global_step < 2000
    x, y = stopped.x[stopped.held_out].numpy(), stopped.y[stopped.held_out].numpy()
    assert (FittedStudent(stopped.classifier).predict(x) == y).mean() == pytest.approx(stopped.best)


def test_labels_that_contradict_the_others_are_left_out() -> None:
    data, truth = _data(wrong=12), _data(asked=200).labels
    kept = clean_labels(data, 3, 0, lambda part, _: fit(PLAIN, part))
    assert (kept.labels[~data.labeled] == ABSTAIN).all()
    assert (kept.labels[kept.labeled] == data.labels[kept.labeled]).all()
    assert (kept.labels[:12] == ABSTAIN).mean() > 0.8
    assert (kept.labels[12:120] == truth[12:120]).mean() > 0.9


#: Rows and labels of 4 classes: one label; one class; fewer labels than classes; no row without;
#: less than a batch.
ODD = [
    (100, [2]),
    (100, [1] * 20),
    (100, [0, 1]),
    (40, [0, 1, 2] * 13 + [0]),
    (5, [0, 0, 1, 1, 2]),
    (1, [3]),
]


@pytest.mark.parametrize(("rows", "labels"), ODD, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("config", ALL, ids=lambda config: type(config).__name__)
def test_odd_data(config: StudentConfig, rows: int, labels: list[int]) -> None:
    data = clouds(rows, 0, 4)[0]
    data.labels[: len(labels)] = labels
    few = replace(config, steps=3, validation=0.5, balance=1.0)
    assert clean_labels(data, 2, 0, lambda part, _: fit(few, part)).labeled.any()
    fitted = fit(config, data)
    np.testing.assert_allclose(fitted.probabilities(data.x).sum(axis=1), 1, rtol=1e-6)
    if not isinstance(config, GANSSL):
        assert set(fitted.predict(data.x)) <= set(labels)


@pytest.mark.parametrize(
    ("kind", "settings", "accuracy"),
    [
        ("supervised", ["steps=60", "average=0.9", "balance=0.5", "validation=0.1", "folds=2"], 0),
        ("vat", ["steps=20"], 0),
        ("softmatch", ["steps=20"], 0),
        ("gan_ssl", ["steps=5"], 0),
        ("linear", [], 0.5),
        ("forest", [], 0.5),
    ],
)
def test_a_whole_run(nzc: Nzc, kind: str, settings: list[str], accuracy: float) -> None:
    of = [f"student={kind}", *(f"student.{setting}" for setting in settings)]
    ran = nzc(*TEACHERS, *of, "aggregator=ground_truth", "queries=100")
    assert ran.code == 0, ran.err
    assert ran.result["student"] == kind and ran.result["accuracy"] > accuracy
    if kind == "supervised":
        curves = next(ran.folder.glob("outputs/*/*/student.csv")).read_text()
        assert all(
            name in curves
            for name in (
                "Fold 1/accuracy_held_out",
                "Fold 2/loss_labelled",
                "Student/loss_labelled",
            )
        )


@pytest.mark.parametrize("dtype", ["float16", "float64", "bool", "uint64", ">f4", "1e100"])
def test_a_served_row_is_standardised_to_the_last_digit(dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=(1000, 5)) * 20 + [0, 50, -50, 70, 40]
    if dtype == "1e100":
        x = x * 1e100
    elif dtype[-2:] == "64":
        x = (np.abs(x) * 1e16).astype(dtype)
    else:
        x = x > 0 if dtype == "bool" else x.clip(-99, 99).astype(dtype)
    standardizer = Standardizer.fit(x[:100])
    rows = torch.from_numpy(x.astype(x.dtype.newbyteorder("=")))
    served = RawInput(SimpleNamespace(classifier=nn.Identity()), standardizer)(rows)  # type: ignore[arg-type]
    np.testing.assert_array_equal(served.numpy(), standardizer(x))


@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16", "float64", ">f4", "uint16"])
@pytest.mark.parametrize("shape", [(9, 8), (9, 8, 4), (2, 9, 8)])
def test_a_served_image_is_prepared_to_the_last_digit(dtype: str, shape: tuple[int, ...]) -> None:
    grey = np.random.default_rng(0).integers(0, 256, (40, *shape))
    images = {"u": grey, "b": grey > 99, "f": grey / 250 - 0.01}[np.dtype(dtype).kind].astype(dtype)
    pixels = Pixels.of(
        images, None if dtype in ("uint8", "bool") else [0, 1 if "f" in dtype else 300], alpha=True
    )
    assert pixels is not None
    expected = torch.from_numpy(pixels(images)).float() / 255
    rows = torch.from_numpy(images.astype(images.dtype.newbyteorder("=")))
    served = RawInput(SimpleNamespace(classifier=nn.Identity()), pixels)(rows)  # type: ignore[arg-type]
    assert torch.equal(served, expected)


def test_a_served_student_refuses_images_of_other_numbers(tmp_path: Path) -> None:
    """Shares of white are no bytes, and bytes no shares: both would be an image of one colour."""
    grey = np.random.default_rng(0).integers(0, 256, (40, 9, 8)).astype(np.uint8)
    plain: Any = SimpleNamespace(classifier=nn.Flatten(), weights=None)
    for x, same, other in (
        (grey, grey.astype(np.int64), grey / 255),
        (grey / 255, np.float32(grey / 255), grey),
    ):
        pixels = Pixels.of(x, None, alpha=True)
        assert pixels is not None
        write_student(tmp_path / "student.pt2", plain, pixels(x), pixels)
        array = {"shape": pixels.shape, "dtype": pixels.dtype, "range": pixels.levels}
        (tmp_path / "student.json").write_text(
            exported.describe([*map(str, range(72))], None, array, None)
        )
        served = exported.Student(tmp_path)
        pd.testing.assert_frame_equal(served.predict(same), served.predict(x))
        for wrong in (other, grey.astype(np.uint16) + 300 if x is grey else grey.astype(np.int64)):
            with pytest.raises(
                ValueError,
                match=r"^values (must be uint8|of images must be from 0 to 1), as in the run",
            ):
                served.predict(wrong)
        if x is not grey:
            with pytest.raises(ValueError, match="must be from 0 to 1"):
                served.predict(np.where(x > 0.9, np.nan, x))


@pytest.mark.parametrize("standardised", [True, False])
def test_a_served_student_answers_every_row(tmp_path: Path, standardised: bool) -> None:
    """Rows may be numbers of any type. Missing and absurd values change no other row; a missing one
    is the mean.
    """
    data, absurd = _data(), np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32)
    standardizer = Standardizer.fit(data.x.astype(np.float64)) if standardised else None
    features = data.x if standardizer is None else standardizer(data.x)
    student = fit(PLAIN, replace(data, x=features))
    write_student(tmp_path / "student.pt2", student, features, standardizer)
    one_value = np.where(np.eye(3, dtype=bool)[:, None], absurd[:, None], data.x[0]).reshape(-1, 3)
    rows = np.concatenate([data.x, one_value, np.repeat(absurd[:, None], 3, axis=1)])
    served = torch.export.load(tmp_path / "student.pt2").module()
    served_rows = np.concatenate(
        [np.arange(len(features)), [-5]]
    )  # the last: all values are missing
    expected = student.probabilities(np.concatenate([features, np.zeros((1, 3), np.float32)]))
    for dtype in ["float64", "float32"] if standardised else ["float32"]:
        found = served(torch.from_numpy(rows.astype(dtype)))
        assert found.isfinite().all()
        np.testing.assert_allclose(
            found.double().softmax(dim=1).detach()[served_rows], expected, rtol=1e-6
        )


@pytest.mark.parametrize(
    "devices", [{"devices": 2}, {"devices": 2, "strategy": "ddp_spawn"}, {"strategy": "ddp"}]
)
@pytest.mark.parametrize("config", ALL, ids=lambda config: type(config).__name__)
def test_students_learn_on_one_device_in_this_process(
    config: StudentConfig, devices: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The curves go to the run, which holds private records: it must never be sent to another
    process.
    """
    monkeypatch.setattr(torch.multiprocessing, "start_processes", None)
    trainer = TrainerSettings(progress=False, accelerator="cpu", **{"devices": 1} | devices)
    config = replace(config, steps=3)
    data, steps = _data(), []
    learned = config.fit(data, 0, trainer, "Student", lambda fit, curves, step: steps.append(step))
    np.testing.assert_array_equal(
        learned.probabilities(data.x), fit(config, data).probabilities(data.x)
    )
    assert steps == [0, 1, 2]


def test_what_a_student_holds_is_public(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it tells a callback, or a file of it, nothing of private records; nor do the callbacks
    beside it.
    """
    modules = []

    def fit(
        settings: TrainerSettings, module: StudentModule, *arguments: Any, **options: Any
    ) -> None:
        own_fit(settings, module, *arguments, **options)
        modules.append((module, options.get("callbacks")))

    own_fit = TrainerSettings.fit
    monkeypatch.setattr(TrainerSettings, "fit", fit)
    quick = ["teachers.count=2", "teachers.epochs=1", "queries=50", "student.steps=5"]
    assert nzc(*SMALL, *quick, "trainer.devices=1").code == 0
    _, student = modules  # the first ones are the teachers
    sent = pickle.dumps(student)
    splits = Digits(0, 1200, 400).load()
    assert all(row.tobytes() in sent for row in splits.public.x)
    public = {row.tobytes() for row in splits.public.x}
    private = [row.tobytes() for row in splits.private.x]
    assert not any(row in sent for row in private if row not in public)


class Batches(nn.Sequential):
    """Batch normalisation, which needs two rows."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(nn.Flatten(), nn.BatchNorm1d(shape[0]), nn.Linear(shape[0], classes))


UNTRAINABLE = {
    "student.network=Batches: must be trainable .*student.batch_size=1;": {
        "network": Batches,
        "batch_size": 1,
    },
    "student.optimizer=SparseAdam": {"optimizer": torch.optim.SparseAdam},
    "student.augment=": {"augment": lambda x, rng: x[:, :1]},
}


@pytest.mark.parametrize("line", UNTRAINABLE)
def test_what_cannot_take_a_step_is_refused_before_teachers_train(line: str) -> None:
    for config in ALL[:2]:
        with pytest.raises(InputError, match=line):
            replace(config, **UNTRAINABLE[line]).check((3,), 3, QUIET)


class Ranked(Supervised):
    """A loss of one's own that needs four rows."""

    def losses(
        self, student: StudentModule, x: torch.Tensor, y: torch.Tensor, u: torch.Tensor
    ) -> dict:
        return {"ranked": student.network(x).amax(1).topk(4).values.mean()}


def test_a_loss_may_need_more_rows_than_two() -> None:
    Ranked(**vars(PLAIN)).check((3,), 3, QUIET)
    with pytest.raises(
        InputError, match=r"student.network=mlp: must be trainable by the losses of Ranked"
    ):
        Ranked(**vars(PLAIN) | {"batch_size": 3}).check((3,), 3, QUIET)


@pytest.mark.parametrize("config", ALL, ids=lambda config: type(config).__name__)
def test_what_takes_a_step_is_accepted_and_leaves_no_trace(config: StudentConfig) -> None:
    own = {"network": Batches, "batch_size": 2, "optimizer": partial(torch.optim.LBFGS, lr=0.1)}
    if isinstance(config, GANSSL):  # two players are groups of weights, which LBFGS does not take
        own["optimizer"] = partial(torch.optim.SGD, lr=0.1)
    before = torch.get_rng_state()
    replace(config, **own).check((3,), 3, QUIET)
    assert before.equal(torch.get_rng_state())
