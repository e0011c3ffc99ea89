"""Logging: native fields in the journal, text on a terminal, JSON where asked for. Secrets are never shown.

What the outside wrote (kernel lines, names, answers) cannot make a second line or a field: control characters are
escaped in every form.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Mapping, MutableMapping
from types import TracebackType
from typing import Any, Literal, TextIO, cast

import structlog

from trimtab.journald import is_stderr_the_journal, write_entry
from trimtab.secrecy import on_one_line, scrubbed
from trimtab.unfailing import Unfailing

Form = Literal["auto", "journal", "text", "json"]

NATIVE = ("xid", "gpu", "node", "finding", "command", "rule", "cluster", "workload")
"""These are journal fields under their own names: `journalctl XID=79`. All others begin with TRIMTAB_."""
PRIORITIES = {"debug": "7", "info": "6", "warning": "4", "error": "3", "critical": "2"}

_FIELD_BAD = re.compile(r"[^A-Z0-9_]")
_FIELD_CHARS_MAX = 64

_standing: Mapping[str, Mapping[str, str]] = {}


def setup(
    *,
    level: str = "info",
    as_json: bool | None = None,
    form: Form = "auto",
    identifier: str = "trimtab",
) -> None:
    """Configure logging of this process; calling it again changes level and form at once.

    `auto`: the journal where standard error is it, text on a terminal, else JSON; `as_json` decides the last two.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _enriched,
            _clean,
            *_renderers(_form(form, as_json), identifier),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, Unfailing(sys.stderr))),
        cache_logger_on_first_use=False,  # a cached logger outlives a later setup, and the tests' capture
    )


def hear_all() -> None:
    """For a process that is ours alone: what libraries say, and errors that nobody knows, are told without secrets."""
    _hear_libraries()
    sys.excepthook = _died
    threading.excepthook = _thread_died


def stand(about: Mapping[str, Mapping[str, str]]) -> None:
    """What each finding and command is about (`F31` → xid, gpu, node …): every line that names it carries that too."""
    global _standing  # noqa: PLW0603 - published whole, as everything that beats share
    _standing = about


def _form(form: Form, as_json: bool | None) -> Form:  # noqa: FBT001 - private
    if form != "auto":
        return form
    if as_json is None and is_stderr_the_journal():
        return "journal"
    if as_json is None:
        as_json = "JOURNAL_STREAM" in os.environ or not sys.stderr.isatty()
    return "json" if as_json else "text"


def _renderers(form: Form, identifier: str) -> list[structlog.types.Processor]:
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    if form == "json":
        return [stamp, structlog.processors.JSONRenderer()]
    if form == "journal":
        return [_Journal(identifier), stamp, structlog.processors.JSONRenderer()]
    return [_escaped, stamp, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


class _Journal:
    """Writes the entry itself; what the journal does not take goes on to standard error."""

    def __init__(self, identifier: str) -> None:
        self._identifier = identifier

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ANN401, ARG002
        if write_entry(journal_fields(event, identifier=self._identifier)):
            raise structlog.DropEvent
        return event


def journal_fields(event: Mapping[str, Any], *, identifier: str) -> dict[str, str]:
    """A log line as the fields of a journal entry."""
    rest = {name: value for name, value in event.items() if name not in ("event", "level")}
    said = rest.pop("said", None)
    head = str(event.get("event", "")) + (f": {said}" if said else "")
    tail = " ".join(f"{name}={value}" for name, value in rest.items() if value not in (None, "") and name != "trace")
    fields = {
        "MESSAGE": on_one_line(f"{head} ({tail})" if tail else head),
        "PRIORITY": PRIORITIES.get(str(event.get("level", "info")), "6"),
        "SYSLOG_IDENTIFIER": identifier,
    }
    for name, value in (*rest.items(), ("said", said)):
        if value is not None and value != "":
            fields.setdefault(_field(name), on_one_line(str(value)))
    return fields


def _field(name: str) -> str:
    if name in NATIVE:
        return name.upper()
    return f"TRIMTAB_{_FIELD_BAD.sub('_', name.upper())}"[:_FIELD_CHARS_MAX]


def _enriched(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ANN401
    number = event.get("command_id")
    if "command" not in event and isinstance(number, int) and number:
        event["command"] = f"R{number}"
    for key in ("command", "finding"):  # what a command rests on is said by the command, and counts too
        for name, value in _standing.get(str(event.get(key, "")), {}).items():
            event.setdefault(name, value)
    return event


def _clean(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ANN401
    for name, value in event.items():
        event[name] = _without_secrets(value)
    return event


def _without_secrets(value: Any) -> Any:  # noqa: ANN401 - whatever a log call was given
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {_without_secrets(name): _without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_secrets(inner) for inner in value]
    return scrubbed(str(value))


def _escaped(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ANN401
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = on_one_line(value)
    return event


class _Library(logging.Handler):
    """What libraries log, from warnings on, as our own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else None
        said = record.getMessage()
        getattr(structlog.get_logger(), level)("a library says", library=record.name, said=said, trace=trace)


def _hear_libraries() -> None:
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _Library)]:
        root.removeHandler(handler)
    root.addHandler(_Library(level=logging.WARNING))


def _died(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The end by an error that nobody knows: its traceback without secrets, and as one entry in the journal."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    whole = scrubbed("".join(traceback.format_exception(kind, error, trace)))
    structlog.get_logger().critical("ended by an error", said=f"{kind.__name__}: {error}", trace=whole)


def _thread_died(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_type is SystemExit or ended.exc_value is None:
        return
    whole = scrubbed("".join(traceback.format_exception(ended.exc_type, ended.exc_value, ended.exc_traceback)))
    said = f"{ended.exc_type.__name__}: {ended.exc_value}"
    name = ended.thread.name if ended.thread is not None else "unknown"
    structlog.get_logger().critical("a thread ended by an error", thread=name, said=said, trace=whole)
