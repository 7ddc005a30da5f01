"""The folder of a run, and its name."""

import re
from pathlib import Path

from conftest import (
    TRACKED,
    RunNzc,
    tracked_runs,
)

from nzc.runs.layout import short_name


def test_runs_are_named_by_what_was_typed_but_secrets(run_nzc: RunNzc, histograms: Path) -> None:
    unnamed = ["tracking.model=false", "paths.store=kept", "+objective=http://me:hunter2@there"]
    ran = run_nzc(*TRACKED, *unnamed)
    (run,) = tracked_runs()
    name = run.info.run_name
    assert name.startswith("teachers=votes student=none path=votes.npy objective=")
    assert "/runs?viewStateShareKey=nzc\n" in ran.out
    assert not re.search("hunter2|tracking|kept|dataset=", name) and len(name) <= 100
    typed = ["a=" + 100 * "x", "+hydra.job.x=1"]
    assert short_name(typed, "digits", "gnmax") == "… · digits · gnmax"
