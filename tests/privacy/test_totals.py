"""What is published about the same people: its total, and the limit of that."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import VOTES, Command, RunNzc, mlflow_client, tracked_runs
from pytest import MonkeyPatch, approx, raises

from nzc.privacy.ledger import Ledger
from nzc.privacy.totals import People, Total
from nzc.runs.formatting import number
from nzc.validation import InputError

pytestmark = pytest.mark.usefixtures("usual_umask")
PATIENT = "all records of one group (one value of the column `patient`) are replaced by others"
PURE = (0.1, 0.0, PATIENT)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger of two datasets about the people of a hospital."""
    ledger = Ledger(tmp_path / "ledger.db")
    for dataset in ("one", "two"):
        ledger.name(dataset, "hospital")
    return ledger


def test_promises_add_up_as_decimals_where_all_protect_the_same() -> None:
    assert Total.of([PURE, (0.2, 0.0, PATIENT)]) == Total(2, 0.3, 0)
    assert Total.of([(1.0, 1e-5, "one record differs")] * 3) == Total(3, 3, 3e-5)
    for other in ("one record differs", PATIENT.replace("patient", "ward")):
        assert Total.of([PURE, (0.1, 0.0, other)]) == Total(2, np.inf, 0)


def test_published_epsilons_add_up_and_keep_to_their_limit(ledger: Ledger) -> None:
    one = People(ledger, "one", None)
    more = (0.2, 0.0, PATIENT)
    for _ in range(2):  # the second is another folder of the same run
        assert one.total_with(PURE, 0.1, "run 1") == Total(1, 0.1, 0, 0.1)
    assert People(ledger, "apart", None).total_with(PURE, 0.1, "run 2").folders == 1
    for people in (People(ledger, "two", None), People(ledger, "new", "hospital")):
        for run in (None, "run 3"):
            with raises(InputError, match=r"budget.total=0.25: must be at least 0.3"):
                people.total_with(more, 0.25, run)
        assert people.total_with(more, 0.3) == Total(2, 0.3, 0, 0.3)
    assert People(ledger, "two", None).total_with(more, None, "run 3") == Total(2, 0.3, 0)
    assert one.total_with(PURE, None) == Total(3, 0.4, 0)
    with raises(InputError, match=r"budget.total=9: allows no such run"):
        one.total_with((0.1, 0.0, "one record differs"), 9)


def test_the_smallest_limit_binds_all_data_about_the_same_people(ledger: Ledger) -> None:
    for epsilon in (3.0, 2.0, 5.0):
        ledger.limit("one", epsilon)
    two = People(ledger, "two", None)
    assert [two.limit(given) for given in (None, 1.0, 7.0)] == [2, 1, 2]
    assert People(ledger, "apart", None).limit(None) is None
    assert People(ledger, "apart", "hospital").limit(None) == 2


TABLE = [
    "dataset=table", "dataset.public=public.csv", "dataset.label=back", "dataset.group=patient",
    "rng=system", "dataset.classes=[no,yes]", "teachers=logistic", "student=none",
    "query_choice=random", "budget.epsilon=1", "teachers.count=8",
    "teachers.parallel=1", "queries=5", "trainer.progress=false",
]  # fmt: skip
FILE = [*VOTES, "teachers.path=votes.npy", "rng=system", "aggregator.sigma=40"]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Visits of 60 patients in all.csv, of 40 of them in some.csv, and public rows."""
    values = np.random.default_rng(0).normal(size=(180, 2))
    table = pd.DataFrame(values, columns=["a", "b"])
    table[["a", "b"]].sample(60, random_state=0).to_csv(tmp_path / "public.csv", index=False)
    table["patient"] = [f"P{row // 3}" for row in range(180)]
    table["back"] = np.where(table.a > 0, "yes", "no")
    table.to_csv(tmp_path / "all.csv", index=False)
    table[:120].to_csv(tmp_path / "some.csv", index=False)
    return tmp_path


def _json(*path: str) -> dict[str, Any]:
    return dict(json.loads(Path(*path).read_text()))


def test_a_name_joins_runs_folders_and_experiments(
    run_nzc: RunNzc, command: Command, tables: Path
) -> None:
    """From a run that nobody has named to a total that is refused."""
    named = "dataset.name=hospital"
    one = [*TABLE, "dataset.private=all.csv", "hydra.run.dir=one"]
    err = run_nzc(*one, code=2).err
    assert (err.splitlines()[-1]).startswith("nzc: dataset.name=null: must ") and named in err
    assert not Path("one").exists() and not Path(".nzc/ledger.db").exists()
    run_nzc(*one, named)
    run_nzc(*one)  # the ledger knows the name
    assert command("publish", "one", "out1")[0] == 0

    some = [*TABLE, "dataset.private=some.csv", named]
    run_nzc(*some, "hydra.run.dir=early")
    limited = [*some, "hydra.run.dir=two", "budget.total=2"]
    run_nzc(*limited, "tracking=mlflow")
    people = People(Ledger(Path(".nzc/ledger.db")), "", "hospital")
    assert people.limit(None) == 2  # from the run on, before anything of it is published
    (run,) = tracked_runs()
    assert mlflow_client().get_experiment(run.info.experiment_id).name == "hospital"

    code, out, _ = command("publish", "two", "out2")
    assert code == 0 and out.splitlines()[-1] == "out2"
    first, second = _json("out1", "privacy.json"), _json("out2", "privacy.json")
    epsilon = first["epsilon"]["published"] + second["epsilon"]["published"]
    total = {"folders": 2, "epsilon": approx(epsilon), "delta": 2e-5, "limit": 2}
    assert first["total"]["folders"] == 1 and second["total"] == total
    assert first["name"] == second["name"] == "hospital"
    assert f"ε = {number(epsilon)} and" in Path("out2/README.md").read_text()

    late = run_nzc(*limited, code=2)
    assert late.out == "" and "budget.total=2.0: must be at least" in late.err
    code, _, err = command("publish", "early", "out3")  # its own configuration has no limit
    assert code == 2 and "budget.total=2.0: must be at least" in err


def test_folders_of_a_team_share_a_ledger(
    run_nzc: RunNzc, command: Command, histograms: Path, monkeypatch: MonkeyPatch
) -> None:
    run = [*FILE, "dataset.name=hospital", "hydra.run.dir=run"]
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
        run_nzc(*run, *typed)
        costs.append(_json("run", "result.json")["epsilon"]["ledger_released"])
        assert not Path(".nzc/ledger.db").exists()
        monkeypatch.chdir(histograms.parent)
    assert costs[1] > 1.3 * costs[0]
    for folder in ("mine", "yours"):
        given = ["publish", f"team/{folder}/run", f"out {folder}", "--name", "hospital"]
        assert command(*given)[0] == 0
    assert _json("out yours", "privacy.json")["total"]["folders"] == 2
