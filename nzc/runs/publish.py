"""Publish a run: copy what may be published into a new folder, with a privacy statement, and nothing else.

    labels.csv     released labels, by row of the public pool and, where there is one, of the file
    student.pt2    the student, which learned from nothing else of private origin; where there is one
    privacy.json   one ε and δ for everything in the folder, and the mechanism
    README.md      the privacy statement: what holds, between which neighbours, and what is not claimed

Accuracies are not published: the true labels that they are computed from have no protection.
"""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import StrictUndefined, Template
from omegaconf import OmegaConf

from nzc.labeling.randomness import SYSTEM
from nzc.runs.layout import ERROR, LABELS, RESULT, STUDENT, SWEEP
from nzc.validation import InputError


def publish(run: Path, dest: Path) -> None:
    """Create the folder `dest`, whole or not at all; InputError: the run may not be published, or `dest` exists."""
    result = _result(run)
    files = [LABELS, *[STUDENT] * (result["student"] != "none" and result["answered"] > 0)]
    for name in files:
        if not (run / name).is_file():
            raise InputError("RUN", run, f"must contain {name}, which the run should have written")
    if dest.exists() or dest.is_symlink():
        raise InputError("DEST", dest, "must not exist yet")
    config: Any = OmegaConf.load(run / ".hydra" / "config.yaml")
    template = Template(
        (Path(__file__).parent / "privacy_statement.md").read_text(),
        undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    facts = _facts(result)
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".publish-", dir=dest.parent) as temporary:
            partial = Path(temporary) / dest.name
            partial.mkdir()
            for name in files:
                shutil.copyfile(run / name, partial / name)
            (partial / "privacy.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
            (partial / "README.md").write_text(template.render(facts, files=files, budget=config.budget.epsilon))
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
    kept = ("dataset", "aggregator", "mechanism", "student", "rng", "delta", "neighbours", "unit", "publish")
    asked = sum(each["asked"] for each in result["rounds"])
    counts = {"teachers": result["teachers"]["count"], "asked": asked, "answered": result["answered"]}
    audited = {} if result["epsilon"]["audited"] is None else {"audited": result["epsilon"]["audited"]}
    epsilon = {"published": result["epsilon"]["published"], **audited}
    return {key: result[key] for key in kept} | counts | {"epsilon": epsilon}
