"""The table that ends a run: what it shows, and that no run has more than four lines of ε."""

import itertools
from dataclasses import replace

import numpy as np
from conftest import parametrize
from presets import build
from sessions import result_of

from nzc.mechanisms import GroundTruth
from nzc.privacy.ledger_entry import LedgerEntry
from nzc.runs.result import RunResult
from nzc.runs.summary import result_table, unbounded


def _epsilons(result: RunResult) -> list[str]:
    """Return the names of the lines of ε."""
    names = map(str, result_table(result).columns[0].cells)
    return [name for name in names if name.startswith("ε")]


def test_a_ledger_names_what_protects_something_else() -> None:
    entries = []
    for name in ("record", "label"):
        facts = {"neighbours": name}
        entries.append(LedgerEntry("d", name, np.full(1, 9.0), np.ones(1), b"", name, facts, "now"))
    assert unbounded(entries, 1e-5).startswith("label of now protects something else (label)")


@parametrize("name", ["gnmax", "nzc", "confident", "counts", "ground_truth"])
def test_a_table_has_at_most_four_lines_of_epsilon(name: str) -> None:
    """Of every kind of ε, with all that can be asked for; what was asked for is always there."""
    whole = result_of(GroundTruth() if name == "ground_truth" else build(name))
    choices = itertools.product((None, 1.25), (("seeded", 2), ("system", None), ("system", 2)))
    for audited, (rng, releases) in choices:
        epsilon = replace(whole.epsilon, audited=audited)
        result = replace(whole, epsilon=epsilon, rng=rng, ledger_releases=releases)
        asked = {"ε audited"} if audited else set()
        if rng == "system" and releases:
            asked.add("ε of all releases")
        names = _epsilons(result)
        assert len(names) <= 4 and names[0] == "ε published" and asked <= set(names)
        assert "ε exact" in names or epsilon.exact is None
        assert _epsilons(result.public) == ["ε published", *(["ε audited"] if audited else [])]
