"""Who the people are: names, shared ledgers, and the total of all folders published about them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import VOTES, Command, Nzc, tracked_runs
from mlflow import MlflowClient

pytestmark = pytest.mark.usefixtures("usual_umask")
TABLE = [
    "dataset=table", "dataset.public=public.csv", "dataset.label=back", "dataset.group=patient",
    "rng=system", "dataset.classes=[no,yes]", "recipe=tables", "student=none", "teachers.count=8",
    "queries=5", "trainer.progress=false",
]  # fmt: skip
FILE = [*VOTES, "teachers.path=votes.npy", "rng=system", "aggregator.sigma=40"]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Visits of 60 patients in all.csv, of 40 of them in some.csv, and public rows."""
    rows = np.arange(180)
    values = np.random.default_rng(0).normal(size=(180, 2))
    table = pd.DataFrame(values, columns=["a", "b"])
    table[["a", "b"]].sample(60, random_state=0).to_csv(tmp_path / "public.csv", index=False)
    table["patient"] = [f"P{row // 3}" for row in rows]
    table["back"] = np.where(table.a > 0, "yes", "no")
    table.to_csv(tmp_path / "all.csv", index=False)
    table[:120].to_csv(tmp_path / "some.csv", index=False)
    table["ward"] = [f"w{row % 90}" for row in rows]
    table.to_csv(tmp_path / "wards.csv", index=False)
    return tmp_path


def _epsilon(folder: str) -> dict[str, Any]:
    return dict(json.loads(Path(folder, "result.json").read_text())["epsilon"])


def _privacy(folder: str) -> dict[str, Any]:
    return dict(json.loads(Path(folder, "privacy.json").read_text()))


def test_a_name_joins_runs_folders_and_experiments(
    nzc: Nzc, command: Command, tables: Path
) -> None:
    """From a run that nobody has named to a total that is refused."""
    assert nzc(*TABLE, "dataset.private=all.csv", "hydra.run.dir=one").code == 0
    code, _, err = command("publish", "one", "out1")
    assert (code, err.count("\n")) == (2, 1) and err.startswith("nzc: --name=null: must ")
    assert command("publish", "one", "out1", "--name", "hospital")[0] == 0

    other = [*TABLE, "dataset.private=some.csv", "hydra.run.dir=two"]
    limited = [*other, "dataset.name=hospital", "budget.total=2"]
    assert nzc(*limited, "tracking=mlflow").code == 0
    client = MlflowClient(f"sqlite:///{tables}/mlflow.db")
    (run,) = tracked_runs(client)
    assert client.get_experiment(run.info.experiment_id).name == "hospital"

    code, out, _ = command("publish", "two", "out2")
    assert code == 0 and out.splitlines()[-1] == "out2"
    first, second = _privacy("out1"), _privacy("out2")
    epsilon = first["epsilon"]["published"] + second["epsilon"]["published"]
    total = {"folders": 2, "epsilon": pytest.approx(epsilon), "delta": 2e-5, "limit": 2}
    assert first["total"]["folders"] == 1 and second["total"] == total
    assert first["name"] == second["name"] == "hospital"
    assert str(second["total"]["epsilon"]) in Path("out2/README.md").read_text()

    late = nzc(*limited)
    assert (late.code, late.out) == (2, "") and "budget.total=2.0: must be at least" in late.err


def test_folders_that_protect_different_things_have_no_total(
    nzc: Nzc, command: Command, tables: Path
) -> None:
    """Patients and wards: the total of both is ∞ in folder, ledger and result, and a limit allows
    one of them only.
    """
    by_patient = [*TABLE, "dataset.private=wards.csv", "dataset.drop=[ward]"]
    by_ward = [*TABLE, "dataset.private=wards.csv", "dataset.drop=[patient]", "dataset.group=ward"]
    assert nzc(*by_patient, "hydra.run.dir=one").code == 0
    second = nzc(*by_ward, "hydra.run.dir=two")
    assert second.code == 0 and _epsilon("two")["ledger_released"] == "inf"
    for number, folder in enumerate(("one", "two"), 1):
        assert command("publish", folder, f"out{number}", "--name", "hospital")[0] == 0
    assert _privacy("out2")["total"]["epsilon"] == "inf"
    third = nzc(*by_patient, "dataset.name=hospital", "budget.total=100")
    assert (third.code, third.out) == (2, "")
    assert third.err.splitlines()[-1].startswith("nzc: budget.total=100")


def test_a_limit_binds_later_runs_that_state_none(
    nzc: Nzc, command: Command, histograms: Path
) -> None:
    run = [*FILE, "dataset.name=hospital"]
    assert nzc(*run, "budget.total=90", "hydra.run.dir=one").code == 0
    assert command("publish", "one", "out1")[0] == 0
    share = _epsilon("one")["published"]
    late = nzc(*run, f"budget.total={1.5 * share}", "hydra.run.dir=two")
    assert (late.code, late.out) == (2, "")  # a limit that is refused does not stand
    assert nzc(*run, f"budget.total={2.5 * share}", "hydra.run.dir=two").code == 0
    assert nzc(*run, "hydra.run.dir=three").code == 0  # the second run is not published yet
    assert command("publish", "three", "out3")[0] == 0
    assert _privacy("out3")["total"]["limit"] == 2.5 * share
    code, _, err = command("publish", "two", "out2")
    assert (code, err.count("\n")) == (2, 1) and err.startswith("nzc: budget.total=")
    assert nzc(*run, "hydra.run.dir=four").code == 2


def test_folders_of_a_team_share_a_ledger(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = [*FILE, "hydra.run.dir=run"]
    Path("team").mkdir()
    costs = []
    for folder, ledger, typed in (
        ("mine", "nowhere/ledger.db", ["paths.ledger=../ledger.db"]),
        ("yours", str(Path.cwd() / "team/ledger.db"), []),
    ):
        here = Path.cwd() / "team" / folder
        here.mkdir()
        (here / "votes.npy").write_bytes(histograms.read_bytes())
        monkeypatch.chdir(here)
        monkeypatch.setenv("NZC_LEDGER", ledger)
        assert nzc(*run, *typed).code == 0
        costs.append(_epsilon("run")["ledger_released"])
        assert not Path(".nzc/ledger.db").exists()
        monkeypatch.chdir(histograms.parent)
    assert costs[1] > 1.3 * costs[0]
    for folder in ("mine", "yours"):
        done = command("publish", f"team/{folder}/run", f"out {folder}", "--name", "hospital")
        assert done[0] == 0
    assert _privacy("out yours")["total"]["folders"] == 2
