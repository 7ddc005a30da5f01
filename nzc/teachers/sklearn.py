"""Any classifier with fit and predict as teacher, in processes. This module never imports torch."""

import copy
import os
import signal
import sys
import warnings
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from nzc.data import DataSplits
from nzc.progress import Bar
from nzc.protocols.task import Task
from nzc.storage.predictions import save
from nzc.teachers.sharded import ShardedTeachers, missing
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Ints
from nzc.validation import InputError, in_a_line

#: From so many bytes on, processes read an array from a file.
_LARGE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Sklearn(ShardedTeachers):
    """`count` copies of `estimator`, an object with fit(x, y) and predict(x).

    Images are flattened to floats 0 … 1. Every `random_state`, nested ones included, follows from
    (seed, teacher). A teacher whose shard has one class always votes for it. Labels are passed as
    0, 1, … for the classes of the shard, as XGBoost requires.
    """

    estimator: Any
    code = (__name__, *ShardedTeachers.code)

    def check(self, splits: DataSplits) -> Task:
        from sklearn.base import RegressorMixin

        is_classifier = hasattr(self.estimator, "predict")
        if not is_classifier or isinstance(self.estimator, (type, RegressorMixin)):
            name = getattr(self.estimator, "__name__", type(self.estimator).__name__)
            raise InputError(
                "estimator",
                name,
                "must be a classifier, an object with the methods fit and predict",
            )
        return super().check(splits)

    def teach_shards(
        self, splits: DataSplits, shards: list[Ints], trainer: TrainerSettings, work: Path
    ) -> None:
        from joblib import Parallel, cpu_count, delayed

        todo = missing(work, range(len(shards)))
        pool = Parallel(
            min(self.parallel or cpu_count(), len(shards)),
            return_as="generator",
            # joblib writes no file, and does not use the folder: it accepts short paths in ASCII.
            max_nbytes=None,
            temp_folder=os.sep,
            initializer=_start_worker,
            # Workers of an earlier run, in other places, are not used again.
            initargs=(os.getcwd(), sys.path.copy()),
        )
        # The files stay after a kill, so they belong into the private store.
        with (
            TemporaryDirectory(dir=work) as files,
            Bar(trainer.progress) as bar,
            warnings.catch_warnings(action="ignore"),  # of tasks that Ctrl-C leaves undone
        ):
            labeled = _features(splits.public.x[splits.to_label])
            public = _in_file(Path(files, "public.npy"), labeled)

            def task(teacher: int) -> Any:
                shard = shards[teacher]
                x = _in_file(Path(files, f"{teacher}.npy"), _features(splits.private.x[shard]))
                y = splits.private.y[shard]
                return delayed(_teach)(self.estimator, x, y, public, self.seed, teacher)

            with closing(pool(map(task, todo))) as answers:
                trained = zip(todo, answers, strict=True)
                for teacher, labels in bar.track(trained, len(todo), description="Teachers"):
                    save(work / f"{teacher}.npz", labels=labels)
                    Path(files, f"{teacher}.npy").unlink(missing_ok=True)


def _start_worker(folder: str, path: list[str]) -> None:
    """Work in `folder`, find the user's modules in `path`, and leave Ctrl-C to the command.

    A stopped worker would keep the command waiting.
    """
    os.chdir(folder)
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _teach(estimator: Any, x: AnyArray, y: Ints, public: AnyArray, seed: int, teacher: int) -> Ints:
    """Train one teacher, in a process of its own, and return its predictions [rows]."""
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        return np.full(len(public), y[0])
    state = int(np.random.SeedSequence([seed, teacher]).generate_state(1)[0])
    try:
        with warnings.catch_warnings(action="ignore"):
            fitted = _copy(estimator, state)
            fitted.fit(x, labels)
            predicted = np.asarray(fitted.predict(public)).astype(np.int64)
    except Exception as error:  # classifiers raise many types
        why = type(error).__name__
        if why == "InvalidParameterError":  # others may quote private values
            why = in_a_line(error)
        raise InputError(
            "teachers.estimator",
            type(estimator).__name__,
            f"must be able to learn from the {len(y)} records of teacher {teacher} ({why})",
        ) from error
    return classes[predicted.reshape(-1)]


def _in_file(path: Path, array: AnyArray) -> AnyArray:
    """Return an array that processes read from the file `path`, where it is large."""
    if array.nbytes < _LARGE:
        return array
    np.save(path, array)
    mapped: AnyArray = np.load(str(path), mmap_mode="r")
    return mapped


def _copy(estimator: Any, state: int) -> Any:
    """Return an unfitted copy with every random_state set, and one thread if none are given."""
    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    from sklearn.base import clone

    changes = {}
    for name, value in estimator.get_params().items():
        parameter = name.split("__")[-1]
        if parameter == "random_state":
            changes[name] = state
        elif parameter == "n_jobs" and value is None:
            changes[name] = 1
    return clone(estimator).set_params(**changes)


def _features(x: AnyArray) -> AnyArray:
    """Return rows of features; image bytes become floats from 0 to 1."""
    rows = x.reshape(len(x), -1)
    if x.dtype == np.uint8:
        return rows.astype(np.float32) / 255
    return rows
