"""Who the people are: names, shared ledgers, and the total of all folders that are published about
them.
"""

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
    "dataset=table",
    "dataset.public=public.csv",
    "dataset.label=back",
    "dataset.group=patient",
    "rng=system",
]
TABLE += [
    "dataset.classes=[no,yes]",
    "recipe=tables",
    "student=none",
    "teachers.count=8",
    "queries=5",
]
TABLE += ["trainer.progress=false"]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Visits of 60 patients in all.csv, of 40 of them in some.csv, and public rows."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(180, 2)), columns=["a", "b"])
    table = table.assign(
        patient=[f"P{row // 3}" for row in range(180)], back=np.where(table.a > 0, "yes", "no")
    )
    table.to_csv(tmp_path / "all.csv", index=False)
    table[:120].to_csv(tmp_path / "some.csv", index=False)
    table[["a", "b"]].sample(60, random_state=0).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def _epsilon(folder: str) -> dict[str, Any]:
    return dict(json.loads(Path(folder, "result.json").read_text())["epsilon"])


def _strangers(err: str) -> list[str]:
    return [line for line in err.splitlines() if "groups or ids" in line]


def test_a_name_joins_runs_folders_and_experiments(
    nzc: Nzc, command: Command, tables: Path
) -> None:
    """From a run that nobody has named to a total that is refused, with a line at each step."""
    first = nzc(*TABLE, "dataset.private=all.csv", "hydra.run.dir=one")
    assert first.code == 0 and not _strangers(first.err)
    code, _, err = command("publish", "one", "out1")
    assert (code, err.count("\n")) == (2, 1) and err.startswith("nzc: --name=null: must ")
    assert command("publish", "one", "out1", "--name", "hospital")[0] == 0

    other = [*TABLE, "dataset.private=some.csv", "hydra.run.dir=two"]
    unnamed = nzc(*other)
    (line,) = _strangers(unnamed.err)
    assert line.startswith("nzc: 100 % of") and line.endswith("dataset.name=hospital")
    assert not _strangers(
        nzc(*other, "tracking=mlflow", "tracking.private=false").err
    )  # it is not for all
    code, _, err = command("publish", "two", "out2")
    assert code == 2 and "--name hospital" in err
    named = nzc(*other, "dataset.name=hospital", "tracking=mlflow", "budget.total=2")
    assert named.code == 0 and not _strangers(named.err)
    runs = tracked_runs(client := MlflowClient(f"sqlite:///{tables}/mlflow.db"))
    assert [client.get_experiment(run.info.experiment_id).name for run in runs] == [
        "table",
        "hospital",
    ]

    code, out, _ = command("publish", "two", "out2")
    promises = [json.loads(Path(folder, "privacy.json").read_text()) for folder in ("out1", "out2")]
    epsilon = sum(promise["epsilon"]["published"] for promise in promises)
    assert code == 0 and out.splitlines()[-1] == "out2"
    assert promises[0]["total"]["folders"] == 1
    assert promises[1]["total"] == {
        "folders": 2,
        "epsilon": pytest.approx(epsilon),
        "delta": 2e-5,
        "limit": 2,
    }
    assert {promise["name"] for promise in promises} == {"hospital"}
    text = Path("out2/README.md").read_text()
    assert str(promises[1]["total"]["epsilon"]) in text and "2e-05" in text

    late = nzc(*other, "dataset.name=hospital", "budget.total=2")
    assert (late.code, late.out) == (2, "") and "budget.total=2.0: must be at least" in late.err


def test_folders_that_protect_different_things_have_no_total(
    nzc: Nzc, command: Command, tables: Path
) -> None:
    """Patients and wards: the total of both is ∞ in folder, ledger and result, and a limit allows
    one of them only.
    """
    table = pd.read_csv("all.csv").assign(ward=[f"w{row % 90}" for row in range(180)])
    table.to_csv("wards.csv", index=False)
    by_patient = [*TABLE, "dataset.private=wards.csv", "dataset.drop=[ward]", "hydra.run.dir=one"]
    by_ward = [*TABLE, "dataset.private=wards.csv", "dataset.drop=[patient]", "dataset.group=ward"]
    assert nzc(*by_patient).code == 0
    second = nzc(*by_ward, "hydra.run.dir=two")
    assert second.code == 0 and _epsilon("two")["ledger_released"] == "inf"
    assert "has now released labels" not in second.err
    for number, folder in enumerate(("one", "two"), 1):
        assert command("publish", folder, f"out{number}", "--name", "hospital")[0] == 0
    assert json.loads(Path("out2/privacy.json").read_text())["total"]["epsilon"] == "inf"
    assert "their ε have no sum" in " ".join(Path("out2/README.md").read_text().split())
    third = nzc(
        *by_patient[:-1], "dataset.name=hospital", "budget.total=100", "hydra.run.dir=three"
    )
    assert (third.code, third.out) == (2, "") and third.err.splitlines()[-1].startswith(
        "nzc: budget.total=100"
    )


def test_a_limit_binds_later_runs_that_state_none(nzc: Nzc, command: Command, tables: Path) -> None:
    run = [*TABLE, "dataset.private=all.csv", "dataset.name=hospital"]
    assert nzc(*run, "budget.total=9", "hydra.run.dir=one").code == 0
    assert command("publish", "one", "out1")[0] == 0
    share = _epsilon("one")["published"]
    late = nzc(*run, "seed=1", f"budget.total={1.5 * share}", "hydra.run.dir=two")
    assert (late.code, late.out) == (2, "")  # a limit that is refused does not stand
    assert nzc(*run, "seed=1", f"budget.total={2.5 * share}", "hydra.run.dir=two").code == 0
    assert (
        nzc(*run, "seed=2", "hydra.run.dir=three").code == 0
    )  # the second run is not published yet
    assert command("publish", "three", "out3")[0] == 0
    assert json.loads(Path("out3/privacy.json").read_text())["total"]["limit"] == 2.5 * share
    code, _, err = command("publish", "two", "out2")
    assert (code, err.count("\n")) == (2, 1) and err.startswith("nzc: budget.total=")
    assert nzc(*run, "seed=3", "hydra.run.dir=four").code == 2


def test_folders_of_a_team_share_a_ledger(
    nzc: Nzc, command: Command, histograms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = [
        *VOTES,
        "teachers.path=votes.npy",
        "rng=system",
        "aggregator.sigma=40",
        "hydra.run.dir=run",
    ]
    Path("team").mkdir()
    bad = nzc(*votes, "paths.ledger=team")
    assert (bad.code, bad.err.count("\n")) == (2, 1) and bad.err.startswith(
        "nzc: paths.ledger=team: must be a file"
    )
    costs = []
    for folder in ("mine", "yours"):
        here = Path.cwd() / "team" / folder
        here.mkdir()
        (here / "votes.npy").write_bytes(histograms.read_bytes())
        monkeypatch.chdir(here)
        typed = ["paths.ledger=../ledger.db"] if folder == "mine" else []
        monkeypatch.setenv(
            "NZC_LEDGER", "nowhere/ledger.db" if typed else str(here.parent / "ledger.db")
        )
        assert nzc(*votes, *typed).code == 0
        costs.append(_epsilon("run")["ledger_released"])
        assert not Path(".nzc/ledger.db").exists()
        monkeypatch.chdir(histograms.parent)
    assert costs[1] > 1.3 * costs[0]
    for folder in ("mine", "yours"):
        assert (
            command("publish", f"team/{folder}/run", f"out {folder}", "--name", "hospital")[0] == 0
        )
    assert json.loads(Path("out yours/privacy.json").read_text())["total"]["folders"] == 2
    monkeypatch.delenv("NZC_LEDGER")
    code, _, err = command("publish", "team/yours/run", "again")
    assert (code, err.count("\n")) == (2, 1) and "--store" in err
    assert command("publish", "team/yours/run", "again", "--store", "team/ledger.db")[0] == 0


def test_a_command_that_releases_again_says_so(nzc: Nzc, histograms: Path) -> None:
    votes = [*VOTES, "teachers.path=votes.npy", "aggregator.sigma=40"]
    said = []
    for settings in (
        ["rng=seeded"],
        *[["rng=system"]] * 3,
        ["rng=system", "queries=9"],
        ["rng=seeded"],
    ):
        ran = nzc(*votes, *settings)
        said.append([line for line in ran.err.splitlines() if "new noise" in line])
        assert [f"nzc: {line}" for line in ran.result["warnings"] if "new noise" in line] == said[
            -1
        ]
        for times in (2, 3) if len(said) == 4 else ():
            assert len(said[times]) == 1 and f"δ = {times}e-05" in said[times][0]
            assert f"ε = {times * ran.result['epsilon']['published']:.2f}" in said[times][0]
    assert [len(lines) for lines in said] == [0, 0, 1, 1, 0, 0]
