"""The student as MLflow serves it: a record that it cannot take is the client's error, and the
answer says why.
"""

from typing import Any

import pandas as pd
from mlflow.exceptions import MlflowException

from nzc.students.exported import Student


class Served(Student):
    """A student that refuses unknown columns: a misspelt one would otherwise count as missing, in
    silence.
    """

    def predict(self, records: Any, params: Any = None) -> pd.DataFrame:
        try:
            if self.encoder is not None:
                records = pd.DataFrame(records)
                known = [column.name for column in self.encoder.columns]
                if wrong := sorted(
                    {*map(str, records)} - {*known, *self.encoder.unused, self.about["id"]}
                ):
                    raise ValueError(
                        f"there is no column {', '.join(wrong)}; the columns are {', '.join(known)}"
                    )
            return super().predict(records)
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error


def _load_pyfunc(path: str) -> Student:
    """Return the student; MLflow calls this."""
    return Served(path)
