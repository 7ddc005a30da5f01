"""What the parts of gpu.py measure, and how: figures, sizes, ensembles, seconds, kernels and arithmetic."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from teachers import CLASSES, Task
from torch import Tensor
from torch._C._autograd import DeviceType
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from nzc.data import DataSplits, Split
from nzc.teachers.engine import TeacherEnsemble
from nzc.teachers.ensemble import Ensemble
from nzc.teachers.sharded import partition
from nzc.teachers.stacked import Stacked
from nzc.teachers.teacher import Teacher
from nzc.training.trainer import TrainerSettings
from nzc.validation import in_a_line

#: Names of the two ways to compute the convolutions of stacked teachers, by the value of `Ensemble.unfold`.
CONVOLUTIONS = {True: "unfold + bmm", False: "grouped conv"}


@dataclass(frozen=True)
class Figure:
    """One measured figure, or the line of the error that prevented it."""

    name: str
    value: float | str | bool | None
    unit: str = ""
    peak_gib: float | None = None
    error: str | None = None

    @property
    def seconds(self) -> float | None:
        """The value, where one was measured."""
        return self.value if isinstance(self.value, float) else None


@dataclass(frozen=True)
class Size:
    """How much is measured: an ensemble (its records are those of one teacher), larger ensembles, students."""

    teachers: int
    records: int
    passes: int
    public: int
    batch: int
    few: tuple[int, ...]
    larger: tuple[int, ...]
    product: int
    steps: int
    rows: int  # of a student's batches, compared with those of the papers


FULL = Size(250, 240, 60, 9_000, 32, (32,), (1_000, 5_000), 8_192, 100, 1)
SMALL = Size(2, 8, 3, 20, 4, (), (4,), 64, 2, 32)


def has_gpu() -> bool:
    return torch.cuda.is_available()


def device() -> torch.device:
    return torch.device("cuda" if has_gpu() else "cpu")


def _sync() -> None:
    if has_gpu():
        torch.cuda.synchronize()


def seconds(run: Callable[[], object], most: float = 3.0, warm: bool = True) -> float:
    """Return the median seconds of a call, of as many calls as fit into `most` seconds, at least one and at most 20."""
    times: list[float] = []
    if warm:
        run()
    while not times or (sum(times) < most and len(times) < 20):
        _sync()
        start = time.perf_counter()
        run()
        _sync()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def figure(name: str, unit: str, measure: Callable[[], float | str | bool]) -> Figure:
    """Return what `measure` returns, with the peak of the GPU's memory; or its error, and other figures can follow."""
    if has_gpu():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        value = measure()
    except Exception as error:  # out of memory, an operation that a version of torch cannot compile, …
        return Figure(name, None, unit, error=in_a_line(f"{type(error).__name__}: {error}", 300))
    return Figure(name, value, unit, torch.cuda.max_memory_allocated() / 2**30 if has_gpu() else None)


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Compute in float32 throughout, in float32 with TF32 products, or in bf16 with float32 weights."""
    torch.set_float32_matmul_precision("highest" if name == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = name != "float32"
    with torch.autocast(device().type, torch.bfloat16) if name == "bf16-mixed" else nullcontext():
        yield


PRECISIONS = ("TF32", "float32", "bf16-mixed")


def images(rows: int) -> Split:
    """Return grey images of ten classes that can be learned: one random pattern a class, and noise."""
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 256, (CLASSES, 1, 7, 7)).repeat(4, axis=2).repeat(4, axis=3)
    labels = rng.integers(0, CLASSES, rows)
    noisy = pattern[labels] // 2 + rng.integers(0, 128, (rows, 1, 28, 28))
    return Split(noisy.astype(np.uint8), labels)


def task(size: Size, **changes: Any) -> Task:
    """Return an ensemble of the size to train."""
    private, public = images(size.teachers * size.records), images(size.public)
    settings = Ensemble(count=size.teachers, network="cnn", epochs=size.passes, batch_size=size.batch, lr=0.004,
                        weight_decay=0.0, seed=0, **changes)  # fmt: skip
    shards = partition(private.y, size.teachers, seed=0, stratify=False)
    return Task(settings, DataSplits(private, public, public, CLASSES), shards, "gpu" if has_gpu() else "cpu")


def teachers(of: Task, double: bool = False) -> list[Teacher]:
    engine = TeacherEnsemble(of.settings, of.splits, of.shards, Path())
    engine.to(device())
    each = [engine.teacher(number) for number in range(len(of.shards))]
    for teacher in each if double else []:
        teacher.network, teacher.x = teacher.network.double(), teacher.x.double()
    return each


def stacked(of: Task) -> Stacked:
    """Return the stacked teachers of a task, not trained yet, for as many passes as are timed."""
    return Stacked(teachers(replace(of, settings=replace(of.settings, epochs=1_000))))


def predictions(of: Task) -> np.ndarray[Any, Any]:
    """Return the labels that the engine's teachers give the public rows, [teachers, rows]."""
    with TemporaryDirectory() as folder:
        trainer = TrainerSettings(progress=False, accelerator=of.accelerator, devices=1)
        return of.settings.teach(of.splits, trainer, Path(folder))


#: Parts of the names of operations that compute nothing, beside views.
_FREE = ("empty", "detach", "view", "alias")


class _Operations(TorchDispatchMode):
    """Counts the operations that compute something, neither views nor allocations; each is a kernel or a few."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.name()
        self.count += name.startswith("aten") and not function.is_view and not any(word in name for word in _FREE)
        return function(*args, **(kwargs or {}))


def kernels(step: Callable[[], object]) -> float:
    """Return how many kernels a training step starts on the GPU; on a CPU, how many operations it has."""
    step()  # sets up the optimiser
    if not has_gpu():
        with _Operations() as operations:
            step()
        return float(operations.count)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        step()
        _sync()
    return float(sum(event.device_type == DeviceType.CUDA for event in profiled.events() or []))


def never_waits(step: Callable[[], object]) -> bool:
    """Return True if a training step never makes the CPU wait for the GPU; torch raises an error if it does."""
    step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return True


def step_of(cohort: Stacked) -> Callable[[], None]:
    """Return a function that repeats one training step of all teachers, on the same batch."""
    x, y = next(cohort.batches())

    def step() -> None:
        cohort.gradients(x, y)
        cohort.first.optimizer.step()

    return step


def step_alone(of: Task) -> Callable[[], None]:
    """Return a function that repeats one training step of teacher 0 alone."""
    teacher = teachers(of)[0]
    teacher.set_optimizer(list(teacher.network.parameters()))

    def step() -> None:
        teacher.optimizer.zero_grad()
        F.cross_entropy(teacher.network(teacher.x), teacher.y).backward()
        teacher.optimizer.step()

    return step


def flops(size: Size) -> float:
    """Return the arithmetic of a pass of all teachers in TFLOP, forward and backward."""
    (teacher,) = teachers(task(replace(size, teachers=1, records=size.batch)))
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(teacher.network(teacher.x), teacher.y).backward()
    return float(counter.get_total_flops()) / len(teacher.y) * size.teachers * size.records / 1e12


def gradients(cohort: Stacked, plain: Stacked) -> float:
    """Return the largest difference of two cohorts' gradients on the same batch, of the largest gradient."""
    x, y = next(plain.batches())
    found = []
    for each in (plain, cohort):
        each.gradients(x, y)
        found.append([value.grad.clone() for value in each.parameters.values() if value.grad is not None])
    pairs = zip(*found, strict=True)
    return max(float((one - other).abs().max() / one.abs().max()) for one, other in pairs)


def graphed(cohort: Stacked) -> None:
    """Let the cohort replay its gradients from a CUDA graph for each shape of a batch."""
    eager, parameters = cohort.gradients, list(cohort.parameters.values())
    graphs: dict[torch.Size, tuple[Any, tuple[Tensor, Tensor], list[Tensor | None]]] = {}

    def record(x: Tensor, y: Tensor) -> None:
        kept, stream = (x.clone(), y.clone()), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                eager(*kept)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            eager(*kept)
        graphs[x.shape] = graph, kept, [value.grad for value in parameters]

    def replay(x: Tensor, y: Tensor) -> None:
        if x.shape not in graphs:
            record(x, y)
        graph, kept, gradients = graphs[x.shape]
        kept[0].copy_(x)
        kept[1].copy_(y)
        graph.replay()
        for value, gradient in zip(parameters, gradients, strict=True):
            value.grad = gradient

    setattr(cohort, "gradients", replay)  # noqa: B010
