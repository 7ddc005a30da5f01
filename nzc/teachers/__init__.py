"""Teachers turn private records into votes on public rows.

records → shards  `sharded.py`: `partition` gives each teacher its own records
shards → fits     `ensemble.py`: networks, by `engine.py`, which trains each alone (`teacher.py`) or
                  all as one network (`stacked.py`); `sklearn.py`: classifiers in processes
fits → votes      predictions stay in the store, and `sharded.py` counts them

Without fits, a file has the votes (`votes.py`).
`base.py` is the interface; what becomes of the votes says nzc/protocols/votes.py.
"""

from nzc.teachers.base import Task, Teachers, VoteHistograms

__all__ = ["Task", "Teachers", "VoteHistograms"]
