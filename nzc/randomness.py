"""Whose dice: a seed's, so that an experiment can be repeated, or the operating system's, for what is published."""

import ctypes
import os
from ctypes import c_double, c_uint32, c_uint64, c_void_p
from functools import partial
from itertools import chain, repeat
from operator import mul, rshift
from struct import Struct
from typing import Any

import numpy as np

#: What `rng` may be.
SEEDED, SYSTEM = KINDS = ("seeded", "system")

_CALLS: dict[str, Any] = {"uint64": c_uint64, "uint32": c_uint32, "double": c_double, "raw": c_uint64}
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]


class _Bitgen(ctypes.Structure):
    """numpy's bitgen_t: the functions that a Generator calls for its bits."""

    _fields_ = (("state", c_void_p), *((f"next_{name}", c_void_p) for name in _CALLS))


class System(np.random.BitGenerator):
    """Every bit from the operating system's cryptographic generator, os.urandom, for np.random.Generator.

    None of numpy's own bit generators is made to withstand somebody who sees part of its output, however it was seeded.
    Here no draw says anything of another, and there is no seed or state by which the noise could be had again.
    What numpy makes of the bits stays as it is: doubles in steps of 2^-53, so that what is rarer than that a draw may
    never happen at all; no δ in use is that small.

    The iterators are C throughout, on purpose: were Python to run within a draw, a signal's exception could end a
    callback, and numpy would take a word of zeros.
    """

    def __init__(self) -> None:
        super().__init__(0)
        words = chain.from_iterable(map(Struct("=32Q").unpack, map(os.urandom, repeat(256))))
        doubles = map(mul, map(rshift, words, repeat(11)), repeat(2.0**-53))
        self._calls = {
            name: ctypes.CFUNCTYPE(kind, c_void_p)(partial(next, doubles if name == "double" else words))
            for name, kind in _CALLS.items()
        }
        struct = _Bitgen.from_address(_pointer(self.capsule, b"BitGenerator"))
        for name, call in self._calls.items():
            setattr(struct, f"next_{name}", ctypes.cast(call, c_void_p))


def system() -> np.random.Generator:
    """A generator of the operating system's bits; to be used up where it was made, not carried into another process."""
    return np.random.Generator(System())
