"""Refused keys: the line says which options have the key, and who chose one that has not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from omegaconf import DictConfig

from nzc.app.config import Budget, Config, Paths, Sanitise, options, read_file
from nzc.app.overrides import GROUPS, typed_values
from nzc.runs.layout import RECORDED, unresolved
from nzc.validation import InputError, Tree, meant

#: The keys of nzc, and those below some of them.
_SECTIONS = {"": Config, "paths": Paths, "budget": Budget, "sanitise": Sanitise}


def refuse_unknown_keys(cfg: DictConfig) -> None:
    """Raise InputError for an unknown key outside of groups: Hydra accepts any after +.

    So does a place for a run's configuration where nzc does not read it.
    """
    tree = unresolved(cfg)
    hydra = tree.pop("hydra", {})  # it is not in all configurations
    for section, kind in _SECTIONS.items():
        nodes = tree.get(section, tree)
        known = {key.name: nodes.get(key.name) for key in fields(kind)}
        for key, value in nodes.items():
            if key not in known:
                raise unknown_key(f"{section}.{key}".lstrip("."), value, known)
    place = hydra.get("output_subdir", RECORDED)
    if place != RECORDED:
        raise InputError(
            "hydra.output_subdir",
            place,
            f"must be {RECORDED}: nzc report, sync and publish read the configuration there",
        )


def unknown_key(
    key: str, value: object, known: Tree, owner: str = "", words: Sequence[str] = ()
) -> InputError:
    """Return the error for a key that is none of `known`.

    known  nodes by whole keys, or by those of the key's group
    owner  whose keys they are, if not the group's
    words  the overrides, of which follows who chose the group's option; (): they are not known
    """
    group, _, name = key.rpartition(".")
    having = _options_with(group, name)
    places = []
    if not group:
        places = _places(name, known)
    allowed = f"must be one of the keys of {owner or group or 'nzc'}"
    if places:
        allowed += f"; did you mean {_listed(places)}?"
    elif having and words:
        allowed = _other_option(key, value, having, words)
    elif known:
        allowed += meant(name, known if group else [*known, "recipe", "+sweeps"])
        if having:
            allowed += f"; {group}={_listed(having)} has {name}"
    else:
        allowed = f"must be left out: {group} has no keys here"
    return InputError(key, value, allowed)


def _other_option(key: str, value: object, having: Sequence[str], words: Sequence[str]) -> str:
    """Return what is allowed where the chosen option of a group lacks a key that others have."""
    group = key.rpartition(".")[0]
    option, who = _chosen(group, words)
    if option not in options(f"conf/{group}"):  # a list: Hydra first composes the default option
        return f"must be typed as ++{key}={value} where a sweep chooses {group}={option}"
    return f"must be a key of {group}={option}, {who}; {group}={_listed(having)} has it"


def _places(name: str, nodes: Tree) -> list[str]:
    """Return the keys of sections, and of the groups' options, that end in this name."""
    places = []
    for section, node in nodes.items():
        having = _options_with(section, name)
        if isinstance(node, Mapping) and name in node:
            places.append(f"{section}.{name}")
        elif having:
            places.append(f"{section}.{name} (with {section}={_listed(having)})")
    return places


def _chosen(group: str, words: Sequence[str]) -> tuple[str, str]:
    """Return the option of a group, and who chose it."""
    typed = typed_values(words)
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
    chosen = {}
    for entry in read_file(folder, name).get("defaults") or ():
        if isinstance(entry, dict):
            for key, option in entry.items():
                chosen[key.removeprefix("override ").lstrip("/")] = option
    return chosen


def _options_with(group: str, name: str) -> list[str]:
    """Return the options of a group whose files have this key, or inherit it."""
    if group not in GROUPS or group == "recipe":
        return []
    return [option for option in options(f"conf/{group}") if name in _keys(group, option)]


def _keys(group: str, option: str) -> set[str]:
    """Return the keys of an option, and of those that it inherits from."""
    content = read_file(f"conf/{group}", option)
    keys = set(map(str, content))
    for entry in content.get("defaults") or ():
        parent = str(entry).rpartition("/")[2].partition("@")[0]
        if isinstance(entry, str) and parent != option:
            keys |= _keys(group, parent)
    return keys


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    if not first:
        return last
    return f"{', '.join(first)} or {last}"
