"""Keys that are refused: the line says which options have the key, and who chose one that has not."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from nzc.app.config import GROUPS, HOME, Budget, Config, Paths, Sanitise, options
from nzc.runs.layout import RECORDED
from nzc.validation import InputError, meant

#: Names of keys in older versions, and the name today.
_RENAMED = {"publish": "bound", "audit_trials": "audit"}


def refuse_unknown_keys(cfg: DictConfig) -> None:
    """Raise InputError for an unknown key outside of groups: Hydra accepts any after +.

    So does a place for a run's configuration where nzc does not read it.
    """
    tree: Any = OmegaConf.to_container(cfg, resolve=False)
    for section, prefix in (
        (Config, ""),
        (Paths, "paths."),
        (Budget, "budget."),
        (Sanitise, "sanitise."),
    ):
        nodes = tree[prefix[:-1]] if prefix else tree
        known = {key.name: nodes.get(key.name) for key in fields(section)}
        for key, value in nodes.items():
            if key not in (*known, "hydra"):
                raise unknown_key(prefix + key, value, known)
    place = OmegaConf.select(
        cfg, "hydra.output_subdir", default=RECORDED
    )  # Hydra's part is not in all configurations
    if place != RECORDED:
        allowed = (
            f"must be {RECORDED}: nzc report, sync and publish read a run's configuration there"
        )
        raise InputError("hydra.output_subdir", place, allowed)


def unknown_key(
    key: str, value: object, known: Mapping[str, Any], of: str = "", words: Sequence[str] = ()
) -> InputError:
    """Return the error for a key that is none of `known`: nodes by whole keys, or by those of the
    key's group.

    of     whose they are, if not the group's
    words  the overrides, of which follows who chose the group's option; (): they are not known
    """
    group, _, name = key.rpartition(".")
    having = _options_with(group, name)
    places = [] if group else _places(name, known)
    allowed = f"must be one of the keys of {of or group or 'nzc'}"
    if key in _RENAMED and "/" not in str(value):  # nzc publish FOLDER is a subcommand
        allowed = f"must be typed as {_RENAMED[key]}={value}, its name today"
    elif places:
        allowed += f"; did you mean {_listed(places)}?"
    elif having and words:
        option, who = _chosen(group, words)
        allowed = f"must be a key of {group}={option}, {who}; {group}={_listed(having)} has it"
        if option not in options(
            f"conf/{group}"
        ):  # Hydra first composes a sweep with the default option
            allowed = f"must be typed as ++{key}={value} where a sweep chooses {group}={option}"
    elif known:
        allowed += meant(name, known)
        allowed += f"; {group}={_listed(having)} has {name}" if having else ""
    else:
        allowed = f"must be left out: {group} has no keys here"
    return InputError(key, value, allowed)


def _places(name: str, nodes: Mapping[str, Any]) -> list[str]:
    """Return the keys of sections, and of the groups' options, that end in this name."""
    places = []
    for section, node in nodes.items():
        if section == "hydra":
            continue
        if isinstance(node, Mapping) and name in node:
            places.append(f"{section}.{name}")
        elif having := _options_with(section, name):
            places.append(f"{section}.{name} (with {section}={_listed(having)})")
    return places


def _chosen(group: str, words: Sequence[str]) -> tuple[str, str]:
    """Return the option of a group, and who chose it."""
    typed = dict(word.lstrip("+").split("=", 1) for word in words if "=" in word)
    sweep = _defaults("sweeps", typed.get("sweeps"))
    recipe = typed.get("recipe", sweep.get("recipe"))
    choosers = {
        "which you chose": typed,
        f"which sweeps={typed.get('sweeps')} chose": sweep,
        f"which recipe={recipe} chose": _defaults("conf/recipe", recipe),
        "the default": _defaults("conf", "config"),
    }
    return next((chosen[group], who) for who, chosen in choosers.items() if group in chosen)


def _defaults(folder: str, name: str | None) -> dict[str, str]:
    """Return the options that a file chooses, by group."""
    entries = [
        entry for entry in _file(folder, name).get("defaults") or () if isinstance(entry, dict)
    ]
    return {
        key.removeprefix("override ").lstrip("/"): option
        for entry in entries
        for key, option in entry.items()
    }


def _options_with(group: str, name: str) -> list[str]:
    """Return the options of a group whose files have this key, or inherit it."""
    if group not in GROUPS or group == "recipe":
        return []
    return [option for option in options(f"conf/{group}") if name in _keys(group, option)]


def _keys(group: str, option: str) -> set[str]:
    content = _file(f"conf/{group}", option)
    keys = {str(key) for key in content}
    for entry in content.get("defaults") or ():
        parent = str(entry).rpartition("/")[2].partition("@")[0]
        keys |= _keys(group, parent) if isinstance(entry, str) and parent != option else set()
    return keys


def _file(folder: str, name: str | None) -> dict[str, Any]:
    """Return a configuration file of nzc or of the working directory, as Hydra finds it; {}: it
    cannot be read.
    """
    for path in (home / folder / f"{name}.yaml" for home in (HOME, Path.cwd())):
        with suppress(Exception):  # another error is being reported
            return dict(yaml.safe_load(path.read_text(encoding="utf-8")))
    return {}


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
