"""One recipe for all data: recipe=near_zero is what suits the dataset, and a line says so."""

from pathlib import Path

import numpy as np
import pandas as pd
from conftest import Nzc, parametrize
from omegaconf import OmegaConf
from pytest import CaptureFixture, raises

from nzc.app.config import compose_run
from nzc.app.errors import error_line

#: Overrides, and the teachers and the student that follow.
CHOICES = """
recipe=near_zero | cells softmatch
recipe=near_zero dataset=table | sums none
recipe=near_zero dataset=adult student=linear aggregator.sigma=9 | sums linear
recipe=near_zero dataset=mine | sums none
+sweeps=mine dataset=table | sums none
recipe=near_zero dataset=table dataset.suits.recipe=null | cells softmatch
recipe=near_zero dataset=table baseline=true | cells softmatch
recipe=near_zero_sums dataset=npz | sums none
dataset=table | ensemble supervised
"""


@parametrize("line", CHOICES.strip().splitlines())
def test_a_dataset_names_the_recipe_that_suits_it(
    line: str, here: Path, capsys: CaptureFixture[str]
) -> None:
    Path("conf/dataset").mkdir(parents=True)
    Path("conf/dataset/mine.yaml").write_text("defaults: [table, _self_]")
    Path("sweeps").mkdir()
    chosen = "defaults: [override /recipe: near_zero]"
    Path("sweeps/mine.yaml").write_text(f"# @package _global_\n{chosen}")
    words, _, parts = line.partition(" | ")
    choices = compose_run(words.split()).hydra.runtime.choices
    assert f"{choices.teachers} {choices.student}" == parts
    said = capsys.readouterr().err
    changed = "sums" in parts and "near_zero_sums" not in words
    begins = "nzc: recipe=near_zero is near_zero_sums for dataset="
    assert said.count("\n") == changed and said.startswith(begins * changed)


#: Overrides, and how many queries follow on the digits.
SUITED = """
seed=1 | 100
rounds=2 answers=100 | 100
rounds=[1,200] | None
rounds=150 | None
answers=101 | None
dataset.public=99 | None
dataset.public=99 queries=100 | 100
"""


@parametrize("line", SUITED.strip().splitlines())
def test_the_queries_that_suit_a_dataset_give_way(line: str) -> None:
    words, _, queries = line.partition(" | ")
    assert str(compose_run(words.split()).queries) == queries


def test_a_recipe_without_an_option_is_refused(tmp_path: Path) -> None:
    words = ["recipe=near_zero", "dataset=table", "dataset.suits.recipe.near_zero=lost"]
    with raises(Exception) as caught:
        compose_run(words)
    assert error_line(caught.value)[1].startswith("recipe=lost: must be one of its options")


def test_hydra_shows_the_recipe_that_runs(nzc: Nzc) -> None:
    """Flags stand anywhere."""
    shown = nzc("recipe=near_zero", "--cfg", "job", "dataset=adult", "aggregator.sigma=9").out
    assert "nzc.protocols.sums.RecordSums" in shown


def test_each_job_of_a_sweep_has_its_own(nzc: Nzc) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 3)), columns=[*"abc"])
    table.to_csv("public.csv", index=False)
    table.assign(back=np.where(table.a > 0, "yes", "no")).to_csv("private.csv", index=False)
    data = ["dataset.private=private.csv", "dataset.public=public.csv", "dataset.label=back"]
    words = ["--multirun", "recipe=near_zero", "dataset=table", *data, "budget.epsilon=1,2"]
    ran = nzc(*words, "hydra/sweeper=basic")
    assert ran.err.count("is near_zero_sums") == 1
    assert [result["aggregator"] for result in ran.results] == ["sums", "sums"]
    jobs = list(Path("outputs/sweeps").rglob("overrides.yaml"))
    assert len(jobs) == 2
    for job in jobs:
        assert "recipe=near_zero_sums" in OmegaConf.load(job)
