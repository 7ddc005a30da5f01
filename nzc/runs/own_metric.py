"""The user's own metrics: any function of true labels and predictions, by any library."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from nzc.types import AnyArray, Floats, Ints
from nzc.validation import InputError, in_a_line

#: Parameters that get probabilities.
_PROBABILITIES = ("y_score", "y_prob", "y_proba", "pred_decision", "preds")
#: Parameters that get predictions, which may stand before the true labels.
_PREDICTIONS = (*_PROBABILITIES, "y_pred", "predictions", "predicted", "labels_pred")
#: Functions of scikit-learn whose y_pred are probabilities.
_OF_PROBABILITIES = ("log_loss", "d2_log_loss_score")


@dataclass(frozen=True)
class OwnMetric:
    """One entry of `metrics`: a figure of merit of the student on the test split.

    It gets the true labels [rows], from 0 to classes - 1, and the student's labels [rows] or, by
    the name of the parameter, its probabilities [rows, classes]: of two classes that of class 1
    [rows], unless `num_classes` is set. torchmetrics, known by its first parameter `preds`, gets
    probabilities and labels as tensors, in this order.

    part   the function, or the class, of which every evaluation makes a new object: it may keep
           what it has seen
    """

    name: str
    target: str  # as typed
    part: "partial[Any]"

    def __call__(self, truth: Ints, predicted: Ints, probs: Floats) -> float:
        """Return the metric of labels [rows] and probabilities [rows, classes].

        It may raise any error.
        """
        metric = self.part() if isinstance(self.part.func, type) else self.part
        first, second, *_ = [*_parameters(metric), "", ""]

        prediction: AnyArray = predicted
        if self._takes_probabilities(first, second):
            two_classes = probs.shape[1] == 2 and "num_classes" not in self.part.keywords
            prediction = probs[:, 1] if two_classes else probs

        arguments: list[Any] = [truth.copy(), prediction.copy()]  # a metric may sort them
        if first in _PREDICTIONS:
            arguments.reverse()
        if first == "preds":
            import torch

            arguments = [torch.from_numpy(argument) for argument in arguments]
        with warnings.catch_warnings(action="ignore"):  # of classes that are never predicted, say
            return _number(metric(*arguments))

    def _takes_probabilities(self, first: str, second: str) -> bool:
        """Return whether it takes probabilities, by its first two parameters."""
        function = self.part.func
        if function.__module__.startswith("sklearn.") and function.__name__ in _OF_PROBABILITIES:
            return True
        return first in _PROBABILITIES or second in _PROBABILITIES

    def check(self, truth: Ints, classes: int) -> None:
        """Raise InputError where it has no number for the test labels as their own prediction."""
        if not len(truth):  # no row of the test split has a label
            truth = np.arange(2 * classes) % classes
        try:
            self(truth, truth, np.eye(classes)[truth])
        except Exception as error:  # metrics raise many types
            raise InputError(
                f"metrics.{self.name}",
                self.target,
                "must give one number where the test labels are their own prediction "
                f"({_reason(error)})",
            ) from error


def own_metrics(
    metrics: Sequence[OwnMetric], truth: Ints, predicted: Ints, probs: Floats
) -> tuple[dict[str, float | None], list[str]]:
    """Return the metrics by name, None where one fails or is not finite, and lines that say so."""
    values: dict[str, float | None] = {}
    lines = []
    for metric in metrics:
        values[metric.name] = None
        try:
            value = metric(truth, predicted, probs)
            reason = f"it is {value}"
        except Exception as error:  # the run has cost privacy by now, so it must not be lost
            value = math.nan
            reason = _reason(error)
        if math.isfinite(value):
            values[metric.name] = value
        else:
            lines.append(f"metrics.{metric.name} ({metric.target}) is not known: {reason}")
    return values, lines


def _parameters(metric: Any) -> list[str]:
    """Return the names of its parameters, of torchmetrics' classes those of `update`."""
    try:
        return list(signature(getattr(metric, "update", metric)).parameters)
    except ValueError:  # a function that is compiled
        return []


def _number(value: Any) -> float:
    """Return a number of Python, numpy or torch. TypeError: it is none, or several."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise TypeError(f"it returns {type(value).__name__} of shape {array.shape}, not a number")
    return float(array.item())


def _reason(error: Exception) -> str:
    return in_a_line(f"{type(error).__name__}: {error}", 200)
