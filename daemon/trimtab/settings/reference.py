"""Every key of a settings file with its type, default and reason, read from the types: commented samples and a page."""

from __future__ import annotations

import ast
import inspect
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import msgspec
from msgspec import Meta, Struct

from trimtab.settings.agent import AgentSettings
from trimtab.settings.daemon import DaemonSettings

KINDS: Mapping[str, type[Struct]] = {"agent": AgentSettings, "daemon": DaemonSettings}
_ABOUT = (
    "Generated from the types (`make docs`). Every key has its unit in its name. An unknown key is an error that names "
    "file and key; `trimtab settings check` reads a file as its program would. Every key can be set by a variable too "
    "(`people.listen` by `TRIMTAB_DAEMON__PEOPLE__LISTEN`), and every `*_file` key can name a systemd credential "
    "(`credential:NAME`): [how](../how-to/settings.md)."
)
_REQUIRED = msgspec.NODEFAULT
_BOUNDS = (("gt", "over"), ("ge", "at least"), ("lt", "under"), ("le", "at most"))
_WORDS: Mapping[object, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a table. `default` is TOML, empty where the key is unset or must be given."""

    name: str
    type_text: str
    default: str
    is_required: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a settings file. `name` is as in its header, `[[name]]` where it may stand several times."""

    name: str
    about: str
    keys: tuple[Key, ...]
    is_optional: bool = False
    """Absent means that the daemon has no such thing; without the table none of its defaults holds."""
    is_repeated: bool = False


def tables(kind: type[Struct]) -> tuple[Table, ...]:
    """All tables of a settings file, the keys without a table first."""
    return tuple(_tables(kind, "", is_optional=False, is_repeated=False))


def sample(kind: type[Struct]) -> str:
    """A settings file in which each key stands with its reason, set to its default behind a `#`."""
    lines: list[str] = []
    for table in tables(kind):
        lines += ["", f"# {table.about}"] if table.name else [f"# {table.about}"]
        if table.name:
            mark = "#" if table.is_optional or table.is_repeated else ""
            lines.append(f"{mark}[[{table.name}]]" if table.is_repeated else f"{mark}[{table.name}]")
        for key in table.keys:
            lines += [f"# {line}" for line in _wrapped(key)]
            lines.append(f"#{key.name} = {key.default or _example(key)}")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The reference page of all settings (docs/reference/settings.md)."""
    lines = ["# Settings", "", _ABOUT]
    for name, kind in KINDS.items():
        lines += ["", f"## `{name}.toml`"]
        for table in tables(kind):
            lines += [
                "",
                f"### {_header(table)}",
                "",
                table.about,
                "",
                "| Key | Type | Default | |",
                "|---|---|---|---|",
            ]
            lines += [f"| `{key.name}` | {key.type_text} | {_shown(key)} | {_cell(key.reason)} |" for key in table.keys]
    return "\n".join(lines) + "\n"


def _header(table: Table) -> str:
    if not table.name:
        return "Without a table"
    header = f"`[[{table.name}]]`" if table.is_repeated else f"`[{table.name}]`"
    return f"{header} (may be left out)" if table.is_optional else header


def _shown(key: Key) -> str:
    if key.is_required:
        return "must be given"
    return f"`{key.default}`" if key.default else "unset"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _wrapped(key: Key) -> Iterator[str]:
    line = f"{key.reason} ({key.type_text})" if key.reason else f"({key.type_text})"
    while len(line) > 110:
        cut = line.rfind(" ", 0, 110)
        yield line[:cut]
        line = line[cut + 1 :]
    yield line


def _example(key: Key) -> str:
    return '"…"' if "text" in key.type_text or "one of" in key.type_text else "…"


def _tables(kind: type[Struct], name: str, *, is_optional: bool, is_repeated: bool) -> Iterator[Table]:
    reasons = _reasons(kind)
    keys: list[Key] = []
    inner: list[tuple[str, type[Struct], bool, bool]] = []
    hints = typing.get_type_hints(kind, include_extras=True)
    tag = kind.__struct_config__.tag
    if tag is not None:
        keys.append(Key(name="kind", type_text="text", default=f'"{tag}"', is_required=False, reason="What it is."))
    for one in msgspec.structs.fields(kind):
        found = list(_structs(hints[one.name]))
        if found:
            inner += [(one.name + suffix, struct, optional, repeated) for struct, suffix, optional, repeated in found]
            continue
        default = one.default if one.default_factory is _REQUIRED else one.default_factory()
        keys.append(
            Key(
                name=one.name,
                type_text=_type_text(hints[one.name]),
                default="" if default is _REQUIRED or default is None else _toml(default),
                is_required=one.required,
                reason=reasons.get(one.name, ""),
            )
        )
    about = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
    yield Table(name=name, about=about, keys=tuple(keys), is_optional=is_optional, is_repeated=is_repeated)
    for inner_name, struct, optional, repeated in inner:
        full = f"{name}.{inner_name}" if name else inner_name
        yield from _tables(struct, full, is_optional=optional or is_optional, is_repeated=repeated)


def _structs(hint: object) -> Iterator[tuple[type[Struct], str, bool, bool]]:
    """Sections that a field holds: the type, what follows its name, may it be left out, may it stand several times."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        yield from _structs(arguments[0])
    elif isinstance(hint, type) and issubclass(hint, Struct):
        yield hint, "", False, False
    elif origin in (typing.Union, types.UnionType):
        for one in arguments:
            yield from ((struct, suffix, True, repeated) for struct, suffix, _, repeated in _structs(one))
    elif origin is tuple:
        yield from ((struct, suffix, True, True) for struct, suffix, _, _ in _structs(arguments[0]))
    elif origin in (dict, Mapping) or (origin is not None and origin.__name__ in ("Mapping", "dict")):
        yield from (
            (struct, f".NAME{suffix}", True, repeated) for struct, suffix, _, repeated in _structs(arguments[1])
        )


def _type_text(hint: object) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        bounds = [_bounds(meta) for meta in arguments[1:] if isinstance(meta, Meta)]
        return ", ".join([_type_text(arguments[0]), *(said for said in bounds if said)])
    if origin is typing.Literal:
        return "one of " + ", ".join(str(one) for one in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_text(one) for one in arguments if one is not type(None))
    if origin in (tuple, list, frozenset):
        return f"list of {_type_text(arguments[0])}"
    if origin is not None and len(arguments) == 2:
        return f"table of name = {_type_text(arguments[1])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "one of " + ", ".join(str(one.value) for one in hint)
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _bounds(meta: Meta) -> str:
    said = [f"{word} {getattr(meta, name):g}" for name, word in _BOUNDS if getattr(meta, name) is not None]
    return " and ".join(said)


def _toml(value: object) -> str:
    if isinstance(value, Enum):
        return _toml(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, (int, float)):
        return f"{value:_g}" if isinstance(value, float) and value == int(value) and abs(value) < 1e6 else repr(value)
    if isinstance(value, (tuple, list, frozenset)):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    assert isinstance(value, Mapping), f"{value!r} has no place in a settings file"
    return "{" + ", ".join(f"{_toml(key)} = {_toml(one)}" for key, one in value.items()) + "}"


def _reasons(kind: type[Struct]) -> dict[str, str]:
    """The string that stands behind each field in the source, of the type and what it is made from."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if not (isinstance(one, type) and issubclass(one, Struct)) or one is Struct:
            continue
        body = _body(one)
        for field, after in pairwise(body):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[field.target.id] = " ".join(str(after.value.value).split())
    return found


def _body(kind: type[Struct]) -> list[ast.stmt]:
    tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    return next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
