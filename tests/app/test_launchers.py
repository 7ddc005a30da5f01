"""Many machines: the launcher presets, a sweep on a real SLURM, and one ensemble over several
nodes.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import FILE, TEACHERS, RunNzc, nowhere, parametrize, tracked_runs
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from mlflow import MlflowClient
from pytest import TempPathFactory

from nzc.app.config import compose_run

PLUGINS = {"slurm": "submitit", "ray_cluster": "ray", "joblib": "joblib"}
NZC = [sys.executable, "-m", "nzc"]
RUN = [*NZC, *TEACHERS, "student=none"]


@parametrize("launcher", PLUGINS)
def test_a_preset_builds_its_launcher_or_says_what_to_install(
    run_nzc: RunNzc, histograms: Path, launcher: str
) -> None:
    plugin = PLUGINS[launcher]
    if importlib.util.find_spec(f"hydra_plugins.hydra_{plugin}_launcher") is None:
        words = [*FILE, f"hydra/launcher={launcher}", "seed=0,1"]
        err = run_nzc("--multirun", *words, code=2).err
        assert err.count("\n") == 1 and f'pip install "nzc[{plugin}]"' in err
        return
    cfg = compose_run([f"hydra/launcher={launcher}"])
    cfg.hydra.sweep.dir = "sweep"
    assert isinstance(Plugins.instance()._instantiate(cfg.hydra.launcher), Launcher)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a SLURM of two nodes on this machine."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    programs = ("slurmctld", "slurmdbd", "mariadbd", "munged")
    if os.geteuid() != 0 or not all(map(shutil.which, programs)):
        pytest.skip("needs root, and apt-get install slurm-wlm slurmdbd mariadb-server munge")
    script = Path(__file__).parents[1] / "slurm.sh"
    folder = tmp_path_factory.mktemp("slurm") / "cluster"
    for above in folder.parents[:3]:  # mariadbd is not root
        above.chmod(0o755)
    try:
        subprocess.run([script, "start", folder, "2"], check=True, timeout=300)
        yield os.environ | {"SLURM_CONF": f"{folder}/slurm.conf"}
    finally:
        subprocess.run([script, "stop", folder], check=True, timeout=60)


@pytest.mark.slow
def test_a_sweep_on_slurm_shows_cancelled_and_failed_jobs(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    words = ["--multirun", *RUN[3:], "hydra/launcher=slurm", "queries=10"]
    words.append("teachers.epochs=1,0,100000,4")
    for limit in ("cpus_per_task=1", "mem_gb=2", "timeout_min=15"):
        words.append(f"hydra.launcher.{limit}")
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    assert not tracked_runs(client)  # and the tables are made
    sweep = subprocess.Popen(
        [*NZC, *words], cwd=tmp_path, env=slurm, text=True, stderr=subprocess.PIPE
    )
    while not tracked_runs(client, "params.`teachers.epochs` = '100000'"):
        assert sweep.poll() is None
        time.sleep(1)
    third = "scancel $(squeue -h -r -o %i -n nzc -t running | grep _2$)"
    subprocess.run(third, shell=True, env=slurm, check=True)
    (folder,) = tmp_path.glob("outputs/sweeps/*/*")
    _, lines = sweep.communicate(timeout=600)
    assert sweep.returncode == 2 and "2 of 4 jobs did not finish" in lines
    finished = [(folder / str(job) / "result.json").is_file() for job in range(4)]
    assert finished == [True, False, False, True]
    table = (folder / "table.md").read_text()
    assert "CANCELLED" in table and "teachers.epochs=0: " in table
    assert (folder / "report.html").is_file()
    runs = tracked_runs(client)
    assert len({run.data.tags.get("mlflow.parentRunId") for run in runs}) == 2  # none, and one
    statuses = sorted(run.info.status for run in runs)
    assert statuses == ["FAILED", "FAILED", "FINISHED", "FINISHED", "KILLED"]


@pytest.mark.slow
def test_nodes_share_the_teachers(tmp_path: Path) -> None:
    """The first of two nodes has the whole run; its votes are those of one node alone."""
    address, _, port = nowhere().removeprefix("http://").partition(":")
    environment = os.environ | {"MASTER_ADDR": address, "MASTER_PORT": port}
    words = [*RUN, "tracking=none", "teachers.count=7"]
    two = tmp_path / "two"
    two.mkdir()
    nodes = []
    for rank in "01":
        node = environment | {"NODE_RANK": rank}
        nodes.append(subprocess.Popen([*words, "trainer.num_nodes=2"], cwd=two, env=node))
    assert [node.wait(timeout=400) for node in nodes] == [0, 0]
    (result,) = two.glob("outputs/*/*/result.json")
    subprocess.run(words, cwd=tmp_path, check=True)
    (shared,) = two.glob(".nzc/predictions/*.npz")
    (alone,) = tmp_path.glob(".nzc/predictions/*.npz")
    assert shared.read_bytes() == alone.read_bytes()
    assert np.isfinite(json.loads(result.read_text())["epsilon"]["exact"])
