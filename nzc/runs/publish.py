"""Publish a run: copy what may be published into a new folder, with a privacy statement, and nothing else.

    labels.csv       released labels, by row of the public pool and, where there is one, of the file
    predictions.csv  a label for every public row; where there is a student, which learned from nothing else of private
                     origin. Then also student.pt2, student.json, predict.py, table_encoder.py and requirements.txt
    privacy.json     one ε and δ for everything in the folder, and the mechanism
    README.md        what the folder holds and how it is used, what holds, between which neighbours, what is not claimed

Accuracies are not published: the true labels that they are computed from have no protection.
"""

import json
import math
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import StrictUndefined, Template
from omegaconf import OmegaConf

from nzc.labeling.randomness import SYSTEM
from nzc.runs.layout import ERROR, LABELS, PREDICTIONS, RESULT, STUDENT, STUDENT_INPUT, SWEEP
from nzc.runs.outputs import student_code
from nzc.validation import InputError


def publish(run: Path, dest: Path) -> None:
    """Create the folder `dest`, whole or not at all; InputError: the run may not be published, or `dest` exists."""
    result = _result(run)
    has_student = result["student"] != "none" and result["answered"] > 0
    files = [LABELS, *[STUDENT, STUDENT_INPUT, PREDICTIONS] * has_student]
    for name in files:
        if not (run / name).is_file():
            raise InputError("RUN", run, f"must contain {name}, which the run should have written")
    if dest.exists() or dest.is_symlink():
        raise InputError("DEST", dest, "must not exist yet")
    config: Any = OmegaConf.load(run / ".hydra" / "config.yaml")
    template = Template(
        (Path(__file__).parent / "published_readme.md").read_text(),
        undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, finalize=_plain,
    )  # fmt: skip
    facts = _facts(result)
    about = json.loads((run / STUDENT_INPUT).read_text()) if has_student else {"labels": [], "columns": None}
    text = template.render(facts, **_words(facts, about), files=files, budget=config.budget.epsilon)
    texts = student_code() if has_student else {}
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".publish-", dir=dest.parent) as temporary:
            partial = Path(temporary) / dest.name
            partial.mkdir()
            for name in files:
                shutil.copyfile(run / name, partial / name)
            texts |= {"privacy.json": json.dumps(facts, indent=2, ensure_ascii=False) + "\n", "README.md": text}
            for name, content in texts.items():
                (partial / name).write_text(content)
            for path in partial.iterdir():
                path.chmod(0o644)  # unlike the run, it is for others
            partial.chmod(0o755)
            partial.rename(dest)
    except OSError as error:
        raise InputError("DEST", dest, f"must be a folder that can be created ({error.strerror})") from error


def _result(run: Path) -> dict[str, Any]:
    """Return the content of result.json; InputError: there is none, or the run may not be published."""
    if (run / SWEEP).is_file() or not (run / ".hydra" / "config.yaml").is_file():
        raise InputError("RUN", run, "must be the folder of one run, below outputs/")
    if not (run / RESULT).is_file() or (run / ERROR).is_file():  # a result beside an error is an earlier job's
        raise InputError("RUN", run, "must be finished; there is no result.json of its own in it")
    result: dict[str, Any] = json.loads((run / RESULT).read_text())
    epsilon = result["epsilon"]
    if result["aggregator"] == "ground_truth":
        raise InputError("aggregator", "ground_truth", "must ask teachers; true labels have no privacy")
    if not isinstance(epsilon["published"], float | int):
        claimed = "" if epsilon["claimed"] is None else f"; {epsilon['claimed']:.3g} is claimed for it, and is no bound"
        allowed = f"must be finite, because otherwise the labels may reveal the votes{claimed}"
        raise InputError("epsilon.published", epsilon["published"], allowed)
    if result["rng"] != SYSTEM:
        allowed = f"must be {SYSTEM} in the run: anyone who knows the seed can subtract the noise"
        raise InputError("rng", result["rng"], allowed)
    return result


def _facts(result: dict[str, Any]) -> dict[str, Any]:
    """Return the content of privacy.json: what of a result may be published."""
    kept = (
        "dataset",
        "aggregator",
        "mechanism",
        "student",
        "rng",
        "delta",
        "neighbours",
        "unit",
        "publish",
        "finished",
    )
    asked = sum(each["asked"] for each in result["rounds"])
    counts = {"teachers": result["teachers"]["count"], "asked": asked, "answered": result["answered"]}
    audited = {} if result["epsilon"]["audited"] is None else {"audited": result["epsilon"]["audited"]}
    epsilon = {"published": result["epsilon"]["published"], **audited}
    origin = {"public_files": (result["data"] or {}).get("public_files", {}), "versions": result["versions"]}
    return {key: result[key] for key in kept} | counts | {"epsilon": epsilon} | origin


def _plain(value: Any) -> Any:
    """Return text from outside, such as names of classes and columns, as one that Markdown shows as it is."""
    if not isinstance(value, str):
        return value
    line = " ".join(value.split())
    return re.sub("<(?=[a-zA-Z/!?])", "‹", line.translate({ord("`"): "'", ord("|"): "¦"}))


def _words(facts: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """Return what the README says in words, beside the facts; `about` is the content of student.json."""
    person = {"record": "record", "group": "person or other group", "teacher": "teacher"}[facts["unit"]]
    array = about.get("array")
    return {
        "person": person,
        "ids": about.get("id") is not None,
        "times": f"{math.ceil(1000 * math.exp(facts['epsilon']['published'])) / 1000:,.3f}",
        "labels": about["labels"],
        "classes": ", ".join(about["labels"][:20]) + (", …" if len(about["labels"]) > 20 else ""),
        "columns": about["columns"] and about["columns"]["columns"],
        "takes": f"arrays [rows, {', '.join(map(str, array['shape']))}] of {array['dtype']}" if array else "tables",
        "new": "new.npy" if array else "new.csv",
    }
