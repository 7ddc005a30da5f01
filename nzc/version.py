"""The version of nzc that is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("nzc")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"
