"""What a run found, and how it reads: result.json, tables, and the page of a run or a sweep."""

from nzc.report.report import Report, Round
from nzc.report.words import EPSILONS, heading, is_share, number, percent, show

__all__ = ["EPSILONS", "Report", "Round", "heading", "is_share", "number", "percent", "show"]
