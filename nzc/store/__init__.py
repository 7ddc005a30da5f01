"""What is kept between runs: votes and predictions by the hash of everything that made them."""

from nzc.store.store import Store

__all__ = ["Store"]
