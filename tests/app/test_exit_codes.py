"""Exit codes and lines: 2 for wrong input, 1 for a failure while running, each with one line of a sensible length."""

from pathlib import Path

import pytest
from conftest import VOTES, Command, Nzc

from nzc.runs import plots
from nzc.runs.layout import RESULT, STUDENT, STUDENT_INPUT
from nzc.storage.files import write_private

#: Classes of a user's own that cannot be built.
MINE = """
def unlicensed(**settings):
    raise RuntimeError("no licence")
def lost(**settings):
    import broken_library
"""
#: Arguments, exit code, what the line contains.
CASES = [
    (["dataset.seed=abc"], 2, ["dataset.seed=abc", "whole number"]),
    (["seed=${oc.env:NOPE}"], 2, ["seed=${oc.env:NOPE}", "NOPE"]),
    (["dataset=npz", "dataset.path=${oc.env:NOPE}"], 2, ["dataset.path=${oc.env:NOPE}", "NOPE"]),
    (["hydra.run.dir=${oc.env:NOPE}"], 2, ["NOPE"]),
    (["dataset=npz", f"dataset.path={'x' * 5000}"], 2, ["dataset.path=xxx", "too long"]),
    (["--multirun", "hydra.sweep.subdir=x", "seed=0,1"], 2, ["hydra.sweep.subdir=x", "${hydra.job.num}"]),
    (["aggregator._target_=mine.unlicensed"], 2, ["aggregator._target_=mine.unlicensed", "no licence"]),
    (["aggregator._target_=mine.lost"], 2, ["aggregator._target_=mine.lost", "wrong backend"]),
    (["aggregator._target_=mine_too.lost"], 2, ["aggregator._target_=mine_too.lost", "oops"]),
    (["aggregator._target_=no_such_module.lost"], 2, ["aggregator._target_=no_such_module.lost", "no_such_module"]),
    (["pubish", "run", "dest"], 2, ["pubish", "did you mean publish?"]),
    (["report", "."], 2, ["FOLDER=.", "run or a sweep"]),
    (["report", "damaged"], 2, ["FOLDER=damaged", "whole files"]),
    (["predict", "damaged", "new.npy"], 2, ["FOLDER=damaged", "student that can be read"]),
]


@pytest.fixture
def _files(nzc: Nzc) -> None:
    Path("mine.py").write_text(MINE)
    Path("mine_too.py").write_text("raise ValueError('oops')")
    Path("broken_library.py").write_text("raise ValueError('wrong backend')")
    Path("damaged/.hydra").mkdir(parents=True)
    choices = "{dataset: digits, aggregator: gnmax, student: none}"
    Path("damaged/.hydra/hydra.yaml").write_text(f"hydra: {{runtime: {{choices: {choices}}}}}")
    for name in (RESULT, STUDENT, STUDENT_INPUT):
        Path("damaged", name).write_text("{")


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(("arguments", "code", "says"), CASES, ids=[" ".join(case[0])[:50] for case in CASES])
def test_one_line_of_a_sensible_length(
    nzc: Nzc, command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: list[str]
) -> None:
    monkeypatch.syspath_prepend(".")
    before = set(Path().rglob("*"))
    if arguments[0] in ("report", "predict"):
        found, out, err = command(*arguments)
    else:
        ran = nzc(*arguments)
        found, out, err = ran.code, ran.out, ran.err
    assert (found, out, err.count("\n")) == (code, "", 1), err
    assert len(err) < 520
    assert all(each in err for each in says), err
    assert {path for path in Path().rglob("*") if "__pycache__" not in path.parts} == before


def test_figures_that_cannot_be_drawn_cost_a_line(nzc: Nzc, monkeypatch: pytest.MonkeyPatch, histograms: Path) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device", "gaps.svg")

    monkeypatch.setattr(plots, "plot_run", full)
    ran = nzc(*VOTES, f"teachers.path={histograms}", "figures=true")
    assert ran.code == 0
    assert ran.err.count("\n") == 1
    assert "No space left" in ran.err
    assert ran.result["answered"]


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"no/result\.json"):
        write_private(tmp_path / "no" / "result.json", "{}")
    with pytest.raises(TypeError):
        write_private(tmp_path / "result.json", 3)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
