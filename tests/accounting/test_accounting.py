"""Every ε of a run: through the command line, from query to query, within a budget, and in the
ledger.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import presets
import pytest
from conftest import VOTES, Command, Nzc

from nzc.accounting.cost import cost_curve
from nzc.accounting.rdp import ORDERS, cks, to_epsilon
from nzc.mechanisms import ABSTAIN, GroundTruth, NoisyArgmax, NoNoise

FILE = [*VOTES, "teachers.path=votes.npy"]
CONFIDENT = [
    "aggregator=confident",
    "aggregator.threshold=40",
    "aggregator.sigma1=20",
    "aggregator.sigma=20",
]
DELTA = 1e-5


@pytest.mark.usefixtures("histograms")
def test_every_epsilon_in_its_place(nzc: Nzc) -> None:
    epsilon = nzc(*FILE, "aggregator=gnmax", "aggregator.sigma=10", "audit=2000").result["epsilon"]
    assert epsilon["claimed"] is None
    assert 0 <= epsilon["audited"] < epsilon["data_independent"]
    assert 0 < epsilon["exact"] < min(epsilon["theorem"], epsilon["data_independent"])
    assert (
        0.98 * epsilon["exact"]
        < epsilon["exact_lower"]
        < epsilon["exact"]
        < epsilon["ledger_total"]
    )
    assert epsilon["published"] == epsilon["data_independent"] and epsilon["sanitised"] is None
    run = [*FILE, "aggregator.sigma=10", "bound=sanitised"]
    epsilon = nzc(*run).result["epsilon"]
    assert epsilon["theorem"] < epsilon["sanitised"] == epsilon["published"]
    assert (
        epsilon["sanitised"]
        != nzc(*run, "sanitise.order=3", "sanitise.beta=0.2").result["epsilon"]["sanitised"]
    )


@pytest.mark.usefixtures("histograms")
def test_nzc_claims_nothing_costs_everything_and_is_caught(nzc: Nzc) -> None:
    epsilon = nzc(*FILE, "aggregator=nzc", "audit=true").result["epsilon"]
    assert epsilon["claimed"] < 1e-7
    assert epsilon["data_independent"] == "inf"
    assert (
        epsilon["audited"] > 7
    )  # log of half the trials over 3.69: all that so many trials can show


def _asked(name: str, queries: int) -> tuple[NoisyArgmax, np.ndarray, np.ndarray]:
    rng, mechanism = np.random.default_rng(0), presets.build(name)
    votes = rng.multinomial(60, [0.6, 0.2, 0.1, 0.1], size=queries)
    return mechanism, votes, mechanism.release(votes, rng)


@pytest.mark.parametrize("name", presets.MECHANISMS)
def test_every_point_of_the_curve_is_a_shorter_run(name: str) -> None:
    mechanism, votes, labels = _asked(name, 40)
    released, grown = cost_curve(
        [(mechanism.cost(votes, labels, None), labels != ABSTAIN)], DELTA, 4
    )
    assert released.tolist() == [(labels[:end] != ABSTAIN).sum() for end in (10, 20, 30, 40)]
    for at, end in enumerate((10, 20, 30, 40)):
        cost = mechanism.cost(votes[:end], labels[:end], None)
        exact = to_epsilon(cost.rdp, DELTA - cost.delta_cost)[0]
        shorter = replace(
            cost.epsilon(DELTA),
            exact=exact,
            data_independent=cost.data_independent(DELTA, rough=True),
        )
        names = {
            name
            for name in ("exact", "theorem", "data_independent")
            if getattr(shorter, name) is not None
        }
        assert grown.keys() == names
        for key, values in grown.items():
            assert values[at] == pytest.approx(
                getattr(shorter, key), rel=0.02
            )  # a run looks beyond the grid of orders


def test_the_curve_of_rounds_goes_on_where_a_round_ended() -> None:
    (one, votes, labels), (other, _, again) = _asked("confident", 30), _asked("gnmax", 10)
    costs, answered = (
        (one.cost(votes, labels), other.cost(votes[:10], again)),
        (labels != ABSTAIN, again != ABSTAIN),
    )
    released, grown = cost_curve(list(zip(costs, answered, strict=True)), DELTA, 40)
    assert released[-1] == answered[0].sum() + 10 and (np.diff(released)[30:] == 1).all()
    both = costs[0] + costs[1]
    rough = both.data_independent(DELTA, rough=True)
    whole = replace(
        both.epsilon(DELTA),
        exact=cks(both.rdp(ORDERS), ORDERS, DELTA).min(),
        data_independent=rough,
    )
    for key, values in grown.items():
        assert (np.diff(values) >= 0).all() and values[-1] == pytest.approx(
            getattr(whole, key), rel=1e-9
        )


def test_the_curve_of_what_has_no_bound_and_no_law() -> None:
    votes, answered = np.array([[9, 2, 1], [9, 2, 1], [5, 5, 2], [9, 2, 1]]), np.ones(4, bool)
    plain, truth = (cost_curve([(mechanism.cost(votes, votes.argmax(1)), answered)], DELTA, 4)[1]
                    for mechanism in (NoisyArgmax(NoNoise()), GroundTruth()))  # fmt: skip
    assert plain["exact"].tolist() == [0, 0, np.inf, np.inf]
    assert truth.keys() == {"data_independent"} and np.isinf(truth["data_independent"]).all()


@pytest.mark.usefixtures("histograms")
@pytest.mark.parametrize(
    "aggregator",
    [
        ["aggregator=gnmax", "aggregator.sigma=40"], ["aggregator=lnmax", "aggregator.gamma=0.05"],
        ["aggregator=gumbel", "aggregator.gamma=0.02"], CONFIDENT,
    ],
    ids=lambda aggregator: aggregator[0],
)  # fmt: skip
def test_a_budget_is_never_passed(nzc: Nzc, aggregator: list[str]) -> None:
    whole = nzc(*FILE, *aggregator).result
    assert whole["refused"] == 0
    budget = whole["epsilon"]["data_independent"] / 2
    ran = nzc(*FILE, *aggregator, f"budget.epsilon={budget}")
    assert 0 < ran.result["refused"] < 40
    assert ran.result["epsilon"]["data_independent"] <= budget
    assert ran.result["queries"] == 40
    assert "not asked" in ran.out


@pytest.mark.usefixtures("histograms")
def test_the_ledger_adds_releases_and_knows_repeats(nzc: Nzc) -> None:
    def total(*arguments: str) -> float:
        return nzc(*FILE, *arguments).result["epsilon"]["ledger_total"]

    once = total("aggregator=lnmax")
    assert total("aggregator=lnmax") == once
    twice = total("aggregator=lnmax", "seed=1")
    assert once < twice < 2 * once
    assert total("aggregator=gnmax") > twice
    assert total("aggregator=lnmax", "paths.store=elsewhere") == once
    assert Path(".nzc/ledger.db").stat().st_mode & 0o077 == 0
    np.save("votes.npy", np.array([[25, 25]]))  # another dataset, with a tie
    assert total("aggregator=lnmax") < once
    assert total("aggregator=plurality") == "inf"


@pytest.mark.usefixtures("histograms")
def test_trials_do_not_count_as_releases(nzc: Nzc, command: Command) -> None:
    def epsilon(gamma: float, *arguments: str) -> dict[str, float]:
        ran = nzc(*FILE, "aggregator=lnmax", f"aggregator.gamma={gamma}", *arguments)
        costs, trials = ran.result["epsilon"], ran.result["ledger_trials"]
        assert costs["exact"] <= costs["ledger_released"] <= costs["ledger_total"]
        assert ("ε of all releases" in ran.out) == (
            "rng=system" in arguments and ran.result["ledger_releases"] > 0
        )
        return costs | {"trials": trials}

    first, costly = epsilon(0.02), epsilon(0.5)
    assert (
        first["ledger_released"]
        == first["ledger_total"]
        < costly["ledger_released"]
        < costly["ledger_total"]
    )
    again = epsilon(0.02)
    assert (
        again["ledger_released"] == first["ledger_released"]
        and again["ledger_total"] == costly["ledger_total"]
    )
    one, two = epsilon(0.02, "rng=system"), epsilon(0.02, "rng=system", "bound=sanitised")
    assert (
        first["ledger_released"]
        <= one["ledger_released"]
        < two["ledger_released"]
        < costly["exact"]
    )
    assert [costs["trials"] for costs in (first, costly, again, one, two)] == [0, 1, 1, 2, 2]

    assert command("store", "--forget")[::2] == (
        2,
        "nzc: --yes=false: must be given to do so with what is listed above\n",
    )
    assert command("store", "--forget", "--yes")[0] == 0
    assert command("store", "--forget", "--yes")[:2] == (0, "nothing to forget\n")
    after = epsilon(0.02)
    assert (
        after["ledger_released"] == after["ledger_total"] > two["ledger_released"]
        and after["trials"] == 0
    )
