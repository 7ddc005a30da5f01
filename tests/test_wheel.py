"""A wheel built from the tree carries conf/, sweeps/ and the page, and runs from an empty folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

from nzc.app.config import HOME

SCRIPT = """
import sys; sys.path.insert(0, sys.argv.pop(1)); import nzc.app.config; print(nzc.app.config.HOME)
from nzc.app.main import main; main()
"""


def test_a_wheel_runs_from_an_empty_folder(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path / "wheel"), str(HOME)]
    subprocess.run(build, check=True, timeout=300)
    site, here = tmp_path / "site", tmp_path / "empty"
    here.mkdir()
    with zipfile.ZipFile(next((tmp_path / "wheel").glob("*.whl"))) as wheel:
        wheel.extractall(site)

    def nzc(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", SCRIPT, str(site), *arguments]
        return subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=300, check=False)

    forest = ["teachers=forest", "recipe=papers", "student=none", "teachers.count=3", "tracking=none", "figures=false"]
    ran = nzc("--multirun", "seed=0", *forest)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(site / "nzc"))
    assert list(here.glob("outputs/sweeps/*/*/0/result.json")) and list(here.glob("outputs/sweeps/*/*/report.html"))
    assert "nzc_table1_mnist" in nzc("+sweeps=foo").stderr
