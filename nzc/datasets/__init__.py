"""Datasets, each with its private, public and test roles: one file a dataset."""

from nzc.datasets.roles import Dataset, Roles, Split

__all__ = ["Dataset", "Roles", "Split"]
