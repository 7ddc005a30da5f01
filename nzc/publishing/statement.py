"""The statement of a published folder: privacy.json for programs, README.md for people."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template
from scipy.special import expit

from nzc.privacy.totals import Total
from nzc.runs.formatting import number, short_mechanism
from nzc.runs.layout import LABELS, STUDENT_INPUT
from nzc.runs.result import STATED
from nzc.runs.summary import contributors
from nzc.validation import Tree


def statement(
    result: Tree,
    budget: float | None,
    released: Mapping[str, bytes],
    name: str,
    total: Total,
) -> dict[str, str]:
    """Return privacy.json and README.md.

    budget       ε that the owner allowed; None: the noise was chosen
    released     the other files of the folder, by name
    name, total  of the people whom the private data are about
    """
    facts = _facts(result, name, total)
    epsilon = facts["epsilon"]["published"]
    template = Template(
        Path(__file__).with_name("statement.md").read_text(encoding="utf-8"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        finalize=_plain,
    )
    readme = template.render(
        facts,
        number=number,
        short_mechanism=short_mechanism,
        files=list(released),
        about=json.loads(released.get(STUDENT_INPUT, "null")),
        shown=released[LABELS].decode().partition("\n")[0].split(","),
        budget=budget,
        times=_times(epsilon),
        right=f"{math.ceil(1000 * (1 - (1 - facts['delta']) * expit(-epsilon))) / 10:.1f} %",
    )
    record = json.dumps(facts, indent=2, ensure_ascii=False).replace(" Infinity", ' "inf"')
    return {"privacy.json": f"{record}\n", "README.md": readme}


def _facts(result: Tree, name: str, total: Total) -> Tree:
    """Return privacy.json."""
    epsilon = result["epsilon"]
    count = result["teachers"]["count"]
    stated = {"published": epsilon["published"]}
    if epsilon["audited"] is not None:
        stated["audited"] = epsilon["audited"]
    return {
        "name": name,
        **{key: result.get(key) for key in STATED},
        "delta": float(epsilon.get("published_delta", result["delta"])),
        "teachers": count if result["voters"] == "teachers" else None,
        "contributors": {"kind": contributors(result["voters"], result["unit"]), "count": count},
        "asked": sum(part["asked"] for part in result["rounds"]),
        "answered": result["answered"],
        "epsilon": stated,
        "total": asdict(total),
        "public_files": (result["data"] or {}).get("public_files", {}),
        "versions": result["versions"],
    }


def _times(epsilon: float) -> str:
    """Return e^ε, rounded up."""
    if epsilon > math.log(1e12):
        return f"e^{number(epsilon)}"
    return f"{math.ceil(1000 * math.exp(epsilon)) / 1000:,.3f}"


def _plain(value: Any) -> Any:
    """Return text from outside, such as names of columns, as Markdown shows it as it is."""
    if not isinstance(value, str):
        return value
    line = " ".join(value.split())
    return re.sub("<(?=[a-zA-Z/!?])", "‹", line.translate({ord("`"): "'", ord("|"): "¦"}))
