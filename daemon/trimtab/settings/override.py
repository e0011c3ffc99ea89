"""Environment variables in place of a file's keys: `TRIMTAB_DAEMON__PEOPLE__LISTEN` is `listen` of `[people]`.

A variable is typed as its key is: text is taken as it stands, everything else is written as in TOML (a list of texts
may also be written with commas). One that looks like a setting and is none is an error, with the nearest name.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import inspect

from trimtab.errors import SettingsError

PREFIX = "TRIMTAB_"
SEPARATOR = "__"
PROGRAMS = ("AGENT", "DAEMON")
NOT_SETTINGS = frozenset(
    {
        "TRIMTAB_URL",  # the operator's verbs: where the daemon is
        "TRIMTAB_TOKEN",
        "TRIMTAB_TOKEN_FILE",
        "TRIMTAB_CA_FILE",
        "TRIMTAB_NODE",  # the node's name, by the downward API
        "TRIMTAB_JOIN_TOKEN",
        "TRIMTAB_NODE_TOKEN",  # secrets themselves, for containers
        "TRIMTAB_METRICS_TOKEN",
        "TRIMTAB_ASK_TOKEN",
        "TRIMTAB_PROXY_SECRET",
        "TRIMTAB_DATABASE_PASSWORD",
        "TRIMTAB_CLUSTER",  # the tests' control plane
    }
)
"""Variables of ours that are no key of a settings file, though a key may have the same name."""

_Table = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One variable that sets a key. The value may be a secret's place, never shown by us."""

    variable: str
    path: tuple[str, ...]
    value: object

    @property
    def key(self) -> str:
        """The key as a person writes it: `people.listen`."""
        return ".".join(self.path)


def overrides(environment: Mapping[str, str], kind: type[Any], table: Mapping[str, Any]) -> tuple[Override, ...]:
    """What the environment sets of this kind's keys. Raises SettingsError for one that looks so and is none."""
    program = program_of(kind)
    ours = f"{PREFIX}{program}{SEPARATOR}"
    found = []
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        if variable.startswith(ours):
            found.append(_override(variable, environment[variable], kind, table, ours))
        elif not _is_anothers(variable, program):
            _refuse_lookalike(variable, kind, ours)
    return tuple(found)


def program_of(kind: type[Any]) -> str:
    """AGENT or DAEMON: whose variables set a key of this kind."""
    return kind.__name__.removesuffix("Settings").upper()


def variable_of(kind: type[Any], key: str) -> str:
    """The variable that sets a key: `people.listen` → `TRIMTAB_DAEMON__PEOPLE__LISTEN`."""
    return f"{PREFIX}{program_of(kind)}{SEPARATOR}" + key.replace(".", SEPARATOR).upper()


def merged(table: Mapping[str, Any], found: tuple[Override, ...]) -> _Table:
    """The file's table with the environment's values in place of its own."""
    whole = _copied(table)
    for one in found:
        here = whole
        for name in one.path[:-1]:
            inner = here.get(name)
            if not isinstance(inner, dict):
                inner = here[name] = {}
            here = inner
        here[one.path[-1]] = one.value
    return whole


def variables(kind: type[Any]) -> tuple[str, ...]:
    """Every variable that sets a key; NAME stands for a name of the site's own."""
    ours = f"{PREFIX}{program_of(kind)}{SEPARATOR}"
    return tuple(ours + SEPARATOR.join(path).upper() for path in _paths(inspect.type_info(kind), ()))


def _copied(table: Mapping[str, Any]) -> _Table:
    return {name: _copied(value) if isinstance(value, Mapping) else value for name, value in table.items()}


def _is_anothers(variable: str, program: str) -> bool:
    """The other program's variables are for it to judge: both may share one file of environment."""
    return any(variable.startswith(f"{PREFIX}{one}{SEPARATOR}") for one in PROGRAMS if one != program)


def _refuse_lookalike(variable: str, kind: type[Any], ours: str) -> None:
    """`TRIMTAB_DAEMON_PEOPLE_LISTEN` sets nothing, in silence; Kubernetes' `TRIMTAB_DAEMON_PORT` is no setting."""
    names = variables(kind)
    squeezed = variable.replace(SEPARATOR, "_")
    near = [name for name in names if squeezed in (_squeezed(name), PREFIX + _squeezed(name).removeprefix(ours[:-1]))]
    if not near and SEPARATOR not in variable:
        return
    near = near or difflib.get_close_matches(variable, names, n=2)
    raise SettingsError(f"environment: {variable} sets nothing. {_advice(near, ours)}")


def _squeezed(name: str) -> str:
    return name.replace(SEPARATOR, "_")


def _advice(near: list[str], ours: str) -> str:
    if near:
        return f"Did you mean {' or '.join(near[:2])}?"
    return f"Settings are {ours}SECTION{SEPARATOR}KEY; unset it if it is not meant for trimtab."


def _override(variable: str, text: str, kind: type[Any], table: Mapping[str, Any], ours: str) -> Override:
    here: list[inspect.Type] = [inspect.type_info(kind)]
    path: list[str] = []
    inside: Any = table
    for segment in variable.removeprefix(ours).split(SEPARATOR):
        name, here = _step(here, segment, inside)
        if not here:
            near = difflib.get_close_matches(variable, variables(kind), n=2, cutoff=0.5)
            raise SettingsError(f"environment: {variable}: there is no such setting. {_advice(near, ours)}")
        path.append(name)
        inside = inside.get(name, {}) if isinstance(inside, Mapping) else {}
    return Override(variable=variable, path=tuple(path), value=_value(variable, text, here))


def _step(here: list[inspect.Type], segment: str, inside: Any) -> tuple[str, list[inspect.Type]]:  # noqa: ANN401
    """The name that a segment means at this place, and what it may hold; nothing where there is no such name."""
    wanted = segment.lower()
    found: list[inspect.Type] = []
    name = wanted
    for one in _flat(here):
        if isinstance(one, inspect.StructType):
            found += [field.type for field in one.fields if field.encode_name == wanted]
            if one.tag_field == wanted:
                found.append(inspect.StrType())
        elif isinstance(one, inspect.DictType) and segment:
            name = _entry(segment, inside)
            found.append(one.value_type)
    return name, found


def _entry(segment: str, inside: Any) -> str:  # noqa: ANN401 - whatever the file has there
    """A site's own name as its file writes it, where variables cannot: `ops-pager` for OPS_PAGER."""
    names = inside if isinstance(inside, Mapping) else {}
    alike = [name for name in names if name.lower().replace("-", "_") == segment.lower()]
    return str(alike[0]) if alike else segment.lower()


def _flat(types: list[inspect.Type]) -> Iterator[inspect.Type]:
    for one in types:
        if isinstance(one, inspect.UnionType):
            yield from _flat(list(one.types))
        else:
            yield one


_TEXTS = (inspect.StrType, inspect.EnumType, inspect.LiteralType)


def _value(variable: str, text: str, types: list[inspect.Type]) -> object:
    flat = list(_flat(types))
    if any(isinstance(one, _TEXTS) for one in flat):
        return text
    is_list_of_texts = any(isinstance(one, inspect.VarTupleType) and isinstance(one.item_type, _TEXTS) for one in flat)
    if is_list_of_texts and not text.lstrip().startswith("["):
        return [word.strip() for word in text.split(",") if word.strip()]
    if any(isinstance(one, inspect.BoolType) for one in flat):
        text = text.strip().lower()
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"environment: {variable}: {_wanted(flat)}") from error


def _wanted(types: list[inspect.Type]) -> str:
    """What to write instead; the value itself is not shown, for it may be a secret in the wrong place."""
    for kinds, said in _WANTED:
        if any(isinstance(one, kinds) for one in types):
            return said
    return 'write it as in TOML, such as {name = "value"}; quote it in the shell.'


_WANTED: tuple[tuple[tuple[type[inspect.Type], ...], str], ...] = (
    ((inspect.BoolType,), "write true or false."),
    ((inspect.FloatType,), "write a number, such as 30 or 0.5."),
    ((inspect.IntType,), "write a whole number."),
    ((inspect.VarTupleType,), 'write a list as in TOML, such as ["a", "b"], or texts with commas between them.'),
)


def _paths(one: inspect.Type, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every key below a type; of several forms that may stand there, the keys of all."""
    for inner in _flat([one]):
        if isinstance(inner, inspect.StructType):
            for field in inner.fields:
                yield from _paths(field.type, (*path, field.encode_name))
            if inner.tag_field:
                yield (*path, inner.tag_field)
        elif isinstance(inner, inspect.DictType) and not isinstance(inner.value_type, inspect.StrType):
            yield path
            yield from _paths(inner.value_type, (*path, "NAME"))
        elif not isinstance(inner, inspect.NoneType):
            yield path
