"""The parts of gpu.py. Each yields figures; docs/gpu.md says how to read them."""
# ruff: noqa: B023 (figure() calls the function that it is given at once)

import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from teachers import CLASSES, Task, ensemble, train_one_model, train_with_lightning
from torch import nn
from torch._C._autograd import DeviceType
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from nzc.data import Split
from nzc.data.augment import Affine, Strong
from nzc.networks import gan
from nzc.students import NetworkStudent, StudentData, network
from nzc.students.gan_ssl import GANSSL
from nzc.students.softmatch import SoftMatch
from nzc.students.supervised import Supervised
from nzc.students.vat import VAT
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.stacked import Stacked
from nzc.teachers.teacher import Teacher, Threads
from nzc.training.trainer import TrainerSettings

PRECISIONS = ("TF32", "float32", "bf16-mixed")
AFFINE = Affine(10, 0.1, 0.06, 0.1)


@dataclass(frozen=True)
class Figure:
    """One measured figure, or the line of the error that prevented it."""

    name: str
    value: float | str | bool | None
    unit: str = ""
    peak_gib: float | None = None
    error: str | None = None

    def __str__(self) -> str:
        value = f"{self.value:,.4g}" if isinstance(self.value, float) else str(self.value)
        memory = "" if self.peak_gib is None else f"   {self.peak_gib:.2f} GiB"
        return f"{self.name:58} {self.error or f'{value:>12} {self.unit}'}{memory}"


@dataclass(frozen=True)
class Size:
    """How much is measured: an ensemble (its records are those of one teacher), larger ensembles,
    students.
    """

    teachers: int
    records: int
    passes: int
    public: int
    batch: int
    larger: tuple[int, ...]
    product: int
    steps: int
    rows: int  # of the papers' student batches, how many are one here


FULL = Size(250, 240, 60, 9_000, 32, (1_000, 5_000), 8_192, 100, 1)
SMALL = Size(2, 8, 3, 20, 4, (4,), 64, 2, 32)


def has_gpu() -> bool:
    return torch.cuda.is_available()


def device() -> torch.device:
    return torch.device("cuda" if has_gpu() else "cpu")


def seconds(run: Callable[[], object], most: float = 3.0, warm: bool = True) -> float:
    """Return the median seconds of a call, of as many calls as fit into `most` seconds, at least
    one and at most 20.

    warm  whether two calls come before, in which kernels are chosen, or compiled
    """
    times: list[float] = []
    sync: Callable[[], object] = torch.cuda.synchronize if has_gpu() else int
    for _ in range(2 * warm):
        run()
    while not times or (sum(times) < most and len(times) < 20):
        sync()
        start = time.perf_counter()
        run()
        sync()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def figure(name: str, unit: str, measure: Callable[[], float | str | bool]) -> Figure:
    """Return what `measure` returns, with the peak of the GPU's memory; or its error, and other
    figures can follow.
    """
    if has_gpu():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        value = measure()
    except (
        Exception
    ) as error:  # out of memory, an operation that a version of torch cannot compile, …
        return Figure(
            name, None, unit, error=" ".join(f"{type(error).__name__}: {error}".split())[:300]
        )
    return Figure(
        name, value, unit, torch.cuda.max_memory_allocated() / 2**30 if has_gpu() else None
    )


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Compute in float32 throughout, in float32 with TF32 products, or in bf16 with float32
    weights.
    """
    torch.set_float32_matmul_precision("highest" if name == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = name != "float32"
    with torch.autocast(device().type, torch.bfloat16) if name == "bf16-mixed" else nullcontext():
        yield


def images(rows: int) -> Split:
    """Return grey images of ten classes to be learned: one random pattern a class, and noise."""
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 256, (CLASSES, 1, 7, 7)).repeat(4, axis=2).repeat(4, axis=3)
    labels = rng.integers(0, CLASSES, rows)
    noisy = pattern[labels] // 2 + rng.integers(0, 128, (rows, 1, 28, 28))
    return Split(noisy.astype(np.uint8), labels)


def task(size: Size, **changes: Any) -> Task:
    """Return an ensemble of the size to train."""
    options: dict[str, Any] = {"epochs": size.passes, "batch_size": size.batch, **changes}
    return ensemble(
        images(size.teachers * size.records), images(size.public), size.teachers, **options
    )


def teachers(of: Task, double: bool = False) -> list[Teacher]:
    engine = TeacherEnsemble(of.settings, of.splits, of.shards, Path()).to(device())
    made = [engine.teacher(number) for number in range(len(of.shards))]
    for teacher in made if double else []:
        teacher.network, teacher.x = teacher.network.double(), teacher.x.double()
    return made


def stacked(of: Task, compiled: bool = False) -> Stacked:
    """Return the stacked teachers of a task, not trained yet, for as many passes as are timed."""
    return Stacked(teachers(replace(of, settings=replace(of.settings, epochs=1_000))), compiled)


def predictions(of: Task) -> np.ndarray[Any, Any]:
    """Return the labels that the engine's teachers give the public rows, [teachers, rows]."""
    with TemporaryDirectory() as folder:
        trainer = TrainerSettings(progress=False, accelerator=of.accelerator, devices=1)
        return of.settings.teach_all(of.splits, trainer, Path(folder))


def machine(size: Size) -> Iterator[Figure]:
    """What the machine is, and the rates that it reaches: the ceilings of all that follows."""
    yield Figure("device", torch.cuda.get_device_name() if has_gpu() else "CPU: small sizes only")
    yield Figure("torch", torch.__version__)
    side = size.product
    for name in PRECISIONS:
        with precision(name):
            dtype = torch.bfloat16 if name == "bf16-mixed" else torch.float32
            a, b = torch.randn(2, side, side, device=device(), dtype=dtype)
            rate = figure(
                f"matrix product, {name}",
                "TFLOP/s",
                lambda: 2 * side**3 / seconds(lambda: a @ b, 1) / 1e12,
            )
        yield rate
    x = torch.randn(side * side * 8, device=device())
    yield figure(
        "copy, bytes read and written", "TB/s", lambda: 8 * len(x) / seconds(x.clone, 1) / 1e12
    )


def agree(size: Size) -> Iterator[Figure]:
    """Stacked teachers against teachers alone: their labels, their logits in double precision,
    their independence.
    """
    few = replace(
        size,
        teachers=min(20, size.teachers),
        passes=min(10, size.passes),
        public=min(2000, size.public),
    )
    alone = task(few, augment=AFFINE, stacked=False)
    labels = predictions(alone)
    own = task(few, augment=AFFINE, stacked=True)
    yield figure(
        "same labels as threads", "share", lambda: float((predictions(own) == labels).mean())
    )
    x = torch.rand(min(200, few.public), 1, 28, 28, dtype=torch.float64, device=device())
    threads = Threads(teachers(alone, double=True), 1, nullcontext)
    for _ in range(2):
        threads.train_pass()
    with torch.no_grad():
        expected = torch.stack([teacher.network.eval()(x) for teacher in threads.teachers])
    cohort = Stacked(teachers(alone, double=True))

    def apart() -> float:
        for _ in range(2):
            cohort.train_pass()
        with torch.no_grad():
            return float((cohort.logits(x) - expected).abs().max())

    yield figure("largest difference of a logit in double precision", "", apart)
    yield figure("NaN in the rows of one teacher stays there", "", lambda: stays(cohort))


def stays(cohort: Stacked) -> bool:
    """Return whether NaN in all rows of teacher 1 spoils its weights and no other's."""
    cohort.x[cohort.starts[1] : cohort.starts[1] + len(cohort.teachers[1].y)] = torch.nan
    cohort.train_pass()
    spoilt = torch.stack(
        [value.isnan().flatten(1).any(1) for value in cohort.parameters.values()]
    ).any(0)
    return spoilt.nonzero().flatten().tolist() == [1]


def engine(size: Size) -> Iterator[Figure]:
    """The whole run: all passes and the labels of all public rows, against the ways to do without
    stacked teachers.
    """
    few, whole = min(2, size.teachers), task(size)
    predictions(
        replace(whole, settings=replace(whole.settings, epochs=1, stacked=True))
    )  # warms up
    own = partial(predictions, task(size, stacked=True))
    name = f"{size.teachers} teachers, {size.passes} passes, {size.public:,} rows"
    yield (run := figure(name, "s", lambda: seconds(own, 0, warm=False)))
    best = run.value if isinstance(run.value, float) else float("inf")
    at_once, short = (
        task(size, batch_size=size.batch * size.teachers),
        task(replace(size, passes=1)),
    )
    one_by_one, times = task(replace(size, teachers=few)), size.teachers / few
    for name, method, of, factor in (
        (f"a Trainer per teacher ({few} × {times:g})", train_with_lightning, one_by_one, times),
        ("one model, the same rows a step", train_one_model, at_once, 1),
        (
            f"one model, {size.batch} rows a step (1 pass × {size.passes})",
            train_one_model,
            short,
            size.passes,
        ),
    ):
        yield (
            run := figure(name, "s", lambda: seconds(partial(method, of), 0, warm=False) * factor)
        )
        if isinstance(run.value, float):
            yield Figure("… in times of the stacked run", run.value / best, "×")


def kernels(cohort: Stacked) -> float:
    """Return how many kernels a training step starts on the GPU; on a CPU, how many events a
    profile of it has.
    """
    x, y = next(cohort.batches())

    def step() -> None:
        cohort.first.optimizer.zero_grad()
        cohort.losses(x, y).sum().backward()
        cohort.first.optimizer.step()

    step()  # sets up the optimiser
    with profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if has_gpu() else [])]
    ) as profiled:
        step()
    kind = DeviceType.CUDA if has_gpu() else DeviceType.CPU
    return float(sum(event.device_type == kind for event in profiled.events() or []))


def step(size: Size) -> Iterator[Figure]:
    """A pass by precision, its arithmetic, and the kernels of a step."""
    whole = replace(
        size, records=size.records // size.batch * size.batch
    )  # every batch has the same shape
    (teacher,) = teachers(task(replace(whole, teachers=1, records=size.batch)))
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(teacher.network(teacher.x), teacher.y).backward()
    rows = whole.teachers * whole.records
    arithmetic = float(counter.get_total_flops()) / len(teacher.y) * rows / 1e12
    yield Figure(
        f"arithmetic of a pass of {whole.teachers} × {whole.records} rows", arithmetic, "TFLOP"
    )
    own = task(whole)
    for name in PRECISIONS:
        with precision(name):
            yield figure(f"pass, {name}", "s", lambda: seconds(stacked(own).train_pass))
    if has_gpu():
        with precision("TF32"):
            yield figure(
                "pass, TF32, trainer.compile=true",
                "s",
                lambda: seconds(stacked(own, True).train_pass),
            )
    yield figure("kernels of a step", "", lambda: kernels(stacked(own)))


def many(size: Size) -> Iterator[Figure]:
    """A pass over the same rows, divided among more teachers."""
    rows = size.teachers * size.records
    for number in (size.teachers, *size.larger):
        cohort = stacked(task(replace(size, teachers=number, records=max(1, rows // number))))
        with precision("TF32"):
            yield figure(
                f"pass, {number:,} teachers, TF32", "s", lambda: seconds(cohort.train_pass)
            )


def augment(size: Size) -> Iterator[Figure]:
    """The batches of a pass: augmented for all teachers at once, and a teacher at a time."""
    ways = {"at once": AFFINE, "a teacher at a time": lambda x, rng: AFFINE(x, rng), "none": None}
    for name, way in ways.items():
        cohort = stacked(task(size, augment=way))
        yield figure(
            f"batches of a pass, augmented {name}",
            "s",
            lambda: seconds(lambda: list(cohort.batches())),
        )


def label(size: Size) -> Iterator[Figure]:
    """Labels of all public rows by all teachers."""
    public = torch.from_numpy(images(size.public).x)
    cohort = stacked(task(size))
    rate = lambda: size.teachers * size.public / seconds(lambda: list(cohort.predict(public)), 1)  # noqa: E731
    for name in PRECISIONS:
        with precision(name):
            yield figure(f"votes, {name}", "a second", rate)


def tiny(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a network whose arithmetic is next to nothing."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(shape), 8), nn.ReLU(), nn.Linear(8, classes)
    )


def tiny_generator(network: object, shape: tuple[int, ...]) -> nn.Module:
    """Return a generator of GAN-SSL with as little arithmetic."""
    layers = (
        nn.Linear(gan.LATENT, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Linear(8, math.prod(shape)),
        nn.Sigmoid(),
    )
    return nn.Sequential(*layers, nn.Unflatten(1, shape))


def student_kinds(size: Size) -> list[NetworkStudent]:
    """Return students at the papers' size: their batches, and networks for SVHN."""
    usual = {
        "lr": 1e-3,
        "weight_decay": 0.0,
        "average": 0.99,
        "balance": 0.0,
        "label_noise_rate": 0.1,
        "labeled_loss_decay": 0.0,
        "folds": 1,
        "steps": 1,
    }

    def rows(labeled: int, pool: int) -> dict[str, Any]:
        return {
            **usual,
            "batch_size": max(2, labeled // size.rows),
            "unlabeled": max(2, pool // size.rows),
        }

    strong = Strong(
        Affine(10, 0.1, 0.06),
        stretch=1.5,
        contrast=0.5,
        brightness=0.2,
        cutout=0.5,
        mask=0.3,
        noise=0.1,
    )
    own: dict[str, Any] = {"strong": strong, "weight": 1.0, "momentum": 0.99, "width": 2.0}
    return [
        Supervised(network="conv_large", **rows(64, 0) | {"unlabeled": 0}),
        GANSSL(
            network="gan_conv", lr_generator=1e-3, entropy=0.0, consistency=0.0, **rows(100, 100)
        ),
        VAT(
            network="conv_large",
            alpha=1.0,
            entropy=1.0,
            radius=2.5,
            xi=0.01,
            power=1,
            **rows(32, 128),
        ),
        SoftMatch(network="conv_large", **own, **rows(64, 448)),
    ]


def a_step(
    config: NetworkStudent,
    data: StudentData,
    steps: int,
    clock: Callable[[], float],
    **options: Any,
) -> float:
    """Return the seconds of a step, from fits of two lengths.

    They log little, as fits of thousands of steps do.
    """
    trainer = TrainerSettings(progress=False, devices=1, **options)

    def fit(number: int) -> float:
        start = clock()
        replace(config, steps=number).fit(data, 0, trainer, "")
        return clock() - start

    fit(steps // 2)  # warms up
    return (fit(steps // 2 + steps) - fit(steps // 2)) / steps


def public(channels: int, side: int, rows: int) -> StudentData:
    """Return random images in colour or grey, all labeled."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (rows, channels, side, side), np.uint8)
    return StudentData(x, rng.integers(0, CLASSES, rows), CLASSES)


def students(size: Size) -> Iterator[Figure]:
    """Steps a second of each student."""
    network.EVALUATIONS = 1
    data = public(3, 32, 1_000)
    ways: dict[str, dict[str, Any]] = {
        "32-true": {},
        "32-true, compile": {"compile": True},
        "bf16-mixed, compile": {"precision": "bf16-mixed", "compile": True},
    }
    for config in student_kinds(size):
        rows = f"{config.batch_size} + {config.unlabeled} rows"
        for way, options in ways.items():

            def rate() -> float:
                return 1 / a_step(config, data, size.steps, time.perf_counter, **options)

            yield figure(
                f"{type(config).__name__}, {config.network}, {rows}, {way}", "steps/s", rate
            )


def same(size: Size) -> Iterator[Figure]:
    """Weights of students after some steps with trainer.compile, by precision, and without.

    The first is how far two fits without it are apart; VAT, which has no CUDA graph, shows no more.
    """
    data = public(1, 28, 200)
    for config in student_kinds(replace(size, rows=4 * size.rows)):
        kind = type(config).__name__
        own = replace(
            config,
            network={"GANSSL": "gan_cnn"}.get(kind, "cnn_bn"),
            augment=AFFINE,
            labeled_loss_decay=0.5,
            steps=20,  # the fourth is recorded
        )

        def weights(**options: Any) -> torch.Tensor:
            trainer = TrainerSettings(progress=False, devices=1, **options)
            fitted = own.fit(data, 0, trainer, "")
            return torch.cat([w.double().flatten().cpu() for w in fitted.classifier.parameters()])

        def apart(**options: Any) -> float:
            alone = weights(precision=options.get("precision", "32-true"))
            return float((weights(**options) - alone).norm() / alone.norm())

        yield figure(f"{kind}, weights of two fits apart", "of their norm", apart)
        for precision in ("32-true", "bf16-mixed", "16-mixed"):
            yield figure(
                f"{kind}, weights with compile apart, {precision}",
                "of their norm",
                partial(apart, precision=precision, compile=True, gradient_clip_val=1e6),
            )


def overhead(size: Size) -> Iterator[Figure]:
    """Processor time of each student's step on the CPU, where networks are tiny: what Python and
    Lightning take.

    GAN-SSL comes twice: also with the generator of gan_mlp, whose arithmetic is not little (1.3 MB
    of weights).
    """
    network.EVALUATIONS = 1
    data = public(1, 8, 200)
    for config in student_kinds(SMALL):
        own = replace(config, network=tiny, batch_size=8, unlabeled=min(8, config.unlabeled))

        def cost() -> float:
            return 1e3 * a_step(own, data, 10 * size.steps, time.process_time, accelerator="cpu")

        name = f"{type(config).__name__}, tiny network, 8 rows: a step"
        if isinstance(config, GANSSL):
            yield figure(f"{name}, generator of gan_mlp", "ms", cost)
            gan.generator = tiny_generator
        yield figure(name, "ms", cost)


#: The parts, and the seconds after which each is stopped. What comes last has the least time where
#: others use theirs.
PARTS: dict[str, tuple[Callable[[Size], Iterator[Figure]], float]] = {
    "machine": (machine, 30),
    "agree": (agree, 50),
    "engine": (engine, 100),
    "step": (step, 70),
    "many": (many, 60),
    "students": (students, 75),
    "same": (same, 40),
    "overhead": (overhead, 30),
    "label": (label, 30),
    "augment": (augment, 15),
}

warnings.filterwarnings("ignore")
