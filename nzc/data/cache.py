"""The dataset of the last run, kept for the next: the jobs of a sweep mostly share one."""

from nzc.data.splits import Dataset, DataSplits
from nzc.progress import lines
from nzc.validation import whole, within

_loaded: list[tuple[Dataset, DataSplits]] = []  # at most one


def load_data(dataset: Dataset) -> DataSplits:
    """Load a dataset, or return it where it was the last one that was loaded."""
    if not _is_loaded(dataset):
        with lines(lambda: "the data are still being read"), within("dataset"):
            _loaded[:] = [(dataset, dataset.read())]
    return _loaded[0][1]


def forget_data() -> None:
    """Let the next run read its dataset again: its files may have changed."""
    _loaded.clear()


def check_data(dataset: Dataset, queries: int | None) -> None:
    """Check the user's files, before teachers and students are imported, which takes seconds."""
    if _is_loaded(dataset):
        return
    with within("dataset"):
        rows = dataset.check()
    if rows is not None and queries is not None:
        whole("queries", queries, 1, rows, "(the public rows)")
    with within("dataset"):
        dataset.describe()


def _is_loaded(dataset: Dataset) -> bool:
    return bool(_loaded) and _loaded[0][0] == dataset
