"""Teachers: what turns private shards into votes on public rows."""

from nzc.teachers.teachers import Ballots, Teachers

__all__ = ["Ballots", "Teachers"]
