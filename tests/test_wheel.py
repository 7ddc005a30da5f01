"""A wheel built from the tree carries conf/, sweeps/ and the page, and runs from an empty folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

from nzc.app.config import HOME


def test_a_wheel_runs_from_an_empty_folder(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path / "wheel"), str(HOME)]
    subprocess.run(build, check=True, timeout=300)
    site, here = tmp_path / "site", tmp_path / "empty"
    here.mkdir()
    with zipfile.ZipFile(next((tmp_path / "wheel").glob("*.whl"))) as wheel:
        wheel.extractall(site)
    start = f"import sys; sys.path.insert(0, {str(site)!r}); import nzc.app.config; print(nzc.app.config.HOME)\n"
    script = f"{start}from nzc.app.main import main; main()"
    command = [sys.executable, "-c", script, "recipe=papers", "student=none", "teachers.count=3", "tracking=none"]
    ran = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(site / "nzc"))
    (result,) = here.glob("outputs/*/*/result.json")
    page = [sys.executable, "-c", script, "report", str(result.parent)]
    subprocess.run(page, cwd=here, capture_output=True, timeout=300, check=True)
    assert (result.parent / "report.html").is_file()
    sweep = subprocess.run(
        [*command[:3], "+sweeps=foo"], cwd=here, capture_output=True, text=True, timeout=300, check=False
    )
    assert "nzc_table1_mnist" in sweep.stderr
