"""Publish a run: copy what may be published into a new folder, with a privacy statement, and nothing else.

    labels.csv     released labels, by row of the public pool and, where there is one, of the file
    student.pt2    the student, which learned from nothing else of private origin; where there is one
    privacy.json   every ε that may be published, δ, and the mechanism
    README.md      the privacy statement: what holds, between which neighbours, and what is not claimed

Accuracies are not published: the true labels that they are computed from have no protection.
"""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from omegaconf import OmegaConf

from nzc.accounting.epsilon import PUBLIC
from nzc.labeling.randomness import SYSTEM
from nzc.runs.layout import ERROR, LABELS, RESULT, STUDENT, SWEEP
from nzc.validation import InputError

_EPSILONS = {
    "data_independent": "an upper bound for labels and student whatever the votes. It follows from public facts: "
    "noise, queries, answers",
    "sanitised": "an upper bound for labels, student and this number itself. It depends on the votes and was released "
    "with noise of its own; δ covers the chance that it is too low",
    "audited": "a lower bound at 95 % confidence, from running the mechanism on two neighbours. It uses no votes, so "
    "it may be above the bounds of a run that answered less",
}


def publish(run: Path, dest: Path) -> None:
    """Create the folder `dest`, whole or not at all; InputError: the run may not be published, or `dest` exists."""
    result = _result(run)
    _check(run, result)
    if dest.exists() or dest.is_symlink():
        raise InputError("DEST", dest, "must not exist yet")
    config: Any = OmegaConf.load(run / ".hydra" / "config.yaml")
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".publish-", dir=dest.parent) as temporary:
            partial = Path(temporary) / dest.name
            partial.mkdir()
            for name in _files(result):
                shutil.copyfile(run / name, partial / name)
            (partial / "privacy.json").write_text(json.dumps(_facts(result), indent=2, ensure_ascii=False) + "\n")
            (partial / "README.md").write_text(_statement(result, config.budget.epsilon))
            partial.rename(dest)
    except OSError as error:
        raise InputError("DEST", dest, f"must be a folder that can be created ({error.strerror})") from error


def _result(run: Path) -> dict[str, Any]:
    if (run / SWEEP).is_file() or not (run / ".hydra" / "config.yaml").is_file():
        raise InputError("RUN", run, "must be the folder of one run, below outputs/")
    if not (run / RESULT).is_file() or (run / ERROR).is_file():  # a result beside an error is an earlier job's
        raise InputError("RUN", run, "must be finished; there is no result.json of its own in it")
    result: dict[str, Any] = json.loads((run / RESULT).read_text())
    return result


def _check(run: Path, result: dict[str, Any]) -> None:
    """Raise InputError where the run may not be published."""
    epsilon = result["epsilon"]
    if result["aggregator"] == "ground_truth":
        raise InputError("aggregator", "ground_truth", "must ask teachers; true labels have no privacy")
    if not isinstance(epsilon["data_independent"], float | int):
        claimed = "" if epsilon["claimed"] is None else f"; {epsilon['claimed']:.3g} is claimed for it, and is no bound"
        allowed = f"must be finite, because otherwise the labels may reveal the votes{claimed}"
        raise InputError("epsilon.data_independent", epsilon["data_independent"], allowed)
    if result["rng"] != SYSTEM:
        allowed = f"must be {SYSTEM} in the run: anyone who knows the seed can subtract the noise"
        raise InputError("rng", result["rng"], allowed)
    for name in _files(result):
        if not (run / name).is_file():
            raise InputError("RUN", run, f"must contain {name}, which the run should have written")


def _files(result: dict[str, Any]) -> list[str]:
    return [LABELS, *[STUDENT] * (result["student"] != "none" and result["answered"] > 0)]


def _facts(result: dict[str, Any]) -> dict[str, Any]:
    kept = ("dataset", "aggregator", "mechanism", "student", "rng", "delta", "neighbours")
    counts = {"teachers": result["teachers"]["count"], "asked": _asked(result), "answered": result["answered"]}
    return {key: result[key] for key in kept} | counts | {"epsilon": _known(result)}


def _known(result: dict[str, Any]) -> dict[str, float]:
    return {name: result["epsilon"][name] for name in PUBLIC if result["epsilon"][name] is not None}


def _asked(result: dict[str, Any]) -> int:
    return sum(each["asked"] for each in result["rounds"])


def _statement(result: dict[str, Any], budget: float | None) -> str:
    """Return the privacy statement of a run with this budget."""
    student = (
        f"`{STUDENT}`, a student that learned from them (`torch.export.load`)" if STUDENT in _files(result) else ""
    )
    epsilons = [f"- ε {name.replace('_', '-')} = {value}: {_EPSILONS[name]}." for name, value in _known(result).items()]
    if budget is not None:
        epsilons.append(f"- ε budget = {budget}: set before a vote was seen; the labels stay within it.")
    return (
        (Path(__file__).parent / "privacy_statement.md")
        .read_text()
        .format(
            contents=", and ".join(filter(None, [f"`{LABELS}`, labels of rows of a public pool", student])),
            aggregator=result["aggregator"],
            mechanism=result["mechanism"],
            teachers=result["teachers"]["count"],
            asked=_asked(result),
            answered=result["answered"],
            neighbours=result["neighbours"],
            delta=result["delta"],
            epsilons="\n".join(epsilons),
        )
    )
