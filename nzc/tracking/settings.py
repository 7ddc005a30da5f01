"""MLflow as tracker. What talks to MLflow is imported when a run is recorded: importing MLflow
takes seconds.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nzc.tracking.destination import USUAL_URI, Destination, artifacts_of
from nzc.tracking.record import Tracker
from nzc.validation import one_line

if TYPE_CHECKING:
    from nzc.tracking.mlflow import Recorder


@dataclass
class MLflow(Destination, Tracker):
    """Records at a destination."""

    @cached_property
    def recorder(self) -> "Recorder":
        """What talks to MLflow; made when it is first needed, so that wrong input leaves no
        database behind.
        """
        from nzc.tracking.mlflow import Recorder

        self.require_database()
        return Recorder(self)

    def check(self, experiment: str) -> None:
        """Raise InputError where runs can never be recorded. A local database is opened by MLflow
        later.

        What MLflow may say of it then, such as that another version made it, is an outage.
        """
        self._name_ignored_variables(experiment)
        if self.register is not None:
            self.recorder.check_model_name(self.register)
        if self.file is None:
            self.recorder.check_server(experiment)
            return
        self.require_database()
        if (kept := artifacts_of(self.file, experiment)) is not None:
            self.require_artifacts(experiment, kept)

    def open(self, record: Mapping[str, Any], parent: str | None) -> str:
        return self.recorder.open(record, parent)

    def follow(self, folder: Path) -> None:
        self.recorder.send_curves(folder)

    def close(self, folder: Path, record: Mapping[str, Any]) -> None:
        self.recorder.close(folder, record)

    def _name_ignored_variables(self, experiment: str) -> None:
        """Print which of MLflow's variables would lead this run elsewhere, and what the user can
        type instead.

        They are not followed: by default what is recorded is private, and only the configuration
        says where it goes.
        """
        address = os.environ.get("MLFLOW_TRACKING_URI")
        if self.is_usual and address and address not in (self.uri, USUAL_URI):
            typed = "type 'tracking.uri=${oc.env:MLFLOW_TRACKING_URI}' to record it there"
            line = f"MLFLOW_TRACKING_URI is set, but not followed: {self.uri} records this; {typed}"
            print(f"nzc: {one_line(line)}", file=sys.stderr)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if name and name != experiment:
            line = f"MLFLOW_EXPERIMENT_NAME is set, but not followed: the experiment of this dataset is {experiment}"
            print(f"nzc: {one_line(line)}", file=sys.stderr)
