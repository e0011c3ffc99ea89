"""What `trimtab setup` says when it is done."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.setup.around import Done
from trimtab.setup.files import Act, Change

NOTHING = "Nothing to set up here: neither Grafana nor Prometheus nor Alertmanager is installed."
NOTHING_OF_OURS = "Nothing here was made by trimtab."


def to_lines(done: Done, *, is_dry: bool, is_removal: bool) -> Iterator[str]:
    """One line a file that is news, then what is left for a person, and which earlier wishes hold."""
    yield from _did(done, is_dry=is_dry, is_removal=is_removal)
    if done.as_before:
        yield f"As asked before: {' '.join(done.as_before)}   (give an option again to change it, --forget to drop all)"


def _did(done: Done, *, is_dry: bool, is_removal: bool) -> Iterator[str]:
    news = [change for change in done.changes if change.act is not Act.KEPT]
    if not done.changes:
        yield NOTHING_OF_OURS if is_removal else NOTHING
        return
    if is_dry:
        yield "A dry run: nothing was written."
    for change in news:
        yield _line(change)
    kept = len(done.changes) - len(news)
    if kept:
        what = "things" if any(" " in change.path for change in done.changes) else "files"
        yield f"{'' if news else 'Nothing to do: '}{kept} {what} are as they should be."
    if done.to_do:
        yield ""
        yield from done.to_do


def to_dict(done: Done) -> dict[str, object]:
    """The same as plain values."""
    return {
        "found": list(done.found),
        "changes": [{"path": change.path, "act": change.act.value, "why": change.why} for change in done.changes],
        "to_do": list(done.to_do),
        "as_before": list(done.as_before),
    }


def _line(change: Change) -> str:
    path = change.path if "://" in change.path or " " in change.path else f"/{change.path}"
    return f"{change.act.value:8} {path}" + (f"   ({change.why})" if change.why else "")
