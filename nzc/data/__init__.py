"""Datasets, each divided into a private, a public and a test split. One dataset a file."""

from nzc.data.splits import LABEL, UNKNOWN, Dataset, DataSplits, Embedding, Records, Split, Units
from nzc.data.standardizer import Standardizer

__all__ = [
    "LABEL",
    "UNKNOWN",
    "DataSplits",
    "Dataset",
    "Embedding",
    "Records",
    "Split",
    "Standardizer",
    "Units",
]
