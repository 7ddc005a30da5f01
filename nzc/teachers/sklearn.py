"""Any classifier with fit and predict as teacher, in parallel processes. This module never imports
torch.
"""

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
from nzc.storage.predictions import save
from nzc.teachers.base import VoteShape
from nzc.teachers.sharded import ShardedTeachers, missing
from nzc.training.trainer import TrainerSettings
from nzc.types import AnyArray, Ints
from nzc.validation import InputError, in_a_line

#: From so many bytes on, processes read an array from a file.
_LARGE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Sklearn(ShardedTeachers):
    """`count` copies of `estimator`, an object with fit(x, y) and predict(x). Images are flattened
    to floats 0 … 1.

    Every `random_state`, nested ones included, follows from (seed, teacher). A teacher whose shard
    has one class always votes for it. Labels are passed as 0, 1, … for the classes of the shard, as
    XGBoost requires.
    """

    estimator: Any
    code = (__name__, *ShardedTeachers.code)

    def check(self, splits: DataSplits | None) -> VoteShape:
        from sklearn.base import RegressorMixin

        if not hasattr(self.estimator, "predict") or isinstance(
            self.estimator, (type, RegressorMixin)
        ):
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
        places = (
            os.getcwd(),
            sys.path.copy(),
        )  # workers of an earlier run, in other places, are not used again
        workers = {"initializer": _start_worker, "initargs": places}
        # joblib writes no file, and does not use the folder: it accepts short paths in ASCII only.
        options = {"return_as": "generator", "max_nbytes": None, "temp_folder": os.sep, **workers}
        pool = Parallel(min(self.parallel or cpu_count(), len(shards)), **options)
        ignored = warnings.catch_warnings(
            action="ignore"
        )  # joblib warns of tasks that Ctrl-C leaves undone
        # The files stay after a kill, so they belong into the private store.
        with TemporaryDirectory(dir=work) as files, Bar(trainer.progress) as shown, ignored:
            public = _in_file(
                Path(files, "public.npy"), _features(splits.public.x[splits.to_label])
            )

            def task(teacher: int) -> Any:
                shard = splits.private.x[shards[teacher]]
                x = _in_file(Path(files, f"{teacher}.npy"), _features(shard))
                return delayed(_teach)(
                    self.estimator, x, splits.private.y[shards[teacher]], public, self.seed, teacher
                )

            with closing(pool(map(task, todo))) as answers:
                for teacher, labels in shown.track(
                    zip(todo, answers, strict=True), len(todo), description="Teachers"
                ):
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
    with warnings.catch_warnings(action="ignore"):
        try:
            fitted = _copy(estimator, state)
            fitted.fit(x, labels)
            return np.asarray(
                classes[np.asarray(fitted.predict(public)).astype(np.int64).reshape(-1)]
            )
        except Exception as error:  # classifiers raise many types, and quote private values unless they name a parameter
            parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
            for name in (name for name in parameters if f"'{name}' parameter" in str(error)):
                allowed = f"cannot be used ({in_a_line(error)})"
                raise InputError(f"teachers.estimator.{name}", parameters[name], allowed) from error
            allowed = f"must be able to learn from the {len(y)} records of teacher {teacher} ({type(error).__name__})"
            raise InputError("teachers.estimator", type(estimator).__name__, allowed) from error


def _in_file(path: Path, array: AnyArray) -> AnyArray:
    """Return an array that processes read from the file `path`, where it is large."""
    if array.nbytes < _LARGE:
        return array
    np.save(path, array)
    mapped: AnyArray = np.load(str(path), mmap_mode="r")
    return mapped


def _copy(estimator: Any, state: int) -> Any:
    """Return an unfitted copy with every random_state set, and with one thread where n_jobs is not
    given.
    """
    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    from sklearn.base import clone

    parameters = estimator.get_params()
    own = {name: state for name in parameters if name.split("__")[-1] == "random_state"}
    own |= {
        name: 1
        for name, value in parameters.items()
        if name.split("__")[-1] == "n_jobs" and value is None
    }
    return clone(estimator).set_params(**own)


def _features(x: AnyArray) -> AnyArray:
    """Return rows of features; image bytes become floats from 0 to 1."""
    rows = x.reshape(len(x), -1)
    return rows.astype(np.float32) / 255 if x.dtype == np.uint8 else rows
