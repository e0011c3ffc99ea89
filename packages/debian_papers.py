"""What a Debian package has to read: changelog, whose work is inside under which licence, manual page, completions."""

from __future__ import annotations

import email
import re
import sys
from collections.abc import Iterator
from email.message import Message
from email.utils import formatdate
from pathlib import Path

from packages.ground import ROOT, epoch, pressed, put, run, write

MAINTAINER = "trimtab <trimtab@localhost>"
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions",
    "zsh": "usr/share/zsh/vendor-completions",
    "fish": "usr/share/fish/vendor_completions.d",
}
"""Where each shell looks; update-alternatives puts a link there, as both packages bring the same program."""
MANUALS = "usr/share/man/man1"
KNOWN = {
    "apache 2.0": "Apache-2.0",
    "apl 2": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "gnu lesser general public license v3 (lgplv3)": "LGPL-3.0-only",
    "mit license": "MIT",
    "bsd": "BSD-3-Clause",
}
"""Names of licences in words of their own, as SPDX has them."""


def write_papers(name: str, stage: Path, *, home: str, called: str) -> None:
    """Everything under usr/share, and beside the program what alternatives link to."""
    documents = stage / "usr/share/doc" / name
    put(ROOT / "README.md", documents / "README.md")
    write(documents / "changelog.gz", pressed((ROOT / "CHANGELOG.md").read_bytes()))
    write(documents / "changelog.Debian.gz", pressed(changelog(name, called)))
    write(documents / "copyright", copyright_of(stage / home, home))
    own = stage / home / "share"
    source = {"PYTHONPATH": str(ROOT / "daemon"), "TRIMTAB_URL": ""}
    write(own / "trimtab.1.gz", pressed(run(sys.executable, "-m", "packages.manual", more=source)))
    (stage / MANUALS).mkdir(parents=True)
    for shell, folder in COMPLETIONS.items():
        started = "from trimtab.cli import main; main()"
        write(own / f"trimtab.{shell}", run(sys.executable, "-c", started, "completion", shell, more=source))
        (stage / folder).mkdir(parents=True)


def changelog(name: str, called: str) -> str:
    """Debian's form of it; what changed is told in changelog.gz, which is CHANGELOG.md."""
    when = formatdate(epoch())
    told = f"/usr/share/doc/{name}/changelog.gz"
    return f"{name} ({called}) stable; urgency=medium\n\n  * What changed: {told}\n\n -- {MAINTAINER}  {when}\n"


def copyright_of(home: Path, inside: str) -> str:
    """Machine-readable: trimtab's own licence, and one paragraph for each distribution inside. Raises SystemExit."""
    modules = next(home.glob("lib/python*/site-packages"))
    folder = f"{inside}/lib/{modules.parent.name}/site-packages"
    parts = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: trimtab\n"
        "Comment: Installed beside trimtab, each under its own licence; the licences' texts are in the *.dist-info\n"
        f" folders of /{folder}.\n",
        "Files: *\nCopyright: 2026 the trimtab authors\nLicense: Apache-2.0\n",
    ]
    for info in sorted(modules.glob("*.dist-info"), key=lambda path: path.name.lower()):
        if not info.name.startswith("trimtab-"):
            parts.append(_paragraph(info, folder))
    parts.append(
        "License: Apache-2.0\n Licensed under the Apache License, Version 2.0; on Debian systems its text is in\n"
        " /usr/share/common-licenses/Apache-2.0.\n"
    )
    return "\n".join(parts)


def _paragraph(info: Path, folder: str) -> str:
    said = email.message_from_string((info / "METADATA").read_text())
    files = " ".join(f"{folder}/{one}" for one in (*_modules(info), info.name))
    who = said["Author"] or said["Author-email"] or said["Maintainer-email"] or f"the authors of {said['Name']}"
    who = " ".join(re.sub(r"\s*<[^>]*>", "", who).replace('"', "").split())
    license_name = _license(said)
    texts = sorted(path.relative_to(info.parent) for path in info.rglob("*") if _is_license(path))
    where = f" Its text: /{folder}/{texts[0]}\n" if texts else " Its package names the licence and brings no text.\n"
    return (
        f"Files: {files}\nCopyright: {who}\nLicense: {license_name}-{said['Name'].lower()}\n"
        f"Comment: {said['Name']} {said['Version']}, {license_name}.\n{where}"
    )


def _is_license(path: Path) -> bool:
    return path.is_file() and re.match(r"(?i)(licen[cs]e|copying|notice)", path.name) is not None


def _modules(info: Path) -> Iterator[str]:
    """What of a distribution lies beside its dist-info; its RECORD is gone by now, its names remain."""
    name = info.name.split("-")[0]
    top = info / "top_level.txt"
    names = top.read_text().split() if top.is_file() else [name]
    for one in names:
        if (info.parent / one.replace(".", "/")).exists():
            yield f"{one.replace('.', '/')}/*"
        elif (info.parent / f"{one}.py").exists():
            yield f"{one}.py"
    if (info.parent / f"{name}.libs").exists():
        yield f"{name}.libs/*"


def _license(said: Message) -> str:
    """As SPDX names it. Raises SystemExit for a distribution that says nothing: nobody may pass that on."""
    words = said["License-Expression"] or said["License"] or ""
    if not words or "\n" in words:  # the whole text, or nothing: then the classifier is the name
        kinds = [one.rsplit(" :: ", 1)[1] for one in said.get_all("Classifier", []) if one.startswith("License ::")]
        words = kinds[0] if kinds else ""
    if not words:
        raise SystemExit(f"{said['Name']} {said['Version']} does not say its licence: it cannot be shipped")
    return KNOWN.get(words.lower(), words).replace(" ", "-")
