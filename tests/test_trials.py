"""Trials: attacks of membership_attacks.py where the answer is known in closed form, and whether faults are seen."""

import os
import signal
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import norm

from nzc.accounting.data_independent import gaussian
from nzc.mechanisms import GaussianNoise, GumbelNoise, NoisyArgmax, NoNoise

FPR = 0.01
TRIALS = Path(__file__).parents[1] / "trials"


@pytest.fixture(scope="module")
def attacks() -> ModuleType:
    path = TRIALS / "membership_attacks.py"
    spec = spec_from_file_location("membership_attacks", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["membership_attacks"] = module_from_spec(spec)  # dataclasses look up their module there
    spec.loader.exec_module(module)
    return module


def worlds(distance: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return scores N(level + distance·[in], 1), where the levels of the records differ widely, and the membership."""
    member = rng.random((300, 300)) < 0.5
    return rng.normal(size=member.shape) + distance * member + rng.normal(0, 5, size=300), member


@pytest.mark.parametrize("distance", [0.5, 1.5, 3.0])
def test_lira_is_the_likelihood_ratio(attacks: ModuleType, distance: float) -> None:
    """Two Gaussians: AUC Φ(d/√2), true positives 1 − Φ(Φ⁻¹(1 − f) − d), accuracy Φ(d/2). Raw scores are far worse."""
    rng = np.random.default_rng(0)
    scores, member = worlds(distance, rng)
    found = attacks.measure(attacks.lira(scores, member), member, FPR, rng, resamples=40)
    known = [norm.cdf(distance / 2**0.5), norm.sf(norm.isf(FPR) - distance), norm.cdf(distance / 2)]
    assert [each.value for each in found] == pytest.approx(known, abs=0.015)
    assert all(each.low < each.value < each.high for each in found)
    assert attacks.measure(scores, member, FPR, rng, resamples=2)[0].value < found[0].value - 0.05


def test_no_difference_is_chance(attacks: ModuleType) -> None:
    rng = np.random.default_rng(0)
    scores, member = worlds(0.0, rng)
    found = attacks.measure(attacks.lira(scores, member), member, FPR, rng, resamples=40)
    assert [each.value for each in found] == pytest.approx([0.5, FPR, 0.5], abs=0.01)


def test_equal_scores_are_a_coin_and_certainty_has_an_interval(attacks: ModuleType) -> None:
    rng, member = np.random.default_rng(0), np.arange(200)[:, None] < 100
    blind = attacks.measure(np.zeros((200, 1)), member, FPR, rng, resamples=2)
    assert [each.value for each in blind] == pytest.approx([0.5, FPR, 0.5])
    certain = attacks.measure(np.where(member, 700.0, -700.0), member, FPR, rng, resamples=2)
    assert [(each.value, each.high) for each in certain] == [(1.0, 1.0)] * 3
    assert certain[1].low == pytest.approx(0.025 ** (1 / 100))  # Clopper–Pearson


def test_labels_reveal_what_the_law_says(attacks: ModuleType) -> None:
    """One query with two classes: an outcome of probability p with the record and q without has AUC (1 + p − q)/2.

    Without noise the attack always succeeds. On many queries no attack does better than (ε, δ) allows.
    """
    rng = np.random.default_rng(0)

    def play(mechanism: NoisyArgmax, queries: int, games: int) -> list:
        pair = attacks.worst_pair(mechanism, 50, 2)
        sides = (np.tile(side, (queries, 1)) for side in pair)
        scores, member = attacks.attack_labels(mechanism, *sides, np.zeros(queries, np.int64), 1, games, rng)
        return attacks.measure(scores, member, FPR, rng, resamples=40)

    noisy = NoisyArgmax(GumbelNoise(1.0))
    here, there = np.exp(noisy.log_law(np.stack(attacks.worst_pair(noisy, 50, 2))))
    assert play(noisy, 1, 5000)[0].value == pytest.approx((1 + abs(here - there)[0]) / 2, abs=0.02)
    assert play(NoisyArgmax(NoNoise()), 1, 100)[1].value == 1.0
    epsilon = gaussian((2 * 100) ** 0.5 / 20, 1e-5)
    assert FPR < play(NoisyArgmax(GaussianNoise(20.0)), 100, 2000)[1].low < np.exp(epsilon) * FPR + 1e-5


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TRIALS))


@pytest.mark.usefixtures("on_path")
def test_a_trap_ends_a_process_between_two_files(tmp_path: Path) -> None:
    """Before its third write below the folder; reading, and writing elsewhere, do not count."""
    cases = import_module("_cases")
    home, log = tmp_path / "home", tmp_path / "log"
    home.mkdir()
    if not (process := os.fork()):
        cases.WriteTrap(home, 3, log).install()
        for name in ("first", "second", "third"):
            (tmp_path / name).write_text(name)
            (home / name).write_text((tmp_path / name).read_text())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    assert sorted(path.name for path in home.iterdir()) == ["first", "second"]
    assert log.read_text().split() == [word for name in ("first", "second", "third") for word in ("open", name)]


@pytest.mark.usefixtures("on_path")
def test_snapshots_find_what_is_lost_and_what_is_changed(tmp_path: Path) -> None:
    """Content, mode, time and the target of a link; a file that is added is no loss."""
    cases = import_module("_cases")
    for name in ("content", "mode", "time", "lost", "same"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "link").symlink_to("same")
    before = cases.snapshot(tmp_path)
    (tmp_path / "content").write_text("ours")
    (tmp_path / "mode").chmod(0o600 if (tmp_path / "mode").stat().st_mode & 0o77 else 0o644)
    os.utime(tmp_path / "time", (1, 1))
    (tmp_path / "lost").unlink()
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("mode")
    (tmp_path / "new").mkdir()
    after = cases.snapshot(tmp_path)
    assert cases.differences(before, after) == "lost lost, changed content link mode time"
    assert cases.differences(after, after) == ""
    assert cases.differences(before, after, added=True).endswith("new new")


@pytest.mark.usefixtures("on_path")
def test_a_trace_says_what_was_opened_for_writing(tmp_path: Path) -> None:
    """Relative paths, those below an open folder, and both names of a rename; no reads, failures and devices."""
    trace = (
        '7 openat(AT_FDCWD</w>, "read", O_RDONLY|O_CLOEXEC) = 3</w/read>\n'
        '7 openat(AT_FDCWD</w>, "a\\303\\244", O_WRONLY|O_CREAT, 0600) = 3</w/a>\n'
        '[pid 8] openat(5</deep/x>, "../b", O_RDWR) = 4</deep/b>\n'
        '8 openat(AT_FDCWD</w>, "failed", O_RDWR) = -1 ENOENT (No such file or directory)\n'
        '8 openat(AT_FDCWD</w>, "/dev/null", O_RDWR) = 4\n'
        '8 rename("c", "/e") = 0\n'
        '8 symlink("target", "f") = 0\n'
    )
    found = import_module("opened").changed(trace, Path("/w"))
    assert sorted(found) == ["/deep/b", "/e", "/w/aä", "/w/c", "/w/f"]


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(
    "name", ["joblib.load", "torch.load", "numpy.load", "shutil.copy", "os.system", "builtins.exec"]
)
def test_payloads_of_the_trials_are_live(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each makes the file PAYLOAD if its target is called: a trial in which none appears has shown something."""
    targets = import_module("fuzz_targets")
    monkeypatch.chdir(tmp_path)
    targets.write_payloads(tmp_path)
    assert not (tmp_path / "PAYLOAD").exists()
    target = dict(next(each for each in targets.TARGETS if each["_target_"] == name))
    resolve_name(target.pop("_target_"))(*target.pop("_args_", []), **target)
    assert (tmp_path / "PAYLOAD").exists()
