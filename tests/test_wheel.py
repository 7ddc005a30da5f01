"""A wheel built from the tree carries conf/, sweeps/ and the page, and runs in an empty folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
from conftest import VOTES
from hatchling.builders.wheel import WheelBuilder

from nzc.app.config import HOME

SCRIPT = """
import sys; sys.path.insert(0, sys.argv[1])
from nzc.app.config import HOME
print(HOME, flush=True)
from nzc.app.main import main
for words in RUN, ["report", "run"], ["+sweeps=digit"]:
    sys.argv = ["nzc", *words]
    try: main()
    except SystemExit as stop: print(f"code {stop.code or 0}", flush=True)
    else: print("code 0", flush=True)
"""


def test_a_wheel_runs_from_an_empty_folder(tmp_path: Path) -> None:
    (path,) = WheelBuilder(str(HOME)).build(
        directory=str(tmp_path / "wheel"), versions=["standard"]
    )
    site = tmp_path / "site"
    here = tmp_path / "empty"
    here.mkdir()
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(site)
    np.save(here / "votes.npy", [[9, 1], [2, 8]])
    run = [*VOTES, "teachers.path=votes.npy", "tracking=none", "figures=false", "hydra.run.dir=run"]
    command = [sys.executable, "-c", SCRIPT.replace("RUN", str(run)), str(site)]
    ran = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=300, check=True)
    lines = ran.stdout.splitlines()
    assert Path(lines[0]).is_relative_to(site / "nzc")
    assert [line for line in lines if line.startswith("code ")] == ["code 0", "code 0", "code 2"], (
        ran.stderr
    )
    assert (here / "run/result.json").is_file() and (site / "nzc/sweeps/page.html").is_file()
    assert "did you mean +sweeps=digits?" in ran.stderr
