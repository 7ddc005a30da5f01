"""What is kept between runs: votes and predictions by the hash of everything that made them, and the privacy ledger."""

from nzc.store.ledger import Ledger, Release
from nzc.store.store import Store

__all__ = ["Ledger", "Release", "Store"]
