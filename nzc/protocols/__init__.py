"""Protocols, one a file: each is a way to learn from private records, from check to release.

`votes.py`   teachers vote on public rows, and a noisy argmax of the votes is released
`cells.py`   records vote themselves, each for the asked row that it is nearest to
`sums.py`    records add up as vectors, and the sums are released with noise
`truth.py`   the true labels: no privacy, the papers' upper baseline
`dp_sgd.py`  DP-SGD learns from the records at the same ε, to compare with

`base.py` is the interface, and `task.py` what there is to ask; docs/extending.md shows how to write
one of your own. What becomes of released numbers costs nothing further: `smoothing.py` turns noisy
counts into probabilities, `regression.py` noisy sums into a model. `vectors.py` bounds what a
record adds to a sum, and `query_selection.py` chooses the rows to ask.
"""

from nzc.protocols.base import Data, Protocol, Released
from nzc.protocols.task import Task

__all__ = ["Data", "Protocol", "Released", "Task"]
