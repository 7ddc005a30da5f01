"""Many machines: the launcher presets, a sweep on a real SLURM, and one ensemble over several
nodes.
"""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import TEACHERS, VOTES, Nzc, tracked_runs
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from mlflow import MlflowClient

from nzc.app.config import compose_run

PLUGINS = {"slurm": "submitit", "ray_cluster": "ray", "joblib": "joblib"}
NZC = [sys.executable, "-m", "nzc"]
RUN = [*NZC, *TEACHERS, "student=none"]


@pytest.mark.parametrize("launcher", PLUGINS)
def test_a_preset_builds_its_launcher_or_says_what_to_install(
    nzc: Nzc, histograms: Path, launcher: str
) -> None:
    plugin = PLUGINS[launcher]
    if importlib.util.find_spec(f"hydra_plugins.hydra_{plugin}_launcher") is None:
        ran = nzc(
            "--multirun",
            *VOTES,
            "teachers.path=votes.npy",
            f"hydra/launcher={launcher}",
            "seed=0,1",
        )
        assert (ran.code, len(ran.err.strip().splitlines())) == (2, 1)
        assert f'must be installed: pip install "nzc[{plugin}]"' in ran.err
        return
    cfg = compose_run([f"hydra/launcher={launcher}"])
    cfg.hydra.sweep.dir = "sweep"
    assert isinstance(Plugins.instance()._instantiate(cfg.hydra.launcher), Launcher)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a SLURM of two nodes on this machine."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    if os.geteuid() != 0 or not all(
        map(shutil.which, ("slurmctld", "slurmdbd", "mariadbd", "munged"))
    ):
        pytest.skip("needs root, and apt-get install slurm-wlm slurmdbd mariadb-server munge")
    script, folder = (
        Path(__file__).parents[1] / "slurm.sh",
        tmp_path_factory.mktemp("slurm") / "cluster",
    )
    for above in folder.parents[:3]:  # mariadbd is not root
        above.chmod(0o755)
    try:
        subprocess.run([script, "start", folder, "2"], check=True, timeout=300)
        yield os.environ | {"SLURM_CONF": f"{folder}/slurm.conf"}
    finally:
        subprocess.run([script, "stop", folder], check=True, timeout=60)


@pytest.mark.slow
def test_a_sweep_on_slurm_shows_what_was_cancelled_and_what_failed(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    rows = "teachers.epochs=1,0,100000,4", "queries=10"
    limits = [
        f"hydra.launcher.{limit}" for limit in ("cpus_per_task=1", "mem_gb=2", "timeout_min=15")
    ]
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    assert not tracked_runs(client)  # and the tables are made
    sweep = subprocess.Popen([*NZC, "--multirun", *RUN[3:], "hydra/launcher=slurm", *limits, *rows],
                             cwd=tmp_path, env=slurm, text=True, stderr=subprocess.PIPE)  # fmt: skip
    while not tracked_runs(client, "params.`teachers.epochs` = '100000'"):
        assert sweep.poll() is None
        time.sleep(1)
    subprocess.run(
        "scancel $(squeue -h -r -o %i -n nzc -t running | grep _2$)",
        shell=True,
        env=slurm,
        check=True,
    )
    (folder,) = tmp_path.glob("outputs/sweeps/*/*")
    _, lines = sweep.communicate(timeout=600)
    assert sweep.returncode == 2 and "2 of 4 jobs did not finish" in lines
    assert [(folder / str(job) / "result.json").is_file() for job in range(4)] == [
        True,
        False,
        False,
        True,
    ]
    table = (folder / "table.md").read_text()
    assert "CANCELLED" in table and "teachers.epochs=0: teachers.epochs=0: must be" in table
    assert (folder / "report.html").is_file()
    runs = tracked_runs(client)
    (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    children = [run for run in runs if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert sorted(run.info.status for run in children) == [
        "FAILED",
        "FINISHED",
        "FINISHED",
        "KILLED",
    ]
    assert parent.info.status == "FAILED"


@pytest.mark.slow
@pytest.mark.parametrize("by", ["environment", "slurm"])
def test_nodes_share_the_teachers(by: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The first of two nodes has the whole run; its votes are those of one node alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    together = [*RUN, "tracking=none", "trainer.num_nodes=2", "teachers.count=7"]
    (tmp_path / "two").mkdir()
    if by == "slurm":
        environment = request.getfixturevalue("slurm") | there
        started = [
            subprocess.Popen(
                ["srun", "-N2", "--ntasks-per-node=1", *together],
                cwd=tmp_path / "two",
                env=environment,
            )
        ]
    else:
        started = [
            subprocess.Popen(
                together, cwd=tmp_path / "two", env=os.environ | there | {"NODE_RANK": rank}
            )
            for rank in "01"
        ]
    assert [node.wait(timeout=400) for node in started] == [0] * len(started)
    (result,) = tmp_path.glob("two/outputs/*/*/result.json")
    assert len(list(tmp_path.glob("two/outputs/*/*"))) == 1
    subprocess.run([*RUN, "tracking=none", "teachers.count=7"], cwd=tmp_path, check=True)
    predictions = (
        next(folder.glob(".nzc/predictions/*.npz")) for folder in (tmp_path / "two", tmp_path)
    )
    first, second = (path.read_bytes() for path in predictions)
    assert first == second
    assert np.isfinite(json.loads(result.read_text())["epsilon"]["exact"])
