"""`python -m nzc.release RUN DEST`: of a finished run what may be published, and nothing else.

    labels.csv     the released labels, by row of the public pool and, where that was drawn from one file, of the file
    student.pt2    the student, which saw nothing else of private origin; where there is one
    privacy.json   every ε that may be published, δ, the mechanism
    README.md      the same in words: what holds, between whom, and what is not claimed

Accuracies stay behind: the true labels that they are counted from were protected by nothing.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nzc._command import Parser, end
from nzc.errors import InputError
from nzc.privacy.epsilon import PUBLIC
from nzc.randomness import SEEDED, SYSTEM
from nzc.report.folder import ERROR, LABELS, RESULT, STUDENT, SWEEP

_EPSILONS = {
    "data_independent": "an upper bound for labels and student whatever the votes, from public facts: noise, queries, "
    "answers",
    "sanitised": "an upper bound for labels, student and this number itself. It follows the votes, and was released "
    "with noise of its own; the chance that it is too low is counted in δ",
    "audited": "a lower bound, 95 % sure, from running the sampler on two neighbours; it looked at no vote, "
    "so it may be above the bounds of a run that answered less",
}
_STATEMENT = """# Privacy statement

This folder holds what teachers released of private records: {what}.
`privacy.json` says what it cost to a program. Nothing else of private origin is here.

**Mechanism.** Each of {teachers:,} teachers learnt from its own part of the private records and voted on rows of a
public pool. {asked:,} rows were asked about, {answered:,} labels released by {aggregator}:

    {mechanism}

**Neighbours.** Two private data sets are neighbours when one record differs{stratified}. A record is in one teacher's
part, so one teacher may vote differently, on any number of rows. How many records and classes there are is public.

**Guarantee.** (ε, δ)-differential privacy at δ = {delta:g}, after the fact: of so many answers as were given.

{epsilons}

The student learnt from released labels and public rows only, and costs nothing beyond the labels.

**Noise.** Every bit of it came from the operating system's cryptographic generator; there is no seed. It is
floating-point noise; of a label, only which class won is shown, and the sanitised ε is rounded.

**Not claimed.**

- That nothing else was released of these records. Whatever was, or will be, adds to this ε; its owner's ledger counts.
- That settings were chosen blindly. Where mechanism, noise, thresholds, the number of teachers or of queries, or this
  run among others, were chosen by looking at private records or their votes, ε does not count it. Values that this
  program suggests for a named data set were found on that data set.
- That the records of a person are protected together where there are several, or are in several teachers' parts.
- Anything of public rows, and of the rows that the student was tested on. How long the run took was not hidden.
{votes}"""
_VOTES = (
    "- That a private record reached one teacher only: the votes came from a file, whose making was not seen here.\n"
)


def main() -> None:
    """Exit code 0; 1 for a failure while running, 2 for what must not be published."""
    end(_run)


def _run(arguments: list[str]) -> int:
    parser = Parser("python -m nzc.release", description="Make a folder of what may be published of a finished run.")
    parser.add_argument("run", metavar="RUN", help="outputs/… as a run with rng=system made it")
    parser.add_argument("dest", metavar="DEST", help="a folder that is not there yet")
    chosen = parser.parse_args(arguments)
    release(Path(chosen.run), Path(chosen.dest))
    print(chosen.dest)
    return 0


def release(run: Path, dest: Path) -> None:
    """The folder `dest`, whole or not at all; InputError where nothing may be published, or it is there already."""
    result = _result(run)
    _check(run, result)
    if dest.exists() or dest.is_symlink():
        raise InputError("DEST", dest, "must not be there yet")
    partial = dest.with_name(f".{dest.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError("DEST", dest, f"must be a folder that can be made ({error.strerror})") from error
    for name in _files(result):
        shutil.copyfile(run / name, partial / name)
    (partial / "privacy.json").write_text(json.dumps(_facts(result), indent=2, ensure_ascii=False) + "\n")
    (partial / "README.md").write_text(_statement(result, OmegaConf.load(run / ".hydra" / "config.yaml")))
    partial.rename(dest)


def _result(run: Path) -> dict[str, Any]:
    if (run / SWEEP).is_file() or not (run / ".hydra" / "config.yaml").is_file():
        raise InputError("RUN", run, "must be the folder of one run, below outputs/")
    if not (run / RESULT).is_file() or (run / ERROR).is_file():  # a result beside an error is an earlier job's
        raise InputError("RUN", run, "must have finished; it holds no result.json of its own")
    result: dict[str, Any] = json.loads((run / RESULT).read_text())
    return result


def _check(run: Path, result: dict[str, Any]) -> None:
    """InputError for what must not be published."""
    epsilon = result["epsilon"]
    if result["aggregator"] == "ground_truth":
        raise InputError("aggregator", "ground_truth", "must ask teachers; true labels come with no privacy at all")
    if not isinstance(epsilon["data_independent"], float | int):
        claimed = "" if epsilon["claimed"] is None else f"; {epsilon['claimed']:.3g} is claimed for it, and is no bound"
        allowed = f"must be finite, or the labels may tell the votes{claimed}"
        raise InputError("epsilon.data_independent", epsilon["data_independent"], allowed)
    if (rng := result.get("rng", SEEDED)) != SYSTEM:
        raise InputError("rng", rng, "must be system, in the run: whoever knows the seed can take the noise off")
    for name in _files(result):
        if not (run / name).is_file():
            raise InputError("RUN", run, f"must hold {name}, which the run was to write")


def _files(result: dict[str, Any]) -> list[str]:
    return [LABELS, *[STUDENT] * (result["student"] != "none" and result["answered"] > 0)]


def _facts(result: dict[str, Any]) -> dict[str, Any]:
    kept = {key: result[key] for key in ("dataset", "aggregator", "mechanism", "student", "rng", "delta")}
    counts = {"teachers": result["teachers"]["count"], "asked": _asked(result), "answered": result["answered"]}
    return kept | counts | {"neighbours": "one record", "epsilon": _known(result)}


def _known(result: dict[str, Any]) -> dict[str, float]:
    return {name: result["epsilon"][name] for name in PUBLIC if result["epsilon"][name] is not None}


def _asked(result: dict[str, Any]) -> int:
    return sum(each["asked"] for each in result["rounds"])


def _statement(result: dict[str, Any], asked: Any) -> str:
    """README.md; `asked`: the configuration of the run."""
    student = f"`{STUDENT}`, a student that learnt from them (`torch.export.load`)" if STUDENT in _files(result) else ""
    epsilons = [f"- ε {name.replace('_', '-')} = {value}: {_EPSILONS[name]}" for name, value in _known(result).items()]
    if asked.budget.epsilon is not None:
        epsilons.append(
            f"- ε budget = {asked.budget.epsilon}: set before a vote was seen, for the labels to stay within"
        )
    return _STATEMENT.format(
        what=", and ".join(filter(None, [f"`{LABELS}`, labels of rows of a public pool", student])),
        aggregator=result["aggregator"],
        mechanism=result["mechanism"],
        teachers=result["teachers"]["count"],
        asked=_asked(result),
        answered=result["answered"],
        stratified=" in its features; labels stay" if asked.teachers.get("stratify") else "",
        delta=result["delta"],
        epsilons="\n".join(epsilons),
        votes="" if "count" in asked.teachers else _VOTES,
    )


if __name__ == "__main__":
    main()
