"""The student as MLflow serves it: it tells the client which record it cannot take, and why."""

from typing import Any

import pandas as pd
from mlflow.exceptions import MlflowException

from nzc.students.exported import ExportedStudent


class Served(ExportedStudent):
    """A student that refuses unknown columns: else a misspelt one would count as missing."""

    def predict(self, records: Any, params: Any = None) -> pd.DataFrame:
        try:
            if self.encoder is not None:
                records = pd.DataFrame(records)
                known = [column.name for column in self.encoder.columns]
                wrong = {*map(str, records)} - {*known, *self.encoder.unused, self.about["id"]}
                if wrong:
                    raise ValueError(
                        f"there is no column {', '.join(sorted(wrong))}; "
                        f"the columns are {', '.join(known)}"
                    )
            return super().predict(records)
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error


def _load_pyfunc(path: str) -> ExportedStudent:
    """Return the student; MLflow calls this."""
    return Served(path)
