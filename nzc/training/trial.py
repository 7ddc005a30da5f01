"""A training step on made-up rows, before anything is trained: what cannot train is refused."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from nzc.validation import InputError, in_a_line


@contextmanager
def trial(key: str, value: object, allowed: str) -> Iterator[None]:
    """Turn any error of this context into an InputError of `key`; global generators stay."""
    import torch

    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings(action="ignore"):
            yield
    except InputError:
        raise
    except Exception as error:  # layers, optimisers and parts of users raise many types
        name = getattr(getattr(value, "func", value), "__name__", value)
        raise InputError(key, name, f"{allowed} ({in_a_line(error, 200)})") from error
