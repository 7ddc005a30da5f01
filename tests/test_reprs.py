"""What `print` shows of objects that hold votes, private rows or laws at private votes: none of
their numbers.
"""

import gc
import pkgutil
import re
from importlib import import_module

import numpy as np
from conftest import parametrize

import nzc
from nzc.protocols.task import VoteHistograms

SECRET = 7_654_000
#: Annotations of values that hold arrays; a function that takes or returns arrays holds none.
ARRAY = re.compile(r"(?!collections.abc.Callable|typing.Callable).*(ndarray|Tensor)")


def _holders() -> dict[type, list[str]]:
    """Return the dataclasses and named tuples of nzc with fields of arrays, and these fields."""
    holders = {}
    for module in pkgutil.walk_packages(nzc.__path__, "nzc."):
        if module.name.endswith("__main__"):
            continue
        for kind in vars(import_module(module.name)).values():
            if not isinstance(kind, type) or kind.__module__ != module.name:
                continue
            fields = getattr(kind, "__dataclass_fields__", {})
            types = {name: field.type for name, field in fields.items()}
            if hasattr(kind, "_fields"):
                types = kind.__annotations__
            arrays = [name for name, annotation in types.items() if ARRAY.match(str(annotation))]
            if arrays:
                holders[kind] = arrays
    return holders


HOLDERS = {kind.__name__: (kind, arrays) for kind, arrays in _holders().items()}


def test_objects_with_arrays_are_found() -> None:
    assert HOLDERS.keys() >= {"Cost", "Pairs", "HistogramBatch", "VoteHistograms", "Split"}


@parametrize("name", HOLDERS)
def test_no_array_of_an_object_is_printed(name: str) -> None:
    secret = np.array([[SECRET]])
    kind, arrays = HOLDERS[name]
    if issubclass(kind, tuple):
        assert str(SECRET) not in repr(kind(*[secret] * len(kind._fields)))
        return
    thing = object.__new__(kind)
    for field in kind.__dataclass_fields__:
        object.__setattr__(thing, field, secret if field in arrays else None)
    assert str(SECRET) not in repr(thing)


def test_no_object_of_a_release_prints_votes() -> None:
    votes = np.array([[SECRET, 321], [321, SECRET]])
    histograms = VoteHistograms(votes, votes.sum(), np.zeros(2, int))
    mechanism = nzc.Confident(threshold=5, sigma1=2, sigma=1)
    labels = mechanism.release(histograms.votes, np.random.default_rng(0))
    cost = mechanism.cost(histograms.votes, labels)
    laws = list(cost.exact[0].laws())
    assert cost.epsilon(1e-5).exact is not None and laws
    alive = [thing for thing in gc.get_objects() if str(type(thing).__module__).startswith("nzc.")]
    assert {id(cost), id(histograms)} <= {id(thing) for thing in alive}
    for thing in alive:
        assert str(SECRET) not in repr(thing), type(thing)
