"""Names of what ran: results, tables and statements take them from the objects, not from the files that were chosen."""

import re
from types import NoneType

from nzc.data import Dataset
from nzc.data.torchvision import MNIST, Torchvision
from nzc.mechanisms import NoisyArgmax, NoisyCounts
from nzc.mechanisms.noise import ExponentialNoise, GaussianNoise, GumbelNoise, LaplaceNoise, NoNoise
from nzc.mechanisms.screen import InteractiveScreen, StabilityScreen, ThresholdScreen
from nzc.mechanisms.sparse_vector import SparseScreen
from nzc.students import Student

#: The papers' names of parts: the noise, whether there is a boost, and the screen.
_AGGREGATORS: dict[tuple[type, bool, type], str] = {
    (NoNoise, False, NoneType): "plurality",
    (LaplaceNoise, False, NoneType): "lnmax",
    (GaussianNoise, False, NoneType): "gnmax",
    (GumbelNoise, False, NoneType): "gumbel",
    (ExponentialNoise, False, NoneType): "permute_and_flip",
    (LaplaceNoise, True, NoneType): "nzc",
    (GaussianNoise, True, NoneType): "nzc_gaussian",
    (GaussianNoise, False, ThresholdScreen): "confident",
    (GaussianNoise, False, InteractiveScreen): "interactive",
    (NoNoise, False, StabilityScreen): "stable",
    (NoNoise, False, SparseScreen): "sparse_stable",
}
#: Students whose name is not their class in snake case.
_STUDENTS = {"GANSSL": "gan_ssl", "SoftMatch": "softmatch"}


def name_of(part: Dataset | NoisyArgmax | Student | None) -> str:
    """Return the name of a dataset, aggregator or student: nzc's own, or the class of the user's in snake case."""
    if part is None:
        return "none"
    if type(part) is NoisyCounts:
        return "counts" if isinstance(part.noise, LaplaceNoise) else "counts_gaussian"
    if type(part) is NoisyArgmax:  # the papers' name of the parts together, or else the names of all parts
        noise, screen = type(part.noise), type(part.screen)
        boosted = part.boost.c != 0 or part.boost.shift != 1
        own = _AGGREGATORS.get((noise, False, NoneType), _snake_case(noise.__name__))
        parts = [own, *["boost"] * boosted, *([] if part.screen is None else [_snake_case(screen.__name__)])]
        return _AGGREGATORS.get((noise, boosted, screen), "_".join(parts))
    if isinstance(part, Torchvision) and type(part) in (MNIST, Torchvision):
        return _snake_case(part.kind)
    return _STUDENTS.get(name := type(part).__name__, _snake_case(name))


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
