"""The jobs of a sweep."""

import os
import re
import time
from pathlib import Path

from nzc.storage.files import make_own
from nzc.sweeps.jobs import JOBS, jobs_left, write_jobs


def test_a_sweep_says_how_much_is_left(tmp_path: Path) -> None:
    """Two of four jobs have ended after a minute, so the others take another one."""
    write_jobs(tmp_path, [{"row": {}, "overrides": [], "folder": name} for name in "abcd"])
    for name in ("a/result.json", "b/error.txt", "c/student.csv"):
        make_own(tmp_path / name[0])
        (tmp_path / name).touch()
    begun = time.time() - 60
    os.utime(tmp_path / JOBS, (begun, begun))
    (line,) = jobs_left(tmp_path)
    assert re.fullmatch("2 of 4 jobs done, about 6. s left", line)
