"""The public API: what it exports, what it imports, which inputs it refuses, and what `nzc.run`
leaves behind.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TEACHERS, tracked_runs
from conftest import VOTES as VOTES_FILE
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow import MlflowClient
from omegaconf.basecontainer import BaseContainer

import nzc
from nzc.accounting.rdp import ORDERS
from nzc.app.library import as_overrides
from nzc.runs import checks as prepare
from nzc.validation import InputError

VOTES = np.array([[200, 30, 20], [120, 100, 30], [125, 125, 0]])
HEAVY = {
    "torch",
    "hydra",
    "omegaconf",
    "mlflow",
    "pytorch_lightning",
    "sklearn",
    "pydantic",
    "matplotlib",
}


def _imported(code: str) -> set[str]:
    """Run code in a fresh interpreter; return the top-level modules that it has loaded."""
    script = f"{code}\nimport sys, json; print(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


#: Pretends that packages are not installed: `blocked` says which, by top-level name.
NOT_INSTALLED = """
import sys
from importlib import metadata
class Finder:
    def find_spec(self, name, path=None, target=None):
        if blocked(name.partition(".")[0]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
installed = metadata.version
def version(name):
    if blocked(name):
        raise metadata.PackageNotFoundError(name)
    return installed(name)
metadata.version = version
"""


def test_mechanisms_and_accounting_need_numpy_scipy_and_mpmath_only() -> None:
    assert not _imported("import nzc") & (HEAVY | {"numpy", "scipy"})
    # The standard library itself has modules of other names, such as
    # _sysconfigdata__linux_x86_64-linux-gnu.
    allowed = (
        "needed = {*sys.stdlib_module_names, 'nzc', 'numpy', 'scipy', 'mpmath'}\n"
        "blocked = lambda name: name not in needed and name[0] != '_'"
    )
    used = _imported(
        f"{NOT_INSTALLED}\n{allowed}\n"
        "import nzc.mechanisms, nzc.accounting, pkgutil, numpy as np\nfrom importlib import import_module\n"
        "for package in (nzc.mechanisms, nzc.accounting):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        import_module(module.name)\n"
        "m = nzc.Confident(10, 5, 5); rng = np.random.default_rng(0)\n"
        "c = m.cost([[30, 10]], m.release([[30, 10]], rng))\n"
        "assert 0 < c.epsilon(1e-5).exact < 1e9\n"
        "nzc.accounting.exact_noise.ExactGenerator(np.random.PCG64(0)).round_up(m.noise.exact, 1.0)\n"
        "nzc.calibrate(nzc.GNMax, epsilon=1, delta=1e-5, queries=10); nzc.audit(m, 40, 2, 5, trials=100)\n"
        "nzc.Plan(40, 2, 1.0, queries=(5,)).rows"
    )
    assert {"numpy", "scipy"} <= used and not used & HEAVY


def test_a_run_that_trains_nothing_and_is_not_tracked_needs_no_torch_and_no_mlflow(
    tmp_path: Path,
) -> None:
    np.save(tmp_path / "votes.npy", VOTES)
    # recipe=near_zero has a representation that needs torch: without a dataset there is nothing to
    # place in it.
    recipe = ["recipe=near_zero", "query_choice=first", "aggregator=gnmax", "aggregator.sigma=4"]
    arguments = [
        *VOTES_FILE,
        *recipe,
        "teachers.path=votes.npy",
        "queries=2",
        "tracking=none",
        "figures=false",
    ]
    used = _imported(
        f"{NOT_INSTALLED}\nblocked = lambda name: name in ('mlflow', 'mlflow-skinny')\nimport os\n"
        f"os.chdir({str(tmp_path)!r}); sys.argv = ['nzc', *{arguments}]\nfrom nzc.app.main import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code"
    )
    assert "nzc" in used and not used & {"torch", "matplotlib"}
    (result,) = tmp_path.glob("outputs/**/result.json")
    versions = json.loads(result.read_text())["versions"]
    assert "mlflow" not in versions and versions["numpy"] == np.__version__


def test_the_command_answers_without_slow_imports(tmp_path: Path) -> None:
    begin = f"import os, sys; os.chdir({str(tmp_path)!r})\nfrom nzc.app.main import main"
    for words, slow in (
        (["--help"], {"numpy"}),
        (["querys=10"], {"numpy"}),
        (["seed=-1"], {"sklearn", "pandas"}),
    ):
        used = _imported(
            f"{begin}\nsys.argv = ['nzc', *{words}]\ntry: main()\nexcept SystemExit: pass"
        )
        assert "hydra" in used
        assert not used & {"torch", "pytorch_lightning", "mlflow", "matplotlib", *slow}, words


#: Runs `nzc` until it first writes to a stream, and prints what is imported then.
UNTIL = """
import json, os, sys
from nzc.app.main import main
class Stream:
    def write(self, text):
        names = sorted({{name.partition('.')[0] for name in sys.modules}})
        print(json.dumps([text, names]), file=sys.__stdout__, flush=True)
        os._exit(0)
    def flush(self): pass
sys.{stream}, sys.argv = Stream(), ["nzc", *{words}]
main()
"""


def _at_first(stream: str, words: list[str], cwd: Path) -> tuple[str, set[str]]:
    """Return what `nzc` first writes to a stream, and the top-level modules that it has loaded
    then.
    """
    code = UNTIL.format(stream=stream, words=words)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=True
    )
    text, names = json.loads(done.stdout)
    return text, set(names)


def test_a_run_says_what_it_combines_before_slow_imports(tmp_path: Path) -> None:
    text, imported = _at_first("stderr", ["student=vat"], tmp_path)
    assert text == "nzc: dataset=digits teachers=ensemble aggregator=gnmax student=vat"
    assert "hydra" in imported and not imported & {
        "numpy",
        "scipy",
        "pandas",
        *HEAVY - {"hydra", "omegaconf"},
    }


def test_the_table_waits_for_no_tracker_and_no_figure(tmp_path: Path) -> None:
    """Neither where the database is new, nor where it has runs of this experiment."""
    np.save(tmp_path / "votes.npy", VOTES)
    words = [*VOTES_FILE, "teachers.path=votes.npy", "queries=2", "tracking=mlflow", "figures=true"]
    nzc_there = [sys.executable, "-m", "nzc", *words]
    for _ in range(2):
        _, imported = _at_first("stdout", words, tmp_path)
        assert "scipy" in imported and not imported & {
            "mlflow",
            "sqlalchemy",
            "matplotlib",
            "pandas",
            "torch",
        }
        if not (tmp_path / "mlflow.db").exists():
            subprocess.run(nzc_there, cwd=tmp_path, capture_output=True, check=True)


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in nzc.__all__:
        assert getattr(nzc, name).__doc__ and name in dir(nzc), name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        nzc.Nothing  # noqa: B018
    assert (Path(nzc.__file__).parent / "py.typed").is_file()


def test_lists_are_votes_and_costs_add() -> None:
    mechanism = nzc.LNMax(0.1)
    once = mechanism.cost(VOTES.tolist(), [0, 0, 1])
    assert (
        once.epsilon(1e-5).exact == mechanism.cost(VOTES, np.array([0, 0, 1])).epsilon(1e-5).exact
    )
    twice = mechanism.cost([*VOTES, *VOTES], [0, 0, 1] * 2)
    added = once + once
    np.testing.assert_allclose(added.rdp(ORDERS), twice.rdp(ORDERS), rtol=1e-12)
    assert (
        added.epsilon(1e-5).exact > twice.epsilon(1e-5).exact
    )  # the second release may depend on the first
    assert added.epsilon(1e-5).data_independent == twice.epsilon(1e-5).data_independent


@pytest.mark.parametrize(
    ("votes", "says"),
    [
        ([[3, -1]], "counts from 0"),
        ([[np.nan, 1]], "whole numbers"),
        ([[3, 1], [2, 1]], "row 1 does not"),
        ([[3, 1], [2]], "one length"),
        ([[[3, 1]]], r"\[queries, 2 or more classes\]"),
        (
            np.random.default_rng(0).integers(0, 10, (250, 1000)),
            "nzc.count_votes",
        ),  # predictions, not histograms
    ],
)
def test_wrong_votes_are_refused(votes: object, says: str) -> None:
    mechanism = nzc.GNMax(40)
    for use in (
        lambda: mechanism.release(votes, np.random.default_rng(0)),
        lambda: mechanism.cost(votes, [0]),
    ):  # type: ignore[arg-type]
        with pytest.raises(InputError, match=says):
            use()


@pytest.mark.parametrize("delta", [0, 1, np.nan, "1e-5"])
def test_a_delta_outside_0_to_1_is_refused(delta: object, tmp_path: Path) -> None:
    cost = nzc.GNMax(40).cost(VOTES, [0, 0, 1])
    ledger = nzc.Ledger(tmp_path / "ledger.db")
    for use in (
        cost.epsilon, partial(ledger.total, "hospital"), partial(nzc.calibrate, nzc.GNMax, 1, queries=10),
        lambda delta: nzc.audit(nzc.GNMax(40), 250, 10, 10, delta=delta),
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"delta=.*strictly between 0 and 1"):
            use(delta=delta)  # type: ignore[operator]


def test_wrong_labels_and_probabilities_are_refused() -> None:
    mechanism = nzc.Interactive(20, 5, 5, 0.9)
    for labels in ([0, 0], [0, 0, 3], [0, 0, -2]):
        with pytest.raises(InputError, match="labels="):
            mechanism.cost(VOTES, labels, None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="student_probs="):
        mechanism.release(VOTES, np.random.default_rng(0), np.ones((3, 2)) / 2)


@pytest.mark.parametrize(
    ("mechanism", "queries", "epsilon"),
    [
        (nzc.GNMax, 50, 8.0), (nzc.LNMax, 100, 0.1), (nzc.Gumbel, 100, 8.0), (nzc.PermuteAndFlip, 10, 0.2),
        (partial(nzc.Stable, threshold=8000), 50, 0.1), (partial(nzc.Confident, threshold=200, sigma1=150), 10, 8.0),
        (partial(nzc.NZC, c=5.0), 10, 0.1),
    ],
)  # fmt: skip
def test_calibrated_noise_spends_the_budget_and_no_more(
    mechanism: object, queries: int, epsilon: float
) -> None:
    noise = nzc.calibrate(mechanism, epsilon=epsilon, delta=1e-5, queries=queries)  # type: ignore[arg-type]
    built = mechanism(**{nzc.accounting.calibration._free(mechanism): noise})  # type: ignore[operator, arg-type]
    numeric = getattr(mechanism, "func", mechanism) in (
        nzc.LNMax,
        nzc.GNMax,
        nzc.Gumbel,
        nzc.Stable,
        nzc.Confident,
    )
    assert (
        epsilon * (1 - (1e-3 if numeric else 1e-5))
        <= built.worst_case_epsilon(queries, 1e-5)
        <= epsilon
    )


@pytest.mark.parametrize("inverse", [False, True])
def test_no_noise_that_is_found_costs_more_than_was_asked(inverse: bool) -> None:
    """Of a mechanism whose costs are known by hand, rough and precise, at any ε."""

    class Known:
        def __init__(self, noise: float) -> None:
            self.scale = 1 / noise if inverse else noise

        def worst_case_epsilon(self, queries: int, delta: float, rough: bool = False) -> float:
            return queries / self.scale * (1.3 if rough else 1 + 0.1 * np.tanh(self.scale))

    for epsilon in np.geomspace(1e-3, 100, 60).tolist():
        for rough in (False, True):
            noise = nzc.calibrate(Known, epsilon, 1e-5, 7, rough=rough)
            assert 0.999 * epsilon <= Known(noise).worst_case_epsilon(7, 1e-5, rough) <= epsilon


@pytest.mark.parametrize(
    ("build", "epsilon", "delta", "queries"),
    [(nzc.Gumbel, 0.0128, 0.1, 3), (nzc.PermuteAndFlip, 1e-4, 0.05, 2)],
)
def test_calibrated_noise_spends_epsilon_where_delta_alone_pays_for_more_noise(
    build: Callable[[float], nzc.NoisyArgmax], epsilon: float, delta: float, queries: int
) -> None:
    noise = nzc.calibrate(build, epsilon, delta, queries)
    assert epsilon * (1 - 1e-3) <= build(noise).worst_case_epsilon(queries, delta) <= epsilon


def test_where_a_bound_jumps_the_least_noise_that_is_enough_is_calibrated() -> None:
    class Jump:
        def __init__(self, sigma: float) -> None:
            self.sigma = sigma

        def worst_case_epsilon(self, queries: int, delta: float, rough: bool = False) -> float:
            return 0.0 if self.sigma >= (4.0 if rough else 3.0) else 2.0

    assert nzc.calibrate(Jump, 1.0, 1e-5, 1) == pytest.approx(3.0, rel=2e-5)
    assert nzc.calibrate(lambda gamma: Jump(1 / gamma), 1.0, 1e-5, 1) == pytest.approx(
        1 / 3, rel=2e-5
    )


def _state() -> list[object]:
    """Return global state that a run could change: of Hydra, OmegaConf and the process."""
    os.umask(umask := os.umask(0))
    hydra = GlobalHydra.instance().is_initialized(), set(ConfigStore.instance().repo)
    process = (
        signal.getsignal(signal.SIGTERM),
        [*sys.path],
        [*sys.argv],
        Path.cwd(),
        "from_python" in sys.modules,
    )
    return [*hydra, set(BaseContainer._resolvers), umask, *process]


def _own_aggregator(sigma: int) -> None:
    """Write an aggregator `mine` into the working directory."""
    Path("from_python.py").write_text(
        f"import nzc\ndef aggregator():\n    return nzc.GNMax({sigma})\n"
    )
    Path("conf/aggregator").mkdir(parents=True)
    Path("conf/aggregator/mine.yaml").write_text("_target_: from_python.aggregator\n")


def test_a_run_from_python_leaves_no_state_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _own_aggregator(sigma=2)
    before = _state()
    result = nzc.run(
        TEACHERS, tracking=None, student={"steps": 30}, aggregator="mine", queries=50, figures=False
    )
    assert (
        _state() == before and not prepare._loaded
    )  # nor private records, in memory or in a temporary file
    assert isinstance(result, nzc.RunResult) and result.epsilon.exact is not None
    assert result.folder is not None and result == nzc.RunResult.read(result.folder)
    assert (result.folder / ".hydra" / "config.yaml").is_file()
    assert (
        result.labels is not None
        and result.predictions is not None
        and result.probabilities is not None
    )
    written = np.loadtxt(result.folder / "labels.csv", delimiter=",", skiprows=1, dtype=int)
    assert (result.labels[:50] == written[:, 1]).all() and (result.labels[50:] == nzc.ABSTAIN).all()
    lines = [
        line.split(",") for line in (result.folder / "predictions.csv").read_text().splitlines()[1:]
    ]
    np.testing.assert_allclose(
        result.probabilities, np.array(lines)[:, 4:].astype(float), atol=1e-4
    )
    assert [line[1] for line in lines[50:]] == [str(label) for label in result.predictions[50:]]
    assert "labels" not in result.as_dict() and "array" not in repr(result)


@pytest.mark.usefixtures("nzc")
def test_a_sweep_from_python_is_that_of_the_command(
    histograms: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Twice in a process, each time in another folder with a module of the same name."""
    own = {"dataset": None, "student": None, "teachers": "votes", "teachers.path": histograms}
    for sigma in (5, 7):
        (place := histograms.parent / str(sigma)).mkdir()
        monkeypatch.chdir(place)
        _own_aggregator(sigma)
        before = _state()
        jobs = nzc.sweep(
            own | {"aggregator": ["gnmax", "mine"]}, queries=range(10, 1000, 989), figures=False
        )
        assert _state() == before
        folder = Path(jobs.attrs["folder"])
        assert folder.is_relative_to(place) and (folder / "report.html").is_file()
        assert jobs.equals(nzc.read_sweep(folder)) and jobs["queries"].tolist() == [10, 999] * 2
        assert (
            jobs["failure"].isna().tolist() == [True, False] * 2
            and "from 1 to 40" in jobs["failure"][1]
        )
        assert f"(sigma={sigma})" in jobs["mechanism"][2]
        parent, *children = tracked_runs(MlflowClient(f"sqlite:///{place}/mlflow.db"))
        assert len(children) == 4 and parent.data.metrics["jobs_failed"] == 2
    assert capfd.readouterr().out == ""
    with pytest.raises(InputError, match="sigm=1: must be one of the keys of aggregator"):
        nzc.sweep(own, aggregator={"sigm": [1, 2]})


@given(
    st.text()
    | st.none()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.lists(st.text() | st.integers())
)
@settings(derandomize=True, deadline=None, max_examples=150)
def test_python_values_are_what_hydra_reads(value: object) -> None:
    parse = OverridesParser.create().parse_override
    assert parse(as_overrides({"a": {"b": value}}, {})[0]).value() == value
    (word,) = as_overrides({}, {"key": [value, {"_target_": "x", "y": value}]}, grid=True)
    read = [parse(f"++key={text}").value() for text in parse(word).sweep_string_iterator()]
    assert read == [value, {"_target_": "x", "y": value}]


def test_settings_are_flat_but_for_objects_of_a_group() -> None:
    network = {"_target_": Path, "hidden": np.int64(3)}
    words = as_overrides(
        {"aggregator": "gnmax", "teachers": {"network": network}},
        {"student": None, "rounds": (6, 4)},
    )
    assert words == [
        "aggregator=gnmax", "++teachers.network={_target_:pathlib.Path,hidden:3}", "student=none", "rounds=[6,4]",
    ]  # fmt: skip
    assert as_overrides(["seed=1"], {"rounds": [(6, 4), None], "seed": np.arange(2)}, grid=True) == [
        "seed=1", "rounds=[6,4],null", "seed=0,1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["seed=-1"], "seed=-1: must be"), (["sed=1"], "did you mean seed"), (["aggregator=foo"], "aggregator=foo"),
        (["+sweeps=digits"], "nzc.sweep runs several"), (["seed=1,2"], "seed"), ("seed=1", "settings=seed=1: must be"),
        ({"aggregator": 5}, "aggregator=5: must be"), ({"seed": object()}, "seed=object: must be"),
        (["student=7"], "=7:"),
    ],
)  # fmt: skip
def test_a_run_from_python_refuses_wrong_input(
    overrides: Any, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=says):
        nzc.run(overrides)
    assert not GlobalHydra.instance().is_initialized()
    assert not list(tmp_path.iterdir())
