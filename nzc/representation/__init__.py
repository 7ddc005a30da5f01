"""Public representations: a space for all rows that is learned from the public rows, without labels."""

from nzc.representation.base import Encoder, Representation

__all__ = ["Encoder", "Representation"]
