"""What is wrong in a settings file, said so that it is found: the entry by its name, a misspelt key with its like."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

_PATH = re.compile(r" - at `(key in )?\$([^`]*)`$")
_SAID_PATH = re.compile(r" - at `(?:key in )?\$([^`]*)`")
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")
_ANY = "[...]"
_HOMES_MAX = 2


def told(error: msgspec.ValidationError, table: Mapping[str, Any], kind: type[Any]) -> str:
    """The error's sentence, with the entry that it is about and the key that may have been meant."""
    said = str(error)
    path = _PATH.search(said)
    where = path[2].lstrip(".") if path is not None else ""
    if path is not None and not path[1] and where.count(_ANY) == 1:
        named = _entry(said, where, table, kind)
        said, where = said.replace(where, named), named
    unknown = _UNKNOWN.search(said)
    if unknown is None:
        return said
    homes = _homes(kind, unknown[1])
    if "" in homes:
        return f"{said}. {unknown[1]} stands at the top of the file, above the first [table]."
    if homes:
        return f"{said}. {unknown[1]} belongs under {' or '.join(f'[{home}]' for home in homes)}."
    near = difflib.get_close_matches(unknown[1], sorted(set(_keys_at(kind, where))), n=2)
    return f"{said}. Did you mean {' or '.join(near)}?" if near else said


def path_in(said: str) -> str:
    """The dotted path of the key that such a sentence is about; empty where it is about the whole."""
    path = _SAID_PATH.search(said)
    return path[1].lstrip(".") if path is not None else ""


def _entry(said: str, where: str, table: Mapping[str, Any], kind: type[Any]) -> str:
    """`oncall.targets.pager` for `oncall.targets[...]`: the one entry that alone makes the same error."""
    head, _, tail = where.partition(_ANY)
    entries: Any = table
    for name in head.split("."):
        entries = entries.get(name, {}) if isinstance(entries, Mapping) else {}
    if not isinstance(entries, Mapping):
        return where
    for name, entry in entries.items():
        try:
            msgspec.convert(_with(table, head.split("."), {name: entry}), kind, strict=True)
        except msgspec.ValidationError as error:
            if str(error) == said:
                return f"{head}.{name}{tail}"
    return where


def _with(table: Mapping[str, Any], path: list[str], value: object) -> dict[str, Any]:
    """The table with another value at that path."""
    first, *rest = path
    return {**table, first: _with(table[first], rest, value) if rest else value}


def _homes(kind: type[Any], key: str) -> list[str]:
    """The tables, two or fewer, that know the key: a line that was put below another table's head."""
    top = [field for one in _structs(inspect.type_info(kind)) for field in one.fields]
    found = [""] if any(field.encode_name == key for field in top) else []
    found += [field.encode_name for field in top if key in set(_keys_at(kind, field.encode_name))]
    return found if len(found) <= _HOMES_MAX else []


def _keys_at(kind: type[Any], where: str) -> Iterator[str]:
    """The keys that the section there knows; of every form, where it has several."""
    here = [inspect.type_info(kind)]
    for name in re.sub(r"\[\d+\]", "[]", where).replace("[]", ".[]").split("."):
        if name:
            here = [inner for one in here for inner in _inside(one, name)]
    for one in here:
        yield from (field.encode_name for found in _structs(one) for field in found.fields)


def _inside(one: inspect.Type, name: str) -> Iterator[inspect.Type]:
    if isinstance(one, inspect.UnionType):
        for form in one.types:
            yield from _inside(form, name)
    elif isinstance(one, inspect.StructType):
        yield from (field.type for field in one.fields if field.encode_name == name)
    elif isinstance(one, inspect.DictType):
        yield one.value_type
    elif isinstance(one, inspect.VarTupleType | inspect.ListType):
        yield one.item_type


def _structs(one: inspect.Type) -> Iterator[inspect.StructType]:
    if isinstance(one, inspect.UnionType):
        for form in one.types:
            yield from _structs(form)
    elif isinstance(one, inspect.StructType):
        yield one
