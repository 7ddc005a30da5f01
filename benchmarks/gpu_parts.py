"""The parts of gpu.py. Each yields figures; docs/gpu.md says how to read them."""
# ruff: noqa: B023 (figure() calls the function that it is given at once)

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import gpu_tools as tools
import numpy as np
import torch
from gpu_tools import CONVOLUTIONS, PRECISIONS, Figure, Size, figure, has_gpu, precision, seconds, stacked, task
from teachers import CLASSES, Task, train_one_model, train_with_lightning

from nzc.data.augment import Affine, Strong
from nzc.students import StudentConfig, StudentData, module
from nzc.students.gan_ssl import GANSSL
from nzc.students.softmatch import SoftMatch
from nzc.students.vat import VAT
from nzc.teachers.stacked import Stacked
from nzc.teachers.threads import Threads
from nzc.training.trainer import TrainerSettings


def machine(size: Size) -> Iterator[Figure]:
    """What the machine is, and the rates that it reaches: the ceilings of everything that follows."""
    yield Figure("device", torch.cuda.get_device_name() if has_gpu() else "CPU: small sizes only")
    yield Figure("torch", torch.__version__)
    side = size.product
    for name in PRECISIONS:
        with precision(name):
            dtype = torch.bfloat16 if name == "bf16-mixed" else torch.float32
            a, b = torch.randn(2, side, side, device=tools.device(), dtype=dtype)
            rate = figure(f"matrix product, {name}", "TFLOP/s", lambda: 2 * side**3 / seconds(lambda: a @ b, 1) / 1e12)
        yield rate
    x = torch.randn(side * side * 8, device=tools.device())
    yield figure("copy, bytes read and written", "TB/s", lambda: 8 * len(x) / seconds(x.clone, 1) / 1e12)


def agree(size: Size) -> Iterator[Figure]:
    """Stacked teachers against teachers alone: their labels, their logits in double precision, their independence."""
    few = replace(size, teachers=min(20, size.teachers), passes=min(10, size.passes), public=min(2000, size.public))
    affine = Affine(10, 0.1, 0.06, 0.1)
    alone = task(few, augment=affine, stacked=False)
    labels = tools.predictions(alone)
    for unfold, name in CONVOLUTIONS.items():
        own = task(few, augment=affine, stacked=True, unfold=unfold)
        share = lambda: float((tools.predictions(own) == labels).mean())  # noqa: E731
        yield figure(f"same labels as threads, {name}", "share", share)
    x = torch.rand(min(200, few.public), 1, 28, 28, dtype=torch.float64, device=tools.device())
    threads = Threads(tools.teachers(alone, double=True), 1, nullcontext)
    for _ in range(2):
        threads.train_pass()
    with torch.no_grad():
        expected = torch.stack([teacher.network.eval()(x) for teacher in threads.teachers])
    for unfold, name in CONVOLUTIONS.items():
        own = replace(alone, settings=replace(alone.settings, unfold=unfold))
        cohort = Stacked(tools.teachers(own, double=True))

        def apart() -> float:
            for _ in range(2):
                cohort.train_pass()
            with torch.no_grad():
                return float((cohort.logits(x) - expected).abs().max())

        yield figure(f"largest difference of a logit in double precision, {name}", "", apart)
        yield figure(f"NaN in the rows of one teacher stays there, {name}", "", lambda: stays(cohort))


def stays(cohort: Stacked) -> bool:
    """Return whether NaN in all rows of teacher 1 spoils its weights and no other's."""
    cohort.x[cohort.starts[1] : cohort.starts[1] + len(cohort.teachers[1].y)] = torch.nan
    cohort.train_pass()
    spoilt = torch.stack([value.isnan().flatten(1).any(1) for value in cohort.parameters.values()]).any(0)
    return spoilt.nonzero().flatten().tolist() == [1]


def engine(size: Size) -> Iterator[Figure]:
    """The whole run: all passes and the labels of all public rows, against the ways to do without stacked teachers."""
    short = replace(size, passes=2, public=min(100, size.public))
    found = {}
    for unfold, name in CONVOLUTIONS.items():
        of = task(short, unfold=unfold, stacked=True)
        measured = figure(f"2 passes, {name}", "s", lambda: seconds(lambda: tools.predictions(of), 0))
        yield measured
        found[unfold] = measured.seconds or float("inf")
    unfold = min(found, key=lambda key: found[key])
    whole, few = task(size, unfold=unfold, stacked=True), min(2, size.teachers)
    one_by_one = task(replace(size, teachers=few))
    at_once = replace(task(size), settings=replace(whole.settings, batch_size=size.batch * size.teachers))
    short_model = task(replace(size, passes=1))
    methods: dict[str, Callable[[], float]] = {
        f"{size.teachers} teachers, {size.passes} passes, {size.public:,} rows, {CONVOLUTIONS[unfold]}": lambda: (
            seconds(lambda: tools.predictions(whole), 0, warm=False)
        ),
        f"a Trainer per teacher ({few} × {size.teachers / few:g})": lambda: (
            seconds(lambda: train_with_lightning(one_by_one), 0) * size.teachers / few
        ),
        "one model, the same rows a step": lambda: seconds(lambda: train_one_model(at_once), 0),
        f"one model, {size.batch} rows a step (1 pass × {size.passes})": lambda: (
            seconds(lambda: train_one_model(short_model), 0, warm=False) * size.passes
        ),
    }
    base: float | None = None
    for i, (name, method) in enumerate(methods.items()):
        measured = figure(name, "s", method)
        yield measured
        if i == 0:
            base = measured.seconds
        elif base is not None and measured.seconds is not None:
            yield Figure("… in times of the stacked run", measured.seconds / base, "×")


def step(size: Size) -> Iterator[Figure]:
    """A pass by precision, convolution and CUDA graph, and the arithmetic of a pass."""
    whole = replace(size, records=size.records // size.batch * size.batch)  # every batch has the same shape
    yield figure(
        f"arithmetic of a pass of {whole.teachers} × {whole.records} rows", "TFLOP", lambda: tools.flops(whole)
    )
    for unfold, conv in CONVOLUTIONS.items():
        own = task(whole, unfold=unfold)
        for name in PRECISIONS:
            with precision(name):
                yield figure(f"pass, {name}, {conv}", "s", lambda: seconds(stacked(own).train_pass))
        if has_gpu():
            yield figure(
                f"a step never waits for the GPU, {conv}", "", lambda: tools.never_waits(tools.step_of(stacked(own)))
            )
            with precision("TF32"):
                yield from variant(f"TF32, {conv}, CUDA graph", own, tools.graphed)


def count(size: Size) -> Iterator[Figure]:
    """How many kernels a training step starts; the rows of a batch do not matter."""
    tiny = replace(size, records=2, batch=2)
    for number in sorted({1, *size.few, size.teachers}):
        own = task(replace(tiny, teachers=number))
        yield figure(f"kernels of a step, {number} alone", "", lambda: number * tools.kernels(tools.step_alone(own)))
        for unfold, conv in CONVOLUTIONS.items():
            of = replace(own, settings=replace(own.settings, unfold=unfold))
            yield figure(
                f"kernels of a step, {number} stacked, {conv}", "", lambda: tools.kernels(tools.step_of(stacked(of)))
            )


def compiled(size: Size) -> Iterator[Figure]:
    """The same pass after torch.compile, without and with CUDA graphs; the first call compiles."""
    whole = replace(size, records=size.records // size.batch * size.batch)
    for mode in ("default", "reduce-overhead") if has_gpu() else ("default",):
        for unfold, conv in CONVOLUTIONS.items():

            def compile_losses(cohort: Stacked) -> None:
                setattr(cohort, "losses", torch.compile(cohort.losses, mode=mode, dynamic=False))  # noqa: B010

            torch.compiler.reset()
            with precision("TF32"):
                yield from variant(f"TF32, {conv}, compiled ({mode})", task(whole, unfold=unfold), compile_losses)


def variant(name: str, of: Task, change: Callable[[Stacked], None]) -> Iterator[Figure]:
    """Yield seconds of a pass of the changed teachers, their gradients against those of unchanged ones, kernels."""
    plain, cohort = stacked(of), stacked(of)
    change(cohort)
    first = figure(
        f"first gradients, {name}", "s", lambda: seconds(lambda: tools.gradients(cohort, plain), 0, warm=False)
    )
    yield first
    if first.error is None:
        yield figure(f"largest difference of a gradient, {name}", "of its size", lambda: tools.gradients(cohort, plain))
        yield figure(f"pass, {name}", "s", lambda: seconds(cohort.train_pass))
        if has_gpu():
            yield figure(f"kernels of a step, {name}", "", lambda: tools.kernels(tools.step_of(cohort)))
        yield figure(f"NaN in the rows of one teacher stays there, {name}", "", lambda: stays(cohort))


def many(size: Size) -> Iterator[Figure]:
    """A pass over the same rows, divided among more teachers."""
    rows = size.teachers * size.records
    for count in (size.teachers, *size.larger):
        cohort = stacked(task(replace(size, teachers=count, records=max(1, rows // count))))
        for unfold, conv in CONVOLUTIONS.items():
            cohort.first.settings = replace(cohort.first.settings, unfold=unfold)
            with precision("TF32"):
                yield figure(f"pass, {count:,} teachers, TF32, {conv}", "s", lambda: seconds(cohort.train_pass))


def augment(size: Size) -> Iterator[Figure]:
    """The batches of a pass: augmented for all teachers at once, and a teacher at a time."""
    affine = Affine(10, 0.1, 0.06, 0.1)
    ways = {"at once": affine, "a teacher at a time": lambda x, rng: affine(x, rng), "none": None}
    for name, way in ways.items():
        cohort = stacked(task(size, augment=way))
        yield figure(f"batches of a pass, augmented {name}", "s", lambda: seconds(lambda: list(cohort.batches())))


def label(size: Size) -> Iterator[Figure]:
    """Labels of all public rows by all teachers."""
    for unfold, conv in CONVOLUTIONS.items():
        cohort = stacked(task(size, unfold=unfold))
        public = torch.from_numpy(tools.images(size.public).x)

        def rate() -> float:
            return len(cohort.teachers) * len(public) / seconds(lambda: list(cohort.predict(public)))

        for name in PRECISIONS:
            with precision(name):
                yield figure(f"votes, {name}, {conv}", "a second", rate)


def student_kinds(size: Size) -> dict[str, StudentConfig]:
    """Return students at the papers' size: their batches, and networks for SVHN."""
    usual = {"lr": 1e-3, "weight_decay": 0.0, "average": 0.99, "balance": 0.0, "validation": 0.0, "patience": 1,
             "label_noise_rate": 0.1, "labeled_loss_decay": 0.0, "folds": 1, "steps": 1}  # fmt: skip

    def rows(labelled: int, pool: int) -> dict[str, Any]:
        return {**usual, "batch_size": max(2, labelled // size.rows), "unlabelled": max(2, pool // size.rows)}

    gan = GANSSL(network="gan_conv", lr_generator=1e-3, entropy=0.0, consistency=0.0, **rows(100, 100))
    vat = VAT(network="conv_large", alpha=1.0, entropy=1.0, radius=2.5, xi=0.01, power=1, **rows(32, 128))
    strong = Strong(Affine(10, 0.1, 0.06), stretch=1.5, contrast=0.5, brightness=0.2, cutout=0.5, mask=0.3, noise=0.1)
    own: dict[str, Any] = {"strong": strong, "weight": 1.0, "momentum": 0.99, "width": 2.0}
    softmatch = SoftMatch(network="conv_large", **own, **rows(64, 448))
    return {
        f"{type(each).__name__}, {each.network}, {each.batch_size} + {each.unlabelled} rows": each
        for each in (gan, vat, softmatch)
    }


def students(size: Size) -> Iterator[Figure]:
    """Steps a second of each student, from fits of two lengths. They log little, as fits of thousands of steps do."""
    module.EVALUATIONS = 1
    rng = np.random.default_rng(0)
    data = StudentData(rng.integers(0, 256, (1_000, 3, 32, 32), np.uint8), rng.integers(0, CLASSES, 1_000), CLASSES)
    for name, config in student_kinds(size).items():
        for kind in ("32-true", "bf16-mixed"):
            options: dict[str, Any] = {"accelerator": "gpu" if has_gpu() else "cpu", "devices": 1, "precision": kind}

            def fit(steps: int) -> None:
                replace(config, steps=steps).fit(data, 0, TrainerSettings(progress=False, **options), "")

            def rate() -> float:
                short = seconds(lambda: fit(size.steps // 2), 0)
                return size.steps / (seconds(lambda: fit(size.steps // 2 + size.steps), 0, warm=False) - short)

            yield figure(f"{name}, {kind}", "steps/s", rate)


class Part(NamedTuple):
    """A part, and the seconds after which it is stopped."""

    figures: Callable[[Size], Iterator[Figure]]
    seconds: float


#: By importance: what comes last has the least time where the parts before use all of theirs.
PARTS = {
    "machine": Part(machine, 30),
    "agree": Part(agree, 50),
    "engine": Part(engine, 100),
    "step": Part(step, 60),
    "count": Part(count, 20),
    "many": Part(many, 60),
    "students": Part(students, 55),
    "label": Part(label, 20),
    "augment": Part(augment, 15),
    "compiled": Part(compiled, 70),
}

warnings.filterwarnings("ignore")
