"""Teachers: what turns private shards into votes on public rows."""

from nzc.teachers.base import Teachers, VoteHistograms

__all__ = ["Teachers", "VoteHistograms"]
