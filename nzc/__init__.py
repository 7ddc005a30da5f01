"""Learn from private data with teacher ensembles, and say truthfully what it cost."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("nzc")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
