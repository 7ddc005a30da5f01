"""Publish a run: copy what may be published into a new folder, with a privacy statement, and nothing else.

The folder has labels.csv; with a student predictions.csv, student.pt2, student.json and what runs it without nzc;
privacy.json, one ε and δ for everything in the folder, and the mechanism; README.md, which says the same in words.
Accuracies are not published: the true labels that they are computed from have no protection.
"""

import json
import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import StrictUndefined, Template
from omegaconf import OmegaConf

from nzc.labeling.randomness import SYSTEM
from nzc.runs.layout import ERROR, LABELS, PREDICTIONS, RESULT, STUDENT, STUDENT_INPUT, SWEEP
from nzc.runs.outputs import student_code
from nzc.validation import InputError

_CONFIGURATION = (".hydra/config.yaml", ".hydra/hydra.yaml")
#: The files of a student, and the keys of result.json, that are published.
_STUDENT = (STUDENT, STUDENT_INPUT, PREDICTIONS)
_FACTS = ("dataset", "aggregator", "mechanism", "student", "rng", "delta", "neighbours", "unit", "publish", "finished")
#: Likewise, but unknown to older versions.
_LATER = ("learned_from", "grouped_by", "moved_votes")


@dataclass(frozen=True)
class PublishableRun:
    """A run that may be published if its files are those that it wrote. Each file was read once.

    files   content by name
    result  content of result.json
    config  the configuration of the run
    """

    folder: Path
    files: dict[str, bytes]
    result: dict[str, Any]
    config: Any

    @property
    def digest(self) -> str:
        """SHA-256 of result.json, by which the ledger knows the run."""
        return sha256(self.files[RESULT]).hexdigest()

    def require_files(self, digests: dict[str, str]) -> None:
        """Raise InputError unless the files have the SHA-256 that the run recorded."""
        for name, content in self.files.items():
            if digests.get(name) != sha256(content).hexdigest():
                raise InputError("RUN", self.folder, f"must have the {name} that the run wrote; it has been changed")

    def publish(self, dest: Path, budget: float | None) -> None:
        """Create the folder `dest`, whole or not at all; InputError: it exists, or cannot be created."""
        if dest.exists():
            raise InputError("DEST", dest, "must not exist yet")
        contents = self._contents(budget)
        try:
            dest.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".publish-", dir=dest.parent) as temporary:
                partial = Path(temporary) / dest.name
                partial.mkdir()
                for name, content in contents.items():
                    (partial / name).write_bytes(content)
                    (partial / name).chmod(0o644)  # unlike the run, it is for others
                partial.chmod(0o755)
                partial.rename(dest)
        except OSError as error:
            raise InputError("DEST", dest, f"must be a folder that can be created ({error.strerror})") from error

    def _contents(self, budget: float | None) -> dict[str, bytes]:
        """Return the files of the published folder by name."""
        facts, files = _facts(self.result), [name for name in (LABELS, *_STUDENT) if name in self.files]
        template = Template(
            (Path(__file__).parent / "published_readme.md").read_text(encoding="utf-8"),
            undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, finalize=_plain,
        )  # fmt: skip
        texts = student_code() if STUDENT in files else {}
        texts["privacy.json"] = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
        texts["README.md"] = template.render(
            facts,
            files=files,
            about=json.loads(self.files[STUDENT_INPUT]) if STUDENT_INPUT in files else None,
            shown=self.files[LABELS].decode().partition("\n")[0].split(","),
            budget=budget,
            times=f"{math.ceil(1000 * math.exp(facts['epsilon']['published'])) / 1000:,.3f}",
        )
        return {name: self.files[name] for name in files} | {name: text.encode() for name, text in texts.items()}


def read_run(folder: Path) -> PublishableRun:
    """Read what is published of the run in `folder`. InputError: it may not be published."""
    if (folder / SWEEP).is_file() or not (folder / _CONFIGURATION[0]).is_file():
        raise InputError("RUN", folder, "must be the folder of one run, below outputs/")
    if not (folder / RESULT).is_file() or (folder / ERROR).is_file():  # a result beside an error is an earlier job's
        raise InputError("RUN", folder, "must be finished; there is no result.json of its own in it")
    files = _read(folder, (RESULT, *_CONFIGURATION, LABELS))
    try:
        config = OmegaConf.merge(*(OmegaConf.create(files[name].decode()) for name in _CONFIGURATION))
        result = json.loads(files[RESULT])
        _require_publishable(result)
        student = _STUDENT if result["student"] != "none" and result["answered"] > 0 else ()
    except InputError:
        raise
    except Exception as error:  # it is not known yet whether the run wrote these files
        allowed = "must have the result.json and the configuration that the run wrote; one is changed, or is older"
        raise InputError("RUN", folder, allowed) from error
    return PublishableRun(folder, files | _read(folder, student), result, config)


def _read(folder: Path, names: Sequence[str]) -> dict[str, bytes]:
    try:
        return {name: (folder / name).read_bytes() for name in names}
    except OSError as error:
        missing = Path(error.filename).relative_to(folder)
        raise InputError("RUN", folder, f"must have the {missing} that the run wrote ({error.strerror})") from error


def _require_publishable(result: dict[str, Any]) -> None:
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
    if result["data"] is not None and (classes := result["data"]["undeclared_classes"]) is not None:
        typed = shlex.quote(f"dataset.classes={classes}")
        allowed = f"must be declared, because else private labels decide which classes are published: add {typed}"
        raise InputError("dataset.classes", None, f"{allowed}, less what must not be known, and run again")


def _facts(result: dict[str, Any]) -> dict[str, Any]:
    """Return the content of privacy.json: what of a result may be published."""
    epsilon = {name: result["epsilon"][name] for name in ("published", "audited")}
    return (
        {key: result[key] for key in _FACTS}
        | {key: result.get(key) for key in _LATER}
        | {"teachers": result["teachers"]["count"], "asked": sum(part["asked"] for part in result["rounds"])}
        | {"answered": result["answered"]}
        | {"epsilon": {name: value for name, value in epsilon.items() if value is not None}}
        | {"public_files": (result["data"] or {}).get("public_files", {}), "versions": result["versions"]}
    )


def _plain(value: Any) -> Any:
    """Return text from outside, such as names of classes and columns, as one that Markdown shows as it is."""
    if not isinstance(value, str):
        return value
    line = " ".join(value.split())
    return re.sub("<(?=[a-zA-Z/!?])", "‹", line.translate({ord("`"): "'", ord("|"): "¦"}))
