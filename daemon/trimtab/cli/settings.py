"""`trimtab settings`: what a settings file, the environment and credentials come to, and whether it will do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from trimtab.cli.client import say_json
from trimtab.cli.exits import Exit
from trimtab.cli.text import say
from trimtab.errors import SettingsError
from trimtab.plan.planner import RULE_NAMES
from trimtab.settings import AgentSettings, DaemonSettings, pair_trouble
from trimtab.settings.credentials import SCHEME, STORED, USED_ONCE, stored
from trimtab.settings.load import Loaded, load_whole, read_table
from trimtab.settings.override import variable_of
from trimtab.settings.secrets import shown
from trimtab.show.api_types import Check

_AGENT_ALONE = set(AgentSettings.__struct_fields__) - set(DaemonSettings.__struct_fields__)
_DAEMON_ALONE = set(DaemonSettings.__struct_fields__) - set(AgentSettings.__struct_fields__)
PLACES: Mapping[str, Path] = {"daemon": Path("/etc/trimtab/daemon.toml"), "agent": Path("/etc/trimtab/agent.toml")}
Anybodys = Loaded[AgentSettings] | Loaded[DaemonSettings]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key as it is in force."""

    key: str
    value: object
    source: str
    """`default`, `file`, `environment VARIABLE` or `credential NAME`."""
    variable: str
    """The variable that would set it."""


_file = click.option(
    "--settings",
    "settings_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file; without it /etc/trimtab/daemon.toml, else /etc/trimtab/agent.toml.",
)
_whose = click.option(
    "--for", "whose", type=click.Choice(["daemon", "agent"]), help="Whose file it is; else its keys say so."
)
_json = click.option("--json", "is_json", is_flag=True, help="The same data as JSON.")


@click.group()
def settings() -> None:
    """Show what the settings come to and where each comes from; check a file before it is used.

    A key can be overridden by a variable (`settings show --json` names each key's) and every `*_file` key can name a
    systemd credential (`credential:NAME`).

    \b
    Examples: trimtab settings show
              trimtab settings check --settings ./daemon.toml
    """


@settings.command()
@_file
@_whose
@click.option("--all", "has_all", is_flag=True, help="Defaults too; without it only what somebody has set.")
@_json
def show(settings_file: Path | None, whose: str | None, *, has_all: bool, is_json: bool) -> None:
    """Print the settings in force, each with where it comes from. Secrets are shown as `set`.

    \b
    Exit codes: 0 done; 2 the settings are wrong.
    """
    path = settings_file or _found(whose)
    loaded = read(path, whose)[1]
    rows = [row for row in rows_of(loaded) if has_all or is_json or row.source != "default"]
    if is_json:
        say_json(msgspec.json.encode(rows))
        return
    if not rows:
        say([f"Nothing is set: every key has its default (--all shows them; {path or 'no file'})."])
    width = max((len(_line(row)) for row in rows), default=0)
    say(f"{_line(row):<{min(width, 70)}}  # {row.source}" for row in rows)


@settings.command()
@_file
@_whose
@_json
def check(settings_file: Path | None, whose: str | None, *, is_json: bool) -> None:
    """Read a settings file as its program would, and say what is wrong: file, key and fix. Changes nothing.

    \b
    Exit codes: 0 it will do; 1 it will not, each mistake with its fix.
    """
    checks = list(checks_of(settings_file or _found(whose), whose))
    if is_json:
        say_json(msgspec.json.encode(checks))
    else:
        say(line for one in checks for line in (one.sentence, *([f"  fix: {one.fix}"] if one.fix else [])))
    if not all(one.is_ok for one in checks):
        raise click.exceptions.Exit(Exit.NOT_WELL)


def checks_of(path: Path | None, whose: str | None = None) -> Iterator[Check]:
    """Whether settings can be read, by the one of agent and daemon whose keys they have."""
    name, fix = "settings", f"Correct {path}, then look again." if path else "Unset or correct the variable."
    try:
        whom, loaded = read(path, whose)
    except SettingsError as error:
        fix = "Correct or unset the variable." if str(error).startswith("environment") else fix
        yield Check(name=name, is_ok=False, sentence=str(error), fix=fix)
        return
    wrong = [*_rules(path, loaded.settings), *_credentials(path, loaded)]
    yield from wrong
    if all(one.is_ok for one in wrong):
        yield Check(name=name, is_ok=True, sentence=f"{path or 'the environment'} reads as {whom} settings.")


def read(path: Path | None, whose: str | None = None) -> tuple[str, Anybodys]:
    """Whose settings they are, and what they come to. Raises SettingsError."""
    is_daemons = whose == "daemon" or (whose is None and _is_daemons(path))
    if is_daemons:
        return "the daemon's", load_whole(path, DaemonSettings)
    return "an agent's", load_whole(path, AgentSettings)


def rows_of(loaded: Anybodys) -> Iterable[Setting]:
    """Every key in force, secrets hidden, in the order of the file."""
    kind = type(loaded.settings)
    for key, value in flat_values(msgspec.to_builtins(loaded.settings)):
        yield Setting(
            key=key,
            value=shown(key, value),
            source=loaded.origins.get(key, "default"),
            variable=variable_of(kind, key),
        )


def flat_values(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys with their values."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat_values(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _line(row: Setting) -> str:
    return f"{row.key} = {msgspec.json.encode(row.value).decode()}"


def _found(whose: str | None) -> Path | None:
    """The file of this host, where there is one."""
    for name, path in PLACES.items():
        if whose in (None, name) and path.is_file():
            return path
    return None


def _is_daemons(path: Path | None) -> bool:
    """The daemon's where its keys say so, else an agent's."""
    try:
        keys = set(read_table(path)) if path is not None else set()
    except SettingsError:
        keys = set()  # `load_whole` says it better
    return len(keys & _DAEMON_ALONE) > len(keys & _AGENT_ALONE)


def _rules(path: Path | None, found: AgentSettings | DaemonSettings) -> Iterator[Check]:
    """A misspelt rule would keep the daemon's own mode: the daemon refuses to start with one."""
    rules = found.issue.rules if isinstance(found, DaemonSettings) else {}
    for unknown in sorted(set(rules) - set(RULE_NAMES)):
        said = f"{path}: issue.rules has {unknown!r}, which is no rule."
        yield Check(name="settings", is_ok=False, sentence=said, fix=f"The rules are {', '.join(RULE_NAMES)}.")
    if isinstance(found, DaemonSettings):
        trouble = pair_trouble(found.pair, store_url=found.store.url)
        if trouble is not None:
            yield Check(name="settings", is_ok=False, sentence=f"{path}: {trouble}", fix=f"Correct {path}, as it says.")


def _credentials(path: Path | None, loaded: Anybodys) -> Iterator[Check]:
    """Credentials are there only within the unit: from outside, whether they are stored is what can be said."""
    for key, sentence in loaded.missing.items():
        if key in USED_ONCE:
            continue
        name = _value_at(loaded.settings, key).removeprefix(SCHEME)
        where = f"{path or 'environment'}: {key}"
        has = stored(name)
        if has:
            said = f"{where}: the credential {name!r} is stored; the unit hands it over."
            yield Check(name="credential", is_ok=True, sentence=said)
        elif has is None:
            said = f"{where}: whether the credential {name!r} is stored, only root can see."
            yield Check(name="credential", is_ok=True, sentence=said, fix=f"sudo ls {STORED}")
        else:
            fix = f"Put the secret in {STORED}/{name}, readable by root alone, and restart the unit."
            yield Check(name="credential", is_ok=False, sentence=f"{where}: {sentence}", fix=fix)


def _value_at(found: AgentSettings | DaemonSettings, key: str) -> str:
    values: Any = msgspec.to_builtins(found)
    for name in key.split("."):
        values = values[int(name)] if isinstance(values, list) else values[name]
    return str(values)
