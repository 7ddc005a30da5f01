"""Any scikit-learn classifier as teacher, fitted on disjoint shards in parallel processes. Never imports torch."""

import re
import warnings
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from nzc._bar import Bar
from nzc._types import AnyArray, Floats, Ints
from nzc.datasets import Roles
from nzc.errors import InputError, in_a_line, reason
from nzc.store import Store
from nzc.store.store import code_digest, save, sift
from nzc.teachers.sharded import Sharded
from nzc.training import Training


@dataclass(frozen=True, kw_only=True)
class Sklearn(Sharded):
    """`count` clones of one classifier. Images are flattened to floats from 0 to 1.

    Every `random_state` of the classifier, nested ones included, follows from (seed, teacher). A shard of one class
    makes a teacher that always votes for it: most classifiers refuse to learn that.
    """

    estimator: Any

    def check_learner(self) -> None:
        _check_estimator(self.estimator)

    def train(self, roles: Roles | None, store: Store, training: Training) -> AnyArray:
        assert roles is not None
        request = {
            "data": roles.digest,
            "code": code_digest([Path(__file__), Path(__file__).with_name("sharded.py")]),
            "estimator": _described(self.estimator),
            "count": self.count,
            "seed": self.seed,
            "stratify": self.stratify,
        }
        made = store.fetch("predictions", request, lambda work: self._fit(roles, work, training.progress))
        return made["predictions"]

    def _fit(self, roles: Roles, work: Path, progress: bool = False) -> dict[str, AnyArray]:
        """What `work` holds already is not fitted again."""
        from joblib import Parallel, cpu_count, delayed

        sift(work)
        files = [work / f"{teacher}.npy" for teacher in range(self.count)]
        missing = [teacher for teacher, file in enumerate(files) if not file.is_file()]
        shards, public = self.shards(roles), _features(roles.public.x)
        pool = Parallel(min(self.parallel or cpu_count(), self.count), return_as="generator")
        bar = Bar("Teachers", progress)
        try:
            bar.start(len(missing))
            tasks = (
                delayed(_teach)(
                    self.estimator,
                    _features(roles.private.x[shards[i]]),
                    roles.private.y[shards[i]],
                    public,
                    [self.seed, i],
                )
                for i in missing
            )
            with warnings.catch_warnings(), closing(pool(tasks)) as answers:
                warnings.simplefilter("ignore")  # joblib's word on tasks that a Ctrl-C leaves undone
                for i, labels in zip(missing, answers, strict=True):
                    save(files[i], labels.astype(np.min_scalar_type(roles.classes - 1)))
                    bar.advance()
        finally:
            bar.stop()
        return {"predictions": np.stack([np.load(file) for file in files])}


def _teach(estimator: Any, x: Floats, y: Ints, public: Floats, seed: list[int]) -> Ints:
    """One teacher, in a process of its own: its labels of the public rows, [queries]."""
    from sklearn.base import clone

    if (y == y[0]).all():
        return np.full(len(public), y[0])
    state = int(np.random.SeedSequence(seed).generate_state(1)[0])
    names = [name for name in estimator.get_params() if name.split("__")[-1] == "random_state"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fitted = clone(estimator).set_params(**dict.fromkeys(names, state)).fit(x, y)
            labels: Ints = fitted.predict(public)
        except (TypeError, ValueError) as error:
            raise InputError("teachers.estimator", type(estimator).__name__, f"must be able to learn from the {len(y)} "
                             f"records of teacher {seed[1]} ({reason(error)})") from error  # fmt: skip
    return labels


def _features(x: AnyArray) -> AnyArray:
    """Rows of floats; bytes of images become 0 to 1, as networks see them."""
    rows = x.reshape(len(x), -1)
    return rows.astype(np.float32) / 255 if x.dtype == np.uint8 else rows


def _check_estimator(estimator: Any) -> None:
    """Is it a classifier, and are its parameters what scikit-learn allows?"""
    from sklearn.base import BaseEstimator, is_classifier

    if not isinstance(estimator, BaseEstimator) or not is_classifier(estimator):
        name = getattr(estimator, "_target_", None) or type(estimator).__name__
        raise InputError("teachers.estimator", name, "must be a classifier of scikit-learn, or one made like it")
    try:
        estimator._validate_params()
    except ValueError as error:
        said = in_a_line(error)
        found = re.match(r"The '(\w+)' parameter of \S+ (must .*?)\.? Got .* instead\.?$", said)
        if found is None:
            raise InputError("teachers.estimator", type(estimator).__name__, said) from error
        key, allowed = found.groups()
        raise InputError(f"teachers.estimator.{key}", getattr(estimator, key, "?"), allowed) from error


def _described(value: Any) -> Any:
    """A value in JSON's types, told by what it holds: an estimator by class, version and what differs from defaults."""
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, list | tuple):
        return [_described(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _described(item) for key, item in value.items()}
    if hasattr(value, "get_params") and not isinstance(value, type):
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        usual = {key: _described(it.default) for key, it in signature(type(value)).parameters.items()}
        told = {key: _described(item) for key, item in value.get_params(deep=False).items()}
        changed = {key: item for key, item in told.items() if key not in usual or item != usual[key]}
        return {"class": name, "version": getattr(import_module(name.split(".")[0]), "__version__", None), **changed}
    import joblib

    return f"{getattr(value, '__name__', type(value).__name__)}:{joblib.hash(value)}"
