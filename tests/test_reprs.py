"""What `print` shows of objects that hold votes, private rows or laws at private votes: none of
their numbers.
"""

import gc
import pkgutil
import re
from importlib import import_module

import numpy as np

import nzc
from nzc.teachers.base import VoteHistograms

SECRET = 7_654_000
#: Annotations of values that hold arrays; a function that takes or returns arrays holds none.
ARRAY = re.compile(r"(?!collections.abc.Callable|typing.Callable).*(ndarray|Tensor)")


def _holders() -> dict[type, list[str]]:
    """Return the dataclasses and named tuples of nzc that have fields of arrays, and these fields."""
    holders = {}
    for name in [module.name for module in pkgutil.walk_packages(nzc.__path__, "nzc.")]:
        for kind in vars(import_module(name)).values() if not name.endswith("__main__") else ():
            if isinstance(kind, type) and kind.__module__ == name:
                types = {
                    field.name: field.type
                    for field in getattr(kind, "__dataclass_fields__", {}).values()
                }
                types |= kind.__annotations__ if hasattr(kind, "_fields") else {}
                arrays = [field for field, of in types.items() if ARRAY.match(str(of))]
                holders |= {kind: arrays} if arrays else {}
    return holders


def test_no_array_of_an_object_is_printed() -> None:
    secret, holders = np.array([[SECRET]]), _holders()
    assert {"Cost", "Pairs", "HistogramBatch", "VoteHistograms", "Split"} <= {
        kind.__name__ for kind in holders
    }
    printed = []
    for kind, arrays in holders.items():
        is_tuple = issubclass(kind, tuple)
        thing = (
            tuple.__new__(kind, [secret] * len(kind._fields)) if is_tuple else object.__new__(kind)
        )
        for name in getattr(kind, "__dataclass_fields__", ()):
            object.__setattr__(thing, name, secret if name in arrays else None)
        printed += [kind.__qualname__] if str(SECRET) in repr(thing) else []
    assert not printed, printed


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
    assert "\n" not in str(cost) and len(str(cost)) < 300
