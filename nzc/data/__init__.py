"""Datasets, each divided into a private, a public and a test split. One dataset a file."""

from nzc.data.splits import UNKNOWN, Dataset, DataSplits, Split, Standardizer

__all__ = ["UNKNOWN", "DataSplits", "Dataset", "Split", "Standardizer"]
