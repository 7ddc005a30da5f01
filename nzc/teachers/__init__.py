"""Teachers turn private records into votes on public rows.

records → shards  `sharded.py`: `partition` gives each teacher its own records
shards → fits     `ensemble.py`: networks, by `engine.py`, which trains each alone (`teacher.py`) or
                  all as one network (`stacked.py`); `sklearn.py`: classifiers in processes
fits → votes      predictions stay in the store, and `sharded.py` counts them

Without fits, a file has the votes (`votes.py`).
nzc/protocols/votes.py has the interface, and says what becomes of the votes.
"""

from nzc.protocols.task import Task, VoteHistograms
from nzc.protocols.votes import Teachers

__all__ = ["Task", "Teachers", "VoteHistograms"]
