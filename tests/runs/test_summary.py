"""The table that ends a run: what it shows, and that no run has more than four lines of ε."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from presets import MECHANISMS, build

from nzc.accounting import Epsilon
from nzc.mechanisms import GroundTruth, NoisyArgmax
from nzc.runs.metrics import Metrics
from nzc.runs.result import RunResult
from nzc.runs.summary import result_table

VOTES = np.array([[60, 40]])


def _result(mechanism: NoisyArgmax, epsilon: Epsilon | None = None, **more: Any) -> RunResult:
    """Return the result of three queries of this mechanism."""
    if epsilon is None:
        labels = mechanism.release(VOTES, np.random.default_rng(0))
        epsilon = mechanism.cost(VOTES, labels, None).epsilon(1e-5)
        epsilon = replace(
            epsilon, published=epsilon.data_independent, ledger_released=3.0, ledger_total=5.0
        )
    facts: dict[str, Any] = {
        "dataset": "digits", "aggregator": "mine", "student": "supervised", "seed": 0, "rng": "seeded",
        "mechanism": repr(mechanism), "delta": 1e-5, "queries": 3, "answered": 3, "refused": 0, "reinforced": 0,
        "label_accuracy": 0.9, "accuracy": 0.8, "epsilon": epsilon, "rounds": [], "data": None,
        "teachers": {"count": 100, "mean_accuracy": 0.5, "ensemble_accuracy": 0.9},
        "neighbours": "one differs", "unit": "record", "bound": "data_independent", "seconds": {"total": 1.0},
        "ledger_trials": 7, "ledger_releases": 0,
    }  # fmt: skip
    return RunResult(**(facts | more))


def _table(result: RunResult) -> dict[str, tuple[str, str]]:
    """Return value and meaning by the name of each line."""
    table = result_table(result)
    names, values, meanings = ([str(cell) for cell in column.cells] for column in table.columns)
    return dict(zip(names, zip(values, meanings, strict=True), strict=True))


@pytest.mark.parametrize("name", [*MECHANISMS, "counts", "counts_gaussian", "ground_truth"])
def test_a_table_has_at_most_four_lines_of_epsilon(name: str) -> None:
    """Of every aggregator, with everything that can be asked for; and what was asked for is always
    there.
    """
    whole = _result(build(name)) if name != "ground_truth" else _result(GroundTruth())
    claims = whole.epsilon.claimed is not None
    choices = itertools.product(
        (None, 1.25),
        ("seeded", "system"),
        (None, 2),
        ("data_independent", "sanitised"),
        ({}, {"a": 0.5, "b": 2.0}),
    )
    for audited, rng, releases, bound, individual in choices:
        epsilon = replace(
            whole.epsilon, audited=audited, sanitised=4.5 if bound == "sanitised" else None
        )
        of = {"rng": rng, "ledger_releases": releases, "bound": bound, "individual": individual}
        result = replace(whole, epsilon=epsilon, **of)
        for shown in (result, result.public):
            lines = _table(shown)
            names = [line for line in lines if line.startswith("ε")]
            assert len(names) <= 4 and names[0] == "ε published"
            assert ("ε audited" in names) == (audited is not None)
            assert lines["mechanism"][1].split("(")[0] == repr(build(name)).split("(")[0]
            assert ("of budget groups: a 0.500; b 2.000" in lines["ε published"][1]) == (
                bool(individual) and np.isfinite(epsilon.published or np.inf)
            )
            assert ("sanitised" in lines["ε published"][1]) == (
                bound == "sanitised" and epsilon.published != np.inf
            )
            words = f"{lines} {result_table(shown).caption}"
            assert not any(word in words for word in ("theorem", "trials", "if released", "lower"))
        names = list(_table(result))
        assert ("ε of all releases" in names) == (rng == "system" and bool(releases))
        asked = (audited is not None) + ("ε of all releases" in names)
        assert ("ε claimed" in names) == (claims and asked < 2)
        assert ("ε by paper's method" in names) == (
            epsilon.paper is not None and not claims and asked < 2
        )
        assert "ε exact" in names or epsilon.exact is None


def test_the_exact_epsilon_says_how_tight_it_is() -> None:
    result = _result(
        build("gnmax"),
        Epsilon(published=2.0, exact=1.5532, exact_lower=1.5515, paper=3.0, theorem=4.0),
    )
    assert _table(result)["ε exact"] == (
        "1.554",
        "what these labels cost at these votes: between 1.551 and 1.554; private",
    )
    boundless = replace(
        result, epsilon=Epsilon(published=np.inf, exact=0.0, exact_lower=0.0, claimed=3e-9)
    )
    assert _table(boundless)["ε exact"][1].startswith("what these labels cost at these votes only")
    assert "guarantees nothing" in _table(boundless)["ε claimed"][1]


def test_metrics_are_shown_where_classes_are_unequal() -> None:
    recall: dict[str, float | None] = {"no": 0.9, "yes": 0.4}
    metrics = Metrics(
        majority=0.88, balanced_accuracy=0.65, auc=0.8, recall=recall, average_precision=0.3
    )
    unequal = _table(_result(build("gnmax"), metrics=metrics))
    assert (
        unequal["majority rate"][0] == "88.0 %" and "AUC 80.0 %" in unequal["balanced accuracy"][1]
    )
    assert unequal["lowest recall"] == ("40.0 %", "of class yes; then class no 90.0 %")
    equal = _table(_result(build("gnmax"), metrics=replace(metrics, majority=0.55)))
    assert set(unequal) - set(equal) == {"majority rate", "balanced accuracy"}


def test_the_caption_is_short_and_says_whom_epsilon_protects() -> None:
    for unit, grouped, words in (
        ("record", None, "one record"), ("group", "patient", "all records of one value of the patient together"),
        ("label", None, "the label of one record"), ("teacher", None, "the votes of one teacher"),
    ):  # fmt: skip
        caption = str(result_table(_result(build("gnmax"), unit=unit, grouped_by=grouped)).caption)
        assert words in caption and caption.count(". ") == 1 and "\n" not in caption


def test_a_result_of_an_older_version_is_read(tmp_path: Path) -> None:
    """The key `bound` was `publish`; how many releases came before was not counted."""
    result = replace(_result(build("gnmax"), bound="sanitised"), folder=tmp_path)
    result.write(tmp_path)
    record = json.loads((tmp_path / "result.json").read_text())
    assert RunResult.read(tmp_path) == result
    record["publish"] = record.pop("bound")
    del record["ledger_releases"]
    (tmp_path / "result.json").write_text(json.dumps(record))
    assert RunResult.read(tmp_path) == replace(result, ledger_releases=None)
