"""The public API: its names and imports, the inputs that it refuses, and what `nzc.run` leaves."""

import json
import logging
import os
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TEACHERS, parametrize, write
from conftest import VOTES as VOTES_FILE
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf.basecontainer import BaseContainer
from pytest import CaptureFixture, raises

import nzc
from nzc.app.library import as_overrides
from nzc.data import cache
from nzc.validation import InputError

VOTES = np.array([[200, 30, 20], [120, 100, 30], [125, 125, 0]])
SLOW = {"torch", "pytorch_lightning", "mlflow", "sqlalchemy", "matplotlib"}
HEAVY = SLOW | {"hydra", "omegaconf", "sklearn", "pydantic", "pandas"}


def _python(code: str, cwd: Path) -> str:
    """Run code in a fresh interpreter; return the last line that it prints."""
    arguments = [sys.executable, "-c", code]
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def _imported(code: str, cwd: Path) -> set[str]:
    """Run code in a fresh interpreter; return the top-level modules that it has loaded."""
    names = "sorted({name.partition('.')[0] for name in sys.modules})"
    return set(json.loads(_python(f"{code}\nimport sys, json; print(json.dumps({names}))", cwd)))


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
#: Uses mechanisms, accounting and planning where only numpy, scipy and mpmath are installed. The
#: standard library itself has modules of other names, such as _sysconfigdata__linux.
LIBRARY = f"""{NOT_INSTALLED}
needed = {{*sys.stdlib_module_names, 'nzc', 'numpy', 'scipy', 'mpmath'}}
blocked = lambda name: name not in needed and name[0] != '_'
import nzc
assert not {HEAVY | {"numpy", "scipy"}} & set(sys.modules)
import nzc.mechanisms, nzc.accounting, nzc.planning, pkgutil, numpy as np
from importlib import import_module
for package in (nzc.mechanisms, nzc.accounting, nzc.planning):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):
        import_module(module.name)
mechanism = nzc.Confident(10, 5, 5)
cost = mechanism.cost([[30, 10]], mechanism.release([[30, 10]], np.random.default_rng(0)))
assert 0 < cost.epsilon(1e-5).exact < 1e9
exact = nzc.accounting.exact_noise.ExactGenerator(np.random.PCG64(0))
exact.round_up(mechanism.noise.exact, 1.0)
nzc.calibrate(nzc.GNMax, epsilon=1, delta=1e-5, queries=10)
nzc.audit(mechanism, 40, 2, 5, trials=100)
nzc.Plan(40, 2, 1.0, queries=(5,)).rows
"""


def test_the_library_needs_numpy_scipy_and_mpmath_only(
    tmp_path: Path,
) -> None:
    used = _imported(LIBRARY, tmp_path)
    assert {"numpy", "scipy"} <= used
    assert not used & HEAVY


#: Runs the command line with these words.
COMMAND = """
import sys
from nzc.app.main import main
sys.argv = ["nzc", *{words}]
try:
    main()
except SystemExit as stop:
    assert stop.code in {codes}
"""


def test_a_run_without_networks_needs_no_torch_and_no_mlflow(tmp_path: Path) -> None:
    """Of votes, and of forests that vote, in one process."""
    np.save(tmp_path / "votes.npy", VOTES)
    common = ["student=none", "tracking=none", "figures=false", "trainer.progress=false"]
    # recipe=near_zero has a representation that needs torch: without a dataset there is nothing to
    # place in it.
    votes = [*VOTES_FILE, "recipe=near_zero", "query_choice=first", "aggregator=gnmax"]
    votes += ["aggregator.sigma=4", "teachers.path=votes.npy", "queries=2"]
    forests = ["teachers=forest", "teachers.count=10", "teachers.estimator.n_estimators=3"]
    forests += ["teachers.parallel=1", "aggregator=plurality"]
    blocked = "blocked = lambda name: name in ('mlflow', 'mlflow-skinny')"
    code = [NOT_INSTALLED, blocked]
    for name, words in (("votes", votes), ("forests", forests)):
        words = [*words, *common, f"hydra.run.dir={name}"]
        code.append(COMMAND.format(words=words, codes=(0, None)))
    used = _imported("\n".join(code), tmp_path)
    assert not used & {"torch", "matplotlib"}
    versions = json.loads((tmp_path / "votes" / "result.json").read_text())["versions"]
    assert "mlflow" not in versions
    result = json.loads((tmp_path / "forests" / "result.json").read_text())
    assert result["teachers"]["ensemble_accuracy"] > 0.8


#: Runs `nzc` until it first writes, and prints what is imported then.
UNTIL = """
import json, os, sys
from nzc.app.main import main
class Stream:
    def write(self, text):
        names = sorted({{name.partition('.')[0] for name in sys.modules}})
        print(json.dumps([text, names]), file=sys.__stdout__, flush=True)
        os._exit(0)
    def flush(self): pass
sys.stdout, sys.argv = Stream(), ["nzc", *{words}]
main()
"""
SHOWN = [*VOTES_FILE, "teachers.path=votes.npy", "queries=2", "tracking=mlflow", "figures=true"]


@parametrize(
    ("words", "says", "slow"),
    [(["--help"], "nzc", {"numpy"}), (SHOWN, "none · gnmax", {"pandas"})],
    ids=["help", "table"],
)
def test_what_is_shown_waits_for_no_slow_import(
    words: list[str], says: str, slow: set[str], tmp_path: Path
) -> None:
    np.save(tmp_path / "votes.npy", VOTES)
    text, names = json.loads(_python(UNTIL.format(words=words), tmp_path))
    assert text.strip().startswith(says)
    assert not {*names} & (SLOW | slow)


def test_every_public_name_exists_and_has_a_docstring() -> None:
    assert {*nzc.__all__} <= {*dir(nzc)}
    for name in nzc.__all__:
        assert getattr(nzc, name).__doc__, name
    with raises(AttributeError, match="no attribute 'Nothing'"):
        nzc.Nothing  # noqa: B018
    assert (Path(nzc.__file__).parent / "py.typed").is_file()


@parametrize("number", [np.float16, np.int8, Fraction, np.array])
def test_numbers_and_seeds_of_other_types_are_pythons_own(number: Any) -> None:
    mechanism = nzc.GNMax(number(8))
    assert repr(mechanism) in ("GNMax(sigma=8)", "GNMax(sigma=8.0)")
    drawn = nzc.GNMax(8).release(VOTES, np.random.default_rng(5))
    assert (mechanism.release(VOTES, np.int8(5)) == drawn).all()


@parametrize(
    ("use", "says"),
    [
        (lambda: nzc.GNMax.cost(VOTES, [0]), "write nzc.GNMax.sigma=…"),
        (lambda: nzc.audit(nzc.LNMax, 9, 2, 1), "write nzc.LNMax.gamma=…"),
        (lambda: nzc.Counts(1).between(nzc.OwnCells), "write nzc.OwnCells"),
        (lambda: nzc.calibrate(nzc.GNMax(3), 1, 1e-5, 9), "such as nzc.GNMax"),
        (lambda: nzc.GNMax(3).release(VOTES, None), "rng=null: must be a seed"),
    ],
)
def test_a_class_in_place_of_an_object_is_refused(use: Any, says: str) -> None:
    with raises(InputError, match=says):
        use()


@parametrize(
    ("votes", "says"),
    [
        ([[3, -1]], "counts from 0"),
        ([[np.nan, 1]], "whole numbers"),
        ([[3, 1], [2, 1]], "row 1 does not"),
        ([[[3, 1]]], r"\[queries, 2 or more classes\]"),
        (np.tri(250, 1000, dtype=int), "nzc.count_votes"),  # predictions, not histograms
    ],
)
@parametrize(("use", "argument"), [("release", np.random.default_rng(0)), ("cost", [0])])
def test_wrong_votes_are_refused(votes: Any, says: str, use: str, argument: object) -> None:
    with raises(InputError, match=f"votes=.*{says}"):
        getattr(nzc.GNMax(40), use)(votes, argument)


@parametrize("delta", [0, 1, np.nan, "1e-5"])
@parametrize(
    "use",
    [
        nzc.GNMax(40).cost(VOTES, [0, 0, 1]).epsilon,
        partial(nzc.calibrate, nzc.GNMax, 1, queries=10),
        partial(nzc.audit, nzc.GNMax(40), 250, 10, 10),
        lambda delta: nzc.Ledger("ledger.db").total("hospital", delta=delta),
    ],
)
def test_a_delta_outside_0_to_1_is_refused(delta: object, use: Any, here: Path) -> None:
    with raises(InputError, match=r"delta=.*strictly between 0 and 1"):
        use(delta=delta)


@parametrize("labels", [[0, 0], [0, 0, 3], [0, 0, -1], [0, 0, 0.5], [0, 0, np.nan], ["a"] * 3])
def test_wrong_labels_are_refused(labels: Any) -> None:
    with raises(InputError, match="labels="):
        nzc.GNMax(5).cost(VOTES, labels)


def _state() -> list[object]:
    """Return global state that a run could change: of Hydra, OmegaConf and the process."""
    umask = os.umask(0)
    os.umask(umask)
    return [
        GlobalHydra.instance().is_initialized(),
        set(ConfigStore.instance().repo),
        set(BaseContainer._resolvers),
        umask,
        signal.getsignal(signal.SIGTERM),
        [*sys.path],
        [*sys.argv],
        Path.cwd(),
        "from_python" in sys.modules,
        [logging.getLogger(name).level for name in ("mlflow", "urllib3", "alembic")],
        {name for name in os.environ if name.startswith("MLFLOW_")},
        [*warnings.filters],
        warnings.showwarning,
    ]


def _own_aggregator(sigma: int) -> None:
    """Write an aggregator `mine` into the working directory."""
    code = f"import nzc\ndef aggregator():\n    return nzc.GNMax({sigma})\n"
    Path("from_python.py").write_text(code)
    write("conf/aggregator/mine.yaml", "_target_: from_python.aggregator\n")


def test_a_run_from_python_leaves_no_state_behind(here: Path) -> None:
    _own_aggregator(sigma=2)
    before = _state()
    result = nzc.run(
        TEACHERS, tracking=None, student={"steps": 30}, aggregator="mine", queries=50, figures=False
    )
    assert _state() == before
    assert not cache._loaded  # nor private records, in memory or in a temporary file
    assert isinstance(result, nzc.RunResult)
    assert result.epsilon.exact is not None
    assert result.folder is not None
    assert result == nzc.RunResult.read(result.folder)
    assert (result.folder / ".hydra" / "config.yaml").is_file()
    assert "labels" not in result.as_dict()

    assert result.labels is not None
    written = np.loadtxt(result.folder / "labels.csv", delimiter=",", skiprows=1, dtype=int)
    assert (result.labels[:50] == written[:, 1]).all()
    assert (result.labels[50:] == nzc.ABSTAIN).all()
    predictions = np.loadtxt(result.folder / "predictions.csv", str, delimiter=",", skiprows=1)
    probabilities = predictions[:, 4:].astype(float)
    np.testing.assert_allclose(result.probabilities, probabilities, atol=1e-4)


@pytest.mark.usefixtures("run_nzc")
def test_a_sweep_from_python_is_that_of_the_command(
    histograms: Path, capfd: CaptureFixture[str]
) -> None:
    own = {"dataset": None, "student": None, "teachers": "votes", "teachers.path": histograms}
    _own_aggregator(sigma=5)
    before = _state()
    with ThreadPoolExecutor(3) as threads:  # which wait for each other
        more = {"aggregator": "mine", "figures": False}
        swept = threads.submit(nzc.sweep, own, queries=range(10, 1000, 989), **more)
        runs = [threads.submit(nzc.run, own, seed=seed, tracking=None, **more) for seed in (3, 4)]
    assert [run.result().seed for run in runs] == [3, 4]
    jobs = swept.result()
    assert _state() == before
    folder = Path(jobs.attrs["folder"])
    assert (folder / "report.html").is_file()
    assert jobs.equals(nzc.read_sweep(folder))
    assert jobs["queries"].tolist() == [10, 999]
    assert jobs["failure"].isna().tolist() == [True, False]
    assert "from 1 to 40" in jobs["failure"][1]
    assert "(sigma=5)" in jobs["mechanism"][0]
    assert capfd.readouterr().out == ""
    with raises(InputError, match="sigm=1: must be one of the keys of aggregator"):
        nzc.sweep(own, aggregator={"sigm": [1, 2]})


@given(
    st.text()
    | st.none()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.lists(st.text() | st.integers())
)
@settings(derandomize=True, deadline=None, max_examples=10)
def test_python_values_are_what_hydra_reads(value: object) -> None:
    parse = OverridesParser.create().parse_override
    assert parse(as_overrides({"a": {"b": value}}, {})[0]).value() == value
    values = [value, {"_target_": "x", "y": value}]
    (word,) = as_overrides({}, {"key": values}, grid=True)
    read = [parse(f"++key={text}").value() for text in parse(word).sweep_string_iterator()]
    assert read == values


def test_settings_are_flat_but_for_objects_of_a_group() -> None:
    network = {"_target_": Path, "hidden": np.int64(3)}
    config = {"aggregator": "gnmax", "teachers": {"network": network}}
    assert as_overrides(config, {"student": None, "rounds": (6, 4)}) == [
        "aggregator=gnmax",
        "++teachers.network={_target_:pathlib.Path,hidden:3}",
        "student=none",
        "rounds=[6,4]",
    ]
    grid = {"rounds": [(6, 4), None], "seed": np.arange(2)}
    assert as_overrides(["seed=1"], grid, grid=True) == ["seed=1", "rounds=[6,4],null", "seed=0,1"]


@parametrize(
    ("overrides", "says"),
    [
        (["seed=-1"], "seed=-1: must be"),
        (["sed=1"], "did you mean seed"),
        (["+sweeps=digits"], "nzc.sweep runs several"),
        ("seed=1", "settings=seed=1: must be"),
        ({"aggregator": 5}, "aggregator=5: must be"),
        ({"seed": object()}, "seed=object: must be"),
        (["student=7"], "=7:"),
    ],
)
def test_a_run_from_python_refuses_wrong_input(overrides: Any, says: str, here: Path) -> None:
    with raises(InputError, match=says):
        nzc.run(overrides)
    assert not GlobalHydra.instance().is_initialized()
    assert not list(here.iterdir())
