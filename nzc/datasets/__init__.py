"""Datasets, each with its private, public and test roles: one file a dataset."""

from nzc.datasets.roles import UNKNOWN, Dataset, Roles, Split, Standard

__all__ = ["UNKNOWN", "Dataset", "Roles", "Split", "Standard"]
