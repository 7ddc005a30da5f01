"""Every ε of a run: through the command, from query to query, within a budget, in the ledger."""

import numpy as np
import presets
import pytest
from conftest import FILE, Command, Nzc, parametrize
from pytest import approx

from nzc.accounting.cost import cost_curve
from nzc.accounting.rdp import to_epsilon
from nzc.mechanisms import ABSTAIN

DELTA = 1e-5

pytestmark = pytest.mark.usefixtures("histograms")


def test_nzc_claims_nothing_costs_everything_and_is_caught(nzc: Nzc) -> None:
    epsilon = nzc(*FILE, "aggregator=nzc", "audit=true").result["epsilon"]
    assert epsilon["claimed"] < 1e-7
    assert epsilon["data_independent"] == "inf"
    # log of half the trials over 3.69: all that so many trials can show
    assert epsilon["audited"] > 7.8


@parametrize("name", ["gnmax", "gumbel", "confident"])
def test_every_point_of_the_curve_is_a_shorter_run(name: str) -> None:
    rng = np.random.default_rng(0)
    mechanism = presets.build(name)
    votes = rng.multinomial(60, [0.6, 0.2, 0.1, 0.1], size=20)
    labels = mechanism.release(votes, rng)
    answered = labels != ABSTAIN
    released, curves = cost_curve([(mechanism.cost(votes, labels, None), answered)], DELTA, 2)
    assert released.tolist() == [answered[:10].sum(), answered.sum()]
    for point, end in enumerate((10, 20)):
        cost = mechanism.cost(votes[:end], labels[:end], None)
        shorter = {
            "exact": to_epsilon(cost.rdp, DELTA - cost.delta_cost)[0],
            "theorem": cost.epsilon(DELTA).theorem,
            "data_independent": cost.data_independent(DELTA, rough=True),
        }
        shorter = {key: epsilon for key, epsilon in shorter.items() if epsilon is not None}
        found = {key: values[point] for key, values in curves.items()}
        assert found == approx(shorter, rel=0.02)  # a run looks beyond the grid of orders


def test_a_budget_is_never_passed(nzc: Nzc) -> None:
    noise = ["aggregator.threshold=40", "aggregator.sigma1=20", "aggregator.sigma=20"]
    aggregator = ["aggregator=confident", *noise]
    whole = nzc(*FILE, *aggregator).result
    assert whole["refused"] == 0
    budget = whole["epsilon"]["data_independent"] / 2
    ran = nzc(*FILE, *aggregator, f"budget.epsilon={budget}")
    assert 0 < ran.result["refused"] < 40
    assert ran.result["epsilon"]["data_independent"] <= budget
    assert ran.result["queries"] == 40
    assert "not asked" in ran.out


def test_the_ledger_adds_releases_and_knows_repeats(nzc: Nzc) -> None:
    def total(*arguments: str) -> float:
        return nzc(*FILE, *arguments).result["epsilon"]["ledger_total"]

    np.save("votes.npy", np.load("votes.npy")[:10])
    once = total("aggregator=gumbel")
    assert total("aggregator=gumbel") == once
    assert once < total("aggregator=gumbel", "seed=1") < 2 * once
    assert total("aggregator=gumbel", "paths.store=elsewhere") == once
    np.save("votes.npy", np.array([[25, 25]]))  # another dataset, with a tie
    assert total("aggregator=gumbel") < once
    assert total("aggregator=plurality") == "inf"


def test_trials_do_not_count_as_releases(nzc: Nzc, command: Command) -> None:
    def run(gamma: float, *arguments: str) -> dict[str, float]:
        ran = nzc(*FILE, "aggregator=lnmax", f"aggregator.gamma={gamma}", "queries=10", *arguments)
        costs = ran.result["epsilon"]
        assert costs["exact"] <= costs["ledger_released"] <= costs["ledger_total"]
        return costs | {"trials": ran.result["ledger_trials"]}

    first = run(0.1)
    costly = run(0.5)
    again = run(0.1)
    sanitised = run(0.1, "rng=system", "bound=sanitised", "dataset.name=p")
    assert first["ledger_released"] == first["ledger_total"] == again["ledger_released"]
    assert first["ledger_total"] < costly["ledger_released"] < costly["ledger_total"]
    assert again["ledger_total"] == costly["ledger_total"]
    assert first["ledger_released"] < sanitised["ledger_released"] < sanitised["ledger_total"]
    trials = [costs["trials"] for costs in (first, costly, again, sanitised)]
    assert trials == [0, 1, 1, 2]

    assert command("store", "--forget")[0] == 2
    assert command("store", "--forget", "--yes")[0] == 0
    assert "forgot 0 trials" in command("store", "--forget", "--yes")[1]
    after = run(0.1)
    assert after["ledger_released"] == after["ledger_total"] > sanitised["ledger_released"]
    assert after["trials"] == 0
