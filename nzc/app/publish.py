"""The subcommand nzc publish: check a run against the ledger, and copy what may be published of it,
and nothing else.

docs/label.md says what the folder has. Accuracies are not published: the true labels behind them
have no protection.
"""

import json
import math
import re
import shlex
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jinja2 import StrictUndefined, Template
from omegaconf import OmegaConf
from scipy.special import expit

from nzc.accounting.epsilon import SANITISED
from nzc.app.build import build
from nzc.app.components import build_policy
from nzc.app.config import name_of_people
from nzc.app.errors import Parser
from nzc.labeling import totals as people
from nzc.labeling.bound import Promise
from nzc.labeling.ledger import Ledger
from nzc.labeling.ledger_entry import RELEASE
from nzc.labeling.randomness import SYSTEM
from nzc.runs.formatting import number
from nzc.runs.layout import (
    COUNTS,
    ERROR,
    LABELS,
    PREDICTIONS,
    RESULT,
    STUDENT,
    STUDENT_INPUT,
    SWEEP,
)
from nzc.runs.outputs import student_code
from nzc.storage.predictions import PredictionStore
from nzc.validation import InputError, in_a_line

_CONFIGURATION = (".hydra/config.yaml", ".hydra/hydra.yaml")
#: The files, and the keys of result.json, that are published.
_RELEASED = (LABELS, COUNTS, STUDENT, STUDENT_INPUT, PREDICTIONS)
_FACTS = (
    "dataset", "mechanism", "student", "rng", "delta", "neighbours", "unit", "bound", "finished",
    "learned_from", "grouped_by", "moved_votes", "voters", "individual",
)  # fmt: skip


def publish(arguments: list[str]) -> int:
    """Create a folder with what may be published of a run."""
    parser = Parser(
        "nzc publish", description="Create a folder with what may be published of a finished run."
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="outputs/… of a run with rng=system")
    parser.add_argument("dest", metavar="DEST", type=Path, help="a folder that does not exist yet")
    parser.add_argument(
        "--name", help="whom the private data are about (default: dataset.name of the run)"
    )
    known = "the store, or the ledger's file, that knows the run (default: those of the run's configuration)"
    parser.add_argument("--store", type=Path, help=known)
    chosen = parser.parse_args(arguments)
    print(*publish_run(chosen.run, chosen.dest, chosen.store, chosen.name), chosen.dest, sep="\n")
    return 0


def publish_run(
    folder: Path, dest: Path, store: Path | None = None, name: str | None = None
) -> list[str]:
    """Create the folder `dest`, whole or not at all, with what may be published of the run in
    `folder`.

    Return in lines what it costs, and what all folders about these people cost. `store`, which may
    be the ledger's file, and `name`, that of the people, are by default those of the run's
    configuration. InputError: the run may not be published, is not as it was written, or `dest`
    exists or cannot be created.
    """
    files, result, cfg = read_run(folder)
    free = not dest.exists() and folder.resolve() not in dest.resolve().parents
    _require(free, "DEST", dest, "must not exist yet, and must not be in the run's folder")
    home, own = Path(cfg.hydra.runtime.cwd), OmegaConf.select(cfg, "paths.ledger")
    kept = PredictionStore(
        store or home / cfg.paths.store, ledger=home / own if own and not store else None
    )
    path = store if store is not None and store.is_file() else kept.ledger
    _require(
        path.is_file(),
        "--store",
        path,
        "must be the ledger that knows this run, or the store with it",
    )
    ledger, run = Ledger(path), sha256(files[RESULT]).hexdigest()
    dataset = _check(ledger, run, folder, files, result, cfg)
    ledger.name(dataset, name := _name(ledger, dataset, name, result, cfg))
    stated, delta, given = (
        result["epsilon"]["published"],
        _delta(result),
        OmegaConf.select(cfg, "budget.total"),
    )
    if given is not None:
        ledger.limit(dataset, given)
    limit = people.limit_of(ledger, dataset, name, given)
    total = people.total_with(
        ledger, dataset, name, (stated, delta, result["neighbours"]), limit, run
    )
    _write(dest.absolute(), published_files(files, result, cfg, name, total))
    folders = f"{total.folders} published folders" if total.folders > 1 else "only published folder"
    allowed = "" if limit is None else f"; budget.total allows ε = {limit:g}"
    if math.isinf(total.epsilon):
        allowed = "; they protect different things, so their ε have no sum"
    lines = [
        f"this folder: ε = {number(stated)} at δ = {delta:g}, unit of privacy: {result['unit']}",
        f"the {folders} about {name}: ε = {number(total.epsilon)} at δ = {total.delta:g}{allowed}",
    ]
    return [*filter(None, [people.stranger(ledger, dataset, name, "--name ")]), *lines]


def _require(holds: bool, key: str, value: object, must: str) -> None:
    if not holds:
        raise InputError(key, value, must)


def _check(
    ledger: Ledger,
    run: str,
    folder: Path,
    files: dict[str, bytes],
    result: dict[str, Any],
    cfg: Any,
) -> str:
    """Return the ledger's name of the private data. InputError: the run did not write these files,
    or states less.
    """
    if (recorded := ledger.run(run)) is None:
        unknown = "the run is not finished, has been changed, is of an older version, or is in another ledger (--store)"
        raise InputError(
            "RUN", folder, f"must have the result.json that {ledger.path} has recorded; {unknown}"
        )
    dataset, facts, entries = recorded
    for name, content in files.items():
        same = facts["files"].get(name) == sha256(content).hexdigest()
        _require(
            same, "RUN", folder, f"must have the {name} that the run wrote; it has been changed"
        )
    whole = len(entries) == len(facts["entries"]) and all(
        entry.kind == RELEASE for entry in entries
    )
    _require(whole, "RUN", folder, f"must have its releases in {ledger.path}, where one is missing")
    policy = build_policy(cfg, build(cfg, "teachers"), lambda: sum(facts["sizes"]))
    stated = result["epsilon"]["published"]
    drawn = (
        policy.bound == SANITISED
    )  # then the ledger knows the ε; otherwise it follows from the configuration
    promise, own = Promise(policy, facts["sizes"]), result.get("individual") or {}
    promised = promise.published(float(np.frombuffer(entries[-1].labels)[0]) if drawn else None)
    claims = [
        (f"individual.{group}", own.get(group, 0), epsilon)
        for group, epsilon in promise.individual.items()
    ]
    for key, claim, least in [*claims, ("epsilon.published", stated, promised)]:
        enough = least * (1 - 1e-9) <= claim < math.inf
        _require(
            enough,
            key,
            claim,
            f"must be at least {least:.6g}, which follows from the configuration",
        )
    return dataset


def _name(ledger: Ledger, dataset: str, given: str | None, result: dict[str, Any], cfg: Any) -> str:
    """Return the name of the people. Those of nzc's own datasets have one. InputError: nobody has
    named the user's.
    """
    node: Any = cfg.dataset or {}
    own = "name" in node or not str(node.get("_target_")).startswith("nzc.")
    known = min(ledger.names().get(dataset, ()), default=None if own else result["dataset"])
    if not (name := (given or name_of_people(cfg) or known or "").strip()):
        known = (
            people.stranger(ledger, dataset, None, "--name ")
            or "all that is published under one name adds up"
        )
        raise InputError(
            "--name", given, f"must say whom the data are about, as in --name hospital; {known}"
        )
    return str(name)


def read_run(folder: Path) -> tuple[dict[str, bytes], dict[str, Any], Any]:
    """Read once what is published of a run: its files by name, the result and the configuration in
    them.
    """
    single = (folder / _CONFIGURATION[0]).is_file() and not (folder / SWEEP).is_file()
    _require(single, "RUN", folder, "must be the folder of one run, below outputs/")
    finished = (folder / RESULT).is_file() and not (
        folder / ERROR
    ).is_file()  # beside an error it is an earlier job's
    _require(finished, "RUN", folder, "must be finished; there is no result.json of its own in it")
    try:
        files = {name: (folder / name).read_bytes() for name in (RESULT, *_CONFIGURATION, LABELS)}
        config: Any = OmegaConf.merge(
            *(OmegaConf.create(files[name].decode()) for name in _CONFIGURATION)
        )
        result = json.loads(files[RESULT])
        for record in (result, config):
            record.setdefault("bound", record.get("publish"))  # its name in older versions
        _require_publishable(result, config)
        absent = [COUNTS] if not (folder / COUNTS).exists() else []
        absent += _RELEASED[2:] if result["student"] == "none" or not result["answered"] else ()
        released = {name: (folder / name).read_bytes() for name in _RELEASED if name not in absent}
    except InputError:
        raise
    except Exception as error:
        allowed = f"must have the files that the run wrote; one is missing, is changed, or is older ({in_a_line(error)})"
        raise InputError("RUN", folder, allowed) from error
    return files | released, result, config


def _require_publishable(result: dict[str, Any], cfg: Any) -> None:
    epsilon = result["epsilon"]
    baseline = "must be false: a baseline is there to compare, and is not published"
    _require(not OmegaConf.select(cfg, "baseline"), "baseline", True, baseline)
    claimed = (
        ""
        if epsilon["claimed"] is None
        else f"; {epsilon['claimed']:.3g} is claimed for it, and is no bound"
    )
    finite = f"must be finite, because otherwise the labels may reveal the votes{claimed}"
    _require(
        isinstance(epsilon["published"], float | int),
        "epsilon.published",
        epsilon["published"],
        finite,
    )
    seeded = f"must be {SYSTEM} in the run: anyone who knows the seed can subtract the noise"
    _require(result["rng"] == SYSTEM, "rng", result["rng"], seeded)
    classes = (result["data"] or {}).get("undeclared_classes")
    typed = shlex.quote(f"dataset.classes={classes}")
    declared = f"must be declared, because else private labels decide which classes are published: add {typed}"
    _require(
        classes is None,
        "dataset.classes",
        None,
        f"{declared}, less what must not be known, and run again",
    )


def _delta(result: dict[str, Any]) -> float:
    return float(result["epsilon"].get("published_delta", result["delta"]))


def published_files(
    files: dict[str, bytes], result: dict[str, Any], cfg: Any, name: str, total: people.Total
) -> dict[str, bytes]:
    """Return the files of the published folder by name; `name` and `total` are of the people."""
    epsilon, delta = (
        {kind: result["epsilon"][kind] for kind in ("published", "audited")},
        _delta(result),
    )
    facts = (
        {"name": name}
        | {key: result.get(key) for key in _FACTS}
        | {
            "teachers": result["teachers"]["count"],
            "asked": sum(part["asked"] for part in result["rounds"]),
        }
        | {"answered": result["answered"], "delta": delta}
        | {"epsilon": {kind: value for kind, value in epsilon.items() if value is not None}}
        | {"total": asdict(total)}
        | {
            "public_files": (result["data"] or {}).get("public_files", {}),
            "versions": result["versions"],
        }
    )
    released = {name: files[name] for name in _RELEASED if name in files}
    template = Template(
        (Path(__file__).parent / "published_readme.md").read_text(encoding="utf-8"),
        undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, finalize=_plain,
    )  # fmt: skip
    texts = student_code() if STUDENT in files else {}
    texts["privacy.json"] = (
        json.dumps(facts, indent=2, ensure_ascii=False).replace(" Infinity", ' "inf"') + "\n"
    )
    texts["README.md"] = template.render(
        facts,
        files=list(released),
        about=json.loads(files[STUDENT_INPUT]) if STUDENT_INPUT in files else None,
        shown=files[LABELS].decode().partition("\n")[0].split(","),
        budget=cfg.budget.epsilon,
        times=_times(epsilon["published"]),
        right=f"{math.ceil(1000 * (1 - (1 - delta) * expit(-epsilon['published']))) / 10:.1f} %",
    )
    return released | {name: text.encode() for name, text in texts.items()}


def _times(epsilon: float) -> str:
    """Return e^ε, rounded up."""
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    return f"{math.ceil(1000 * factor) / 1000:,.3f}" if factor < 1e12 else f"e^{number(epsilon)}"


def _write(dest: Path, contents: dict[str, bytes]) -> None:
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".publish-", dir=dest.parent) as temporary:
            (partial := Path(temporary) / dest.name).mkdir()
            for name, content in contents.items():
                (partial / name).write_bytes(content)
                (partial / name).chmod(0o644)  # unlike the run, it is for others
            partial.chmod(0o755)
            partial.rename(dest)
    except OSError as error:
        raise InputError(
            "DEST", dest, f"must be a folder that can be created ({error.strerror})"
        ) from error


def _plain(value: Any) -> Any:
    """Return text from outside, such as names of classes and columns, as one that Markdown shows as
    it is.
    """
    if not isinstance(value, str):
        return value
    line = " ".join(value.split())
    return re.sub("<(?=[a-zA-Z/!?])", "‹", line.translate({ord("`"): "'", ord("|"): "¦"}))
