"""The nested report of `nvidia-smi -q`, as text or XML, in one shape: lower-case words, values as printed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree as XmlTree

from trimtab.errors import UnreadableInput

_UNKNOWN = re.compile(
    r"^\[?(?:n/a|not supported|unknown error|requested functionality has been deprecated|insufficient permissions|"
    r"function not found|not found|err!|gpu requires reset|gpu is lost|)\]?$",
    re.IGNORECASE,
)
_FAULT = re.compile(r"\b(?:gpu requires reset|gpu is lost)\b|^err!$", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_LINE = re.compile(r"^(\s*)(\S.*?)\s*:(?: (.*))?$")
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{1,8}:[0-9A-Fa-f:.]+)\s*$")
DEPTH_MAX = 20


@dataclass(slots=True)
class Section:
    """A heading or a value, with what stands below it. The same heading may come more than once."""

    key: str
    value: str | None = None
    children: list[Section] = field(default_factory=list)

    def all(self, key: str) -> Iterator[Section]:
        """Children of this name."""
        return (child for child in self.children if child.key == key)

    def find(self, *path: str) -> Section | None:
        """The first section down a path."""
        found: Section | None = self
        for key in path:
            found = next(found.all(key), None) if found else None
        return found

    def text(self, *paths: str) -> str | None:
        """The first known value of several paths (`a/b`); None for every way of saying `unknown`."""
        for path in paths:
            found = self.find(*path.split("/"))
            if found is not None and found.value is not None and is_known(found.value):
                return found.value.strip()
        return None

    def number(self, *paths: str) -> float | None:
        """The number in a value, its unit left off."""
        text = self.text(*paths)
        return number_of(text) if text is not None else None

    def flag(self, *paths: str) -> bool | None:
        """Yes, Active and Enabled as True."""
        text = self.text(*paths)
        return None if text is None else text.lower() in ("yes", "active", "enabled", "pending")

    def values(self) -> Iterator[str]:
        """All values below, however deep."""
        for child in self.children:
            if child.value is not None:
                yield child.value
            yield from child.values()


@dataclass(frozen=True, slots=True)
class SmiLog:
    """A whole report: its head, and each GPU's address as printed with its section."""

    head: Section
    gpus: tuple[tuple[str, Section], ...]


def is_known(text: str) -> bool:
    """Whether a printed value is one; N/A, brackets, errors and deprecation sentences are not."""
    return _UNKNOWN.match(text.strip()) is None


def is_fault(text: str) -> bool:
    """Whether a value says that the GPU itself is unusable. `Unknown Error` on one sensor is noise."""
    return _FAULT.search(text.strip()) is not None


def number_of(text: str) -> float | None:
    """The first number of a text; None where there is none."""
    found = _NUMBER.search(text)
    return float(found[0]) if found else None


def read_text(text: str) -> SmiLog:
    """The report as text: headings by their indent."""
    head = Section("")
    gpus: list[tuple[str, Section]] = []
    stack: list[tuple[int, Section]] = [(-1, head)]
    for line in text.splitlines():
        if not line.strip() or line.startswith("="):
            continue
        gpu = _GPU.match(line)
        if gpu:
            section = Section("gpu")
            gpus.append((gpu[1], section))
            stack = [(0, section)]
            continue
        _hang_line(line, stack)
    return SmiLog(head, tuple(gpus))


def _hang_line(line: str, stack: list[tuple[int, Section]]) -> None:
    found = _LINE.match(line)
    indent = len(found[1]) if found else len(line) - len(line.lstrip())
    key = (found[2] if found else line.strip()).lower()
    section = Section(key, found[3] or "" if found else None)
    while len(stack) > 1 and indent <= stack[-1][0]:
        stack.pop()
    stack[-1][1].children.append(section)
    if len(stack) < DEPTH_MAX:
        stack.append((indent, section))


def read_xml(text: str) -> SmiLog:
    """The report as XML. Raises UnreadableInput."""
    if "<!ENTITY" in text:
        raise UnreadableInput("the XML defines entities, which nvidia-smi never does: not read")
    try:
        root = XmlTree.fromstring(text.strip())  # entities are refused above
    except (XmlTree.ParseError, ValueError) as error:
        raise UnreadableInput(
            f"looks like nvidia-smi -q -x, but the XML is broken: {error}. Is the file whole?"
        ) from error
    head = Section("")
    gpus = []
    for element in root:
        if element.tag == "gpu":
            gpus.append((element.get("id", ""), _section(element, 0)))
        else:
            head.children.append(_section(element, 0))
    return SmiLog(head, tuple(gpus))


def _section(element: XmlTree.Element, depth: int) -> Section:
    section = Section(element.tag.replace("_", " ").lower(), None if len(element) else (element.text or ""))
    if depth < DEPTH_MAX:
        section.children.extend(_section(child, depth + 1) for child in element)
    return section
