"""Every ε of a run, through the command line: budget, ledger, sanitised release, audit."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import VOTES, Command, Nzc, published

from nzc.accounting.audit import Contradiction
from nzc.mechanisms import GaussianNoise, NoisyArgmax

FILE = [*VOTES, "teachers.path=votes.npy"]


@pytest.mark.usefixtures("histograms")
def test_every_epsilon_in_its_place(nzc: Nzc) -> None:
    epsilon = nzc(*FILE, "aggregator=gnmax", "aggregator.sigma=10", "audit=true", "audit_trials=2000").result["epsilon"]
    assert epsilon["claimed"] is None
    assert 0 <= epsilon["audited"] < epsilon["data_independent"]
    assert 0 < epsilon["exact"] < min(epsilon["theorem"], epsilon["data_independent"])
    assert 0.98 * epsilon["exact"] < epsilon["exact_lower"] < epsilon["exact"] < epsilon["ledger_total"]
    assert epsilon["published"] == epsilon["data_independent"] and epsilon["sanitised"] is None
    epsilon = nzc(*FILE, "aggregator=gnmax", "aggregator.sigma=10", "publish=sanitised").result["epsilon"]
    assert epsilon["theorem"] < epsilon["sanitised"] == epsilon["published"]


@pytest.mark.usefixtures("histograms")
def test_nzc_claims_nothing_costs_everything_and_is_caught(nzc: Nzc) -> None:
    epsilon = nzc(*FILE, "aggregator=nzc", "audit=true", "audit_trials=20000").result["epsilon"]
    assert epsilon["claimed"] < 1e-7
    assert epsilon["data_independent"] == "inf"
    assert epsilon["audited"] > 7  # log of half the trials over 3.69: all that so many trials can show


def test_nzc_costs_nothing_where_no_vote_can_flip_a_label(nzc: Nzc) -> None:
    np.save("votes.npy", np.tile([30, 20, 0], (10, 1)))
    assert nzc(*FILE, "aggregator=nzc").result["epsilon"]["exact"] == 0
    np.save("votes.npy", np.array([[30, 20, 0], [26, 24, 0]]))
    assert nzc(*FILE, "aggregator=nzc").result["epsilon"]["exact"] == 0
    np.save("votes.npy", np.array([[30, 20, 0], [25, 25, 0]]))
    assert nzc(*FILE, "aggregator=nzc").result["epsilon"]["exact"] == "inf"


@pytest.mark.usefixtures("histograms")
@pytest.mark.parametrize(
    "aggregator",
    [
        ["aggregator=gnmax", "aggregator.sigma=20"],
        ["aggregator=lnmax", "aggregator.gamma=0.02"],
        ["aggregator=gumbel", "aggregator.gamma=0.02"],
        ["aggregator=confident", "aggregator.threshold=40", "aggregator.sigma1=20", "aggregator.sigma=20"],
    ],
)
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
def test_a_budget_for_nothing(nzc: Nzc) -> None:
    for arguments in (["aggregator=nzc"], ["aggregator=plurality"], ["aggregator.sigma=0.1"]):
        ran = nzc(*FILE, *arguments, "budget.epsilon=1")
        assert ran.code == 2
        assert ran.err.startswith("nzc: budget.epsilon=1.0: ")
        assert ran.err.count("\n") == 1


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
        found, trials = ran.result["epsilon"], ran.result["ledger_trials"]
        assert found["exact"] <= found["ledger_released"] <= found["ledger_total"]
        assert ("trials not counted" in ran.out) == (trials > 0)
        return found | {"trials": trials}

    first, costly = epsilon(0.02), epsilon(0.5)
    assert first["ledger_released"] == first["ledger_total"] < costly["ledger_released"] < costly["ledger_total"]
    again = epsilon(0.02)
    assert again["ledger_released"] == first["ledger_released"] and again["ledger_total"] == costly["ledger_total"]
    one, two = epsilon(0.02, "rng=system"), epsilon(0.02, "rng=system", "publish=sanitised")
    assert first["ledger_released"] <= one["ledger_released"] < two["ledger_released"] < costly["exact"]
    assert [each["trials"] for each in (first, costly, again, one, two)] == [0, 1, 1, 2, 2]

    ask = (2, "nzc: --yes=false: must be given where no one can be asked\n")
    assert command("store", "--forget")[::2] == ask
    code, out, _ = command("store", "--forget", "--yes")
    assert code == 0 and "honest only if nobody saw" in out and "forgot 2 trials" in out
    code, out, _ = command("store")
    assert code == 0 and "trials on seeded noise" not in out
    assert command("store", "--forget", "--yes")[:2] == (0, "nothing to forget\n")
    after = epsilon(0.02)
    assert after["ledger_released"] == after["ledger_total"] > two["ledger_released"] and after["trials"] == 0


@pytest.mark.usefixtures("histograms")
def test_a_damaged_ledger_is_one_line(nzc: Nzc) -> None:
    assert nzc(*FILE).code == 0
    Path(".nzc/ledger.db").write_bytes(b"no database" * 100)
    ran = nzc(*FILE)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "ledger" in ran.err


@pytest.mark.usefixtures("histograms")
def test_an_audit_that_contradicts_a_bound_fails_loudly(nzc: Nzc, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler of nzc with a tenth of the noise that its accountant believes in: one's own would be refused before."""
    monkeypatch.setattr(GaussianNoise, "sample", lambda self, shape, rng: rng.normal(scale=self.sigma / 10, size=shape))
    ran = nzc(*FILE, "aggregator=gnmax", "audit=true")
    assert ran.code == 1
    assert "Contradiction" in ran.err
    assert not ran.results
    with pytest.raises(Contradiction):
        NoisyArgmax(GaussianNoise(40)).audit(50, 2, 100, 20_000, 1e-5, np.random.default_rng(0))


@pytest.mark.usefixtures("histograms")
def test_the_sanitised_plan_can_be_fixed(nzc: Nzc) -> None:
    run = [*FILE, "aggregator.sigma=10", "publish=sanitised"]
    free = nzc(*run).result["epsilon"]["sanitised"]
    assert free != nzc(*run, "sanitise.order=3", "sanitise.beta=0.2").result["epsilon"]["sanitised"]


@pytest.mark.parametrize(
    ("arguments", "names", "allows"),
    [
        (["budget.epsilon=-1"], "budget.epsilon=-1", "above 0"),
        (["budget.epsilon=abc"], "budget.epsilon=abc", "a number"),
        (["sanitise.order=1"], "sanitise.order=1", "above 1"),
        (["sanitise.order=0.5"], "sanitise.order=0.5", "above 1"),
        (["sanitise.beta=0"], "sanitise.beta=0", "above 0"),
        (["audit=maybe"], "audit=maybe", "true or false"),
        (["audit_trials=0"], "audit_trials=0", "100 or more"),
        (["aggregator.sigma1=3"], "aggregator.sigma1", "sigma"),
        (["aggregator=confident", "aggregator.sigma1=0"], "aggregator.sigma1=0", "above 0"),
        (["aggregator=confident", "aggregator.sigma1=nan"], "aggregator.sigma1=nan", "finite"),
        (["aggregator=confident", "aggregator.threshold=-1"], "aggregator.threshold=-1", "0 or above"),
        (["aggregator=confident", "aggregator.threshold=x"], "aggregator.threshold=x", "0 or above"),
        (["aggregator=confident", "aggregator.threshold=1e6"], "aggregator.threshold=1000000.0", "at most"),
        (["aggregator=interactive", "aggregator.confidence=1.5"], "aggregator.confidence=1.5", "between 0 and 1"),
        (["aggregator=gumbel", "aggregator.gamma=-1"], "aggregator.gamma=-1", "above 0"),
    ],
)
def test_bad_input(nzc: Nzc, histograms: Path, arguments: list[str], names: str, allows: str) -> None:
    ran = nzc(*FILE, *arguments)
    assert ran.code == 2
    assert ran.err.count("\n") == 1, ran.err
    assert names in ran.err
    assert allows in ran.err
    assert not list(Path.cwd().glob("outputs"))


def test_confident_on_the_published_votes(nzc: Nzc) -> None:
    """SVHN, T = 300, σ₁ = 200, σ₂ = 40: the paper prints 3,464 answers and 5.34 (another noise draw, Mironov's)."""
    path = published("svhn_250_teachers.npy")
    arguments = ["aggregator=confident", "aggregator.threshold=300", "aggregator.sigma1=200", "delta=1e-6"]
    ran = nzc(*VOTES, f"teachers.path={path}", *arguments, "queries=10000")
    assert ran.code == 0, ran.err
    result = ran.result
    assert result["answered"] == pytest.approx(3499, abs=200)
    assert result["epsilon"]["exact"] < 3 < result["epsilon"]["theorem"] < 5.36
    assert json.dumps(result)
