"""Public representations: a space for all rows that is learned from the public rows, without labels."""

from nzc.representation.base import Encoder, Placement, Representation

__all__ = ["Encoder", "Placement", "Representation"]
