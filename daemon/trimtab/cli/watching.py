"""`--watch`: the same verb again and again, on a terminal in place, in a pipe only what changed."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC

import click
import msgspec

from trimtab.cli.place import OutOfReach
from trimtab.clock import SystemClock

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def watch(once: Callable[[], None], *, every_seconds: float, is_json: bool) -> None:
    """Run a verb until Ctrl-C. A daemon that goes away later is waited for; one that was never there is an error."""
    is_terminal = sys.stdout.isatty() and not is_json
    context = click.get_current_context(silent=True)
    if is_terminal and context is not None:
        context.color = True  # what is printed is caught first, and would look like a pipe
    shown, pause = "", threading.Event()
    with _screen() if is_terminal else contextlib.nullcontext():
        try:
            while True:
                text = _run(once, before=shown)
                if is_terminal:
                    _redraw(text)
                elif text != shown:
                    _append(text, is_first=not shown, is_json=is_json)
                shown = text
                pause.wait(every_seconds)
        except KeyboardInterrupt:
            pass
    if is_terminal:
        click.echo(shown, nl=False)


def _run(once: Callable[[], None], *, before: str) -> str:
    caught = io.StringIO()
    try:
        with contextlib.redirect_stdout(caught):
            once()
    except OutOfReach as error:
        if not before:
            raise
        lines = before.splitlines()
        marked = [line for line in lines if not line.startswith(_LOST)]
        return "\n".join([*marked, f"{_LOST}: what is shown is old. {error}"]) + "\n"
    except click.exceptions.Exit:
        pass  # --check counts for the last look only, and there is no last one
    return caught.getvalue()


_LOST = "No word from the daemon"


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """The terminal's other screen, so that what stood there before comes back."""
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def _redraw(text: str) -> None:
    rows = shutil.get_terminal_size((120, 24)).lines
    lines = text.splitlines()
    if len(lines) > rows - 1:
        lines = [*lines[: rows - 2], f"… and {len(lines) - rows + 2} more lines"]
    sys.stdout.write(_HOME + "".join(f"{line}{_END_OF_LINE}\r\n" for line in lines) + _BELOW)
    sys.stdout.flush()


def _append(text: str, *, is_first: bool, is_json: bool) -> None:
    if is_json:
        click.echo(msgspec.json.format(text.encode(), indent=-1))  # one look, one line
    else:
        moment = SystemClock().now().astimezone(UTC)
        click.echo(("" if is_first else "\n") + f"--- {moment:%H:%M:%S} UTC\n{text}", nl=False)
    sys.stdout.flush()
