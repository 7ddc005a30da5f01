"""The configuration: options beside the data, names of parts, and recipes that suit a dataset."""

from pathlib import Path

import numpy as np
import pandas as pd
from conftest import TEACHERS, RunNzc, mlflow_client, parametrize, tracked_runs, write
from omegaconf import OmegaConf
from pytest import CaptureFixture, raises

from nzc.app.config import compose_run, names_of, options
from nzc.app.errors import error_line

FILES = {
    "own_classes.py": """
from dataclasses import dataclass
from nzc.data.digits import Digits
from nzc.students.supervised import Supervised

@dataclass(frozen=True)
class HospitalDigits(Digits):
    pass

@dataclass(frozen=True)
class SoftLabels(Supervised):
    pass
""",
    "conf/dataset/mnist_like.yaml": """
defaults: [digits, _self_]
_target_: own_classes.HospitalDigits
""",
    "conf/student/vat_like.yaml": """
defaults: [supervised, _self_]
_target_: own_classes.SoftLabels
""",
    "conf/site/lab.yaml": "# @package _global_\nseed: 7\n",
    "conf/aggregator/confident_gumbel.yaml": """
_target_: nzc.NoisyArgmax
screen: {_target_: nzc.ThresholdScreen, threshold: 4, sigma1: 1}
noise: {_target_: nzc.GumbelNoise, gamma: 0.5}
""",
}


def test_files_beside_the_data_are_options_by_their_names(
    run_nzc: RunNzc,
) -> None:
    for name, text in FILES.items():
        write(name, text)
    own = [*TEACHERS, "+site=lab", "dataset=mnist_like", "aggregator=confident_gumbel"]
    own.append("aggregator.noise.gamma=0.2")
    words = ["student.steps=20", "tracking=mlflow", "tracking.register=mine"]
    ran = run_nzc(*own, "student=vat_like", *words)
    names = {"dataset": "mnist_like", "aggregator": "confident_gumbel", "student": "vat_like"}
    assert ran.result.items() >= (names | {"seed": 7}).items()
    assert " · ".join(names.values()) in ran.out
    client = mlflow_client()
    (run,) = tracked_runs()
    assert run.data.params.items() >= (names | {"teachers": "ensemble"}).items()
    assert client.get_experiment_by_name("mnist_like") is not None
    (version,) = client.search_model_versions("name = 'mine'")
    del names["student"]
    assert version.tags.items() >= (names | {"mechanism": ran.result["mechanism"]}).items()
    assert ran.result["mechanism"] in version.description  # a file's name proves nothing
    assert "confident_gumbel" in options("conf/aggregator")


@parametrize(
    ("typed", "names"),
    [
        (["dataset=torchvision", "dataset.kind=KMNIST"], {"dataset": "KMNIST"}),
        (
            ["recipe=near_zero", "student=none"],
            {"teachers": "cells", "aggregator": "counts", "student": "none"},
        ),
        (["student._target_=mine.Student"], {"dataset": "digits", "student": "mine.Student"}),
        (["++aggregator={_target_: nzc.LNMax, gamma: 1}"], {"aggregator": "nzc.LNMax"}),
    ],
)
def test_a_part_is_called_by_what_was_typed(typed: list[str], names: dict[str, str]) -> None:
    cfg = compose_run(typed)
    found = names_of(cfg, cfg.hydra.runtime.choices)
    assert found.keys() == {"dataset", "representation", "teachers", "aggregator", "student"}
    assert found.items() >= names.items()


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
    write("conf/dataset/mine.yaml", "defaults: [table, _self_]")
    chosen = "defaults: [override /recipe: near_zero]"
    write("sweeps/mine.yaml", f"# @package _global_\n{chosen}")
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


def test_hydra_shows_the_recipe_that_runs(run_nzc: RunNzc) -> None:
    """Flags stand anywhere."""
    shown = run_nzc("recipe=near_zero", "--cfg", "job", "dataset=adult", "aggregator.sigma=9").out
    assert "nzc.protocols.sums.RecordSums" in shown


def test_each_job_of_a_sweep_has_its_own(run_nzc: RunNzc) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 3)), columns=[*"abc"])
    table.to_csv("public.csv", index=False)
    table.assign(back=np.where(table.a > 0, "yes", "no")).to_csv("private.csv", index=False)
    data = ["dataset.private=private.csv", "dataset.public=public.csv", "dataset.label=back"]
    words = ["--multirun", "recipe=near_zero", "dataset=table", *data, "budget.epsilon=1,2"]
    ran = run_nzc(*words, "hydra/sweeper=basic")
    assert ran.err.count("is near_zero_sums") == 1
    assert [result["aggregator"] for result in ran.results] == ["sums", "sums"]
    jobs = list(Path("outputs/sweeps").rglob("overrides.yaml"))
    assert len(jobs) == 2
    for job in jobs:
        assert "recipe=near_zero_sums" in OmegaConf.load(job)


@parametrize("dataset", ["digits", "npz", "folder"])
def test_private_records_stay_private_whatever_the_seed(dataset: str) -> None:
    """Else the ledger would see as many datasets as there are seeds."""
    assert compose_run([f"dataset={dataset}", "seed=3"]).dataset.seed == 0
