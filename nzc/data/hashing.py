"""Hashes: a record's or group's name as a number, and draws that follow from that number alone."""

from hashlib import blake2b
from typing import Any

import numpy as np

from nzc.types import AnyArray, Ints

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def splitmix64(x: AnyArray) -> AnyArray:
    """Return splitmix64 of each uint64 (Steele, Lea and Flood 2014): it allows random access."""
    x = x + GOLDEN
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x


def keys_of(names: AnyArray) -> Ints:
    """Return the key of each name [names]: a hash of its text. So 7, 7.0 and "7" are one name.

    Two of a million different names share a key with a probability of 3e-8.
    """
    hashes = b"".join(blake2b(_text(name), digest_size=8).digest() for name in names.tolist())
    return np.frombuffer(hashes, "<i8").astype(np.int64)


def texts_of(names: AnyArray) -> AnyArray:
    """Return each name [names] as the text that `keys_of` hashes."""
    texts = [_text(name).decode("utf-8", "replace") for name in names.tolist()]
    return np.array(texts, dtype=object)


def _text(name: Any) -> bytes:
    if isinstance(name, bytes):
        return name
    if isinstance(name, bool) or (isinstance(name, float) and name.is_integer()):
        name = int(name)
    return str(name).encode("utf-8", "surrogatepass")


def draw_by_key(keys: Ints, *seed: int) -> AnyArray:
    """Return a uniform uint64 for each key [keys]: key and seed alone decide it."""
    start = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return splitmix64(splitmix64(keys.astype(np.uint64)) + start)
