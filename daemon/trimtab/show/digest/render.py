"""A digest as one HTML file that needs nothing else, and as Markdown with the same content."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from html import escape

from trimtab.model.digest import Digest
from trimtab.show.catalogue import Catalogue
from trimtab.show.digest.chart import charts
from trimtab.show.digest.words import Grid, Telling

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1e23; --quiet: #5b6270; --line: #d6dae1; --back: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ee; --quiet: #a3abb8; --line: #3a404a; --back: #16191d; } }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 760px; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", sans-serif;
  font-variant-numeric: tabular-nums; }
h1 { font-size: 1.35rem; margin: 0 0 .3rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; border-top: 1px solid var(--line); padding-top: 1rem; }
p { margin: .3rem 0; }
.lead { font-size: 1.05rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--quiet); font-weight: 500; }
.number { text-align: right; white-space: nowrap; }
svg { width: 100%; height: auto; margin: .6rem 0; font-size: 12px; }
svg text { fill: var(--ink); }
pre { overflow-x: auto; padding: .7rem; border: 1px solid var(--line); font-size: .82rem; line-height: 1.4; }
@media print { body { max-width: none; } h2 { break-after: avoid; } table, svg, pre { break-inside: avoid; } }
"""


def as_html(digest: Digest, *, locale: str, zone: tzinfo) -> str:
    """One file, no script, nothing fetched; every name in it is escaped."""
    telling = Telling(Catalogue(locale), zone)
    pictures = charts(digest, telling)
    title = escape(telling.title(digest))
    parts = [f"<h1>{title}</h1>", f'<p class="lead">{escape(telling.lead(digest))}</p>']
    for section in telling.sections(digest):
        parts.append(f"<h2>{escape(section.title)}</h2>")
        parts += [f"<p>{escape(line)}</p>" for line in section.lines]
        parts.append(pictures.get(section.chart, ""))
        if section.grid is not None:
            parts.append(f'<div class="wide">{"".join(_html_table(section.grid))}</div>')
        if section.plain:
            parts.append(f"<pre>{escape(chr(10).join(section.plain))}</pre>")
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="{telling.catalogue.locale}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _html_table(grid: Grid) -> Iterator[str]:
    def cell(tag: str, index: int, text: str) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        kind = ' class="number"' if index in grid.numbers else ""
        return f"<{tag}{scope}{kind}>{escape(text)}</{tag}>"

    yield "<table><thead><tr>"
    yield from (cell("th", index, text) for index, text in enumerate(grid.header))
    yield "</tr></thead><tbody>"
    for row in grid.rows:
        yield "<tr>" + "".join(cell("td", index, text) for index, text in enumerate(row)) + "</tr>"
    yield "</tbody></table>"


def as_markdown(digest: Digest, *, locale: str, zone: tzinfo) -> str:
    """The same in Markdown, with the tables in place of the pictures."""
    telling = Telling(Catalogue(locale), zone)
    lines = [f"# {_plain(telling.title(digest))}", "", _plain(telling.lead(digest))]
    for section in telling.sections(digest):
        lines += ["", f"## {_plain(section.title)}", *(_plain(line) for line in _spaced(section.lines))]
        if section.grid is not None:
            lines += ["", *_markdown_table(section.grid)]
        if section.plain:
            lines += ["", *(f"    {line}" for text in section.plain for line in text.splitlines() or [""])]
    return "\n".join(lines) + "\n"


def as_text(digest: Digest, *, locale: str, zone: tzinfo) -> tuple[str, ...]:
    """The lead and each part's first sentences, for a message."""
    telling = Telling(Catalogue(locale), zone)
    lines = [telling.lead(digest)]
    for section in telling.sections(digest):
        if section.lines:
            lines.append(f"{section.title}: {' '.join(section.lines)}")
    return tuple(lines)


def _spaced(lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        yield ""
        yield line


def _markdown_table(grid: Grid) -> Iterator[str]:
    yield "| " + " | ".join(_plain(text) for text in grid.header) + " |"
    yield "|" + "|".join("---:" if index in grid.numbers else "---" for index in range(len(grid.header))) + "|"
    for row in grid.rows:
        yield "| " + " | ".join(_plain(text) for text in row) + " |"


def _plain(text: str) -> str:
    """Names of pods and queues are not markup."""
    flat = " ".join(text.split())
    return "".join("\\" + letter if letter in "\\`*_[]<>|#" else letter for letter in flat)
