"""The sweeper that reads `sweep.rows`. It stands here because Hydra takes plugins from this package only."""

import json
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.types import Override

from nzc.question import rows_of
from nzc.report.folder import ASKED


class RowSweeper(BasicSweeper):
    """Hydra's grid sweeper, with `sweep.rows`: every row's overrides with every point of the grid."""

    def split_arguments(self, overrides: list[Override], max_batch_size: int | None) -> list[list[list[str]]]:  # type: ignore[override]
        last = {override.get_key_element(): override for override in overrides}  # the command line's word on a key
        grid = [point for batch in BasicSweeper.split_arguments(list(last.values()), None) for point in batch]
        rows = [row["set"] for row in rows_of(self.config)] or [[]]
        jobs = [[*_without(point, row), *row] for point in grid for row in rows]
        (Path(self.config.hydra.sweep.dir) / ASKED).write_text(json.dumps(jobs))
        return [list(batch) for batch in self.split_overrides_to_chunks(jobs, max_batch_size)]


def _without(point: list[str], row: list[str]) -> list[str]:
    """The point, less what the row sets itself."""
    taken = {override.split("=", 1)[0] for override in row}
    return [override for override in point if override.split("=", 1)[0] not in taken]
