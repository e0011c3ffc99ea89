"""The how-to's settings are settings: each block loads, and every kind has one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from trimtab.settings import DaemonSettings, from_table
from trimtab.show.oncall.senders import SENDERS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "how-to" / "on-call-targets.md").read_text(encoding="utf-8")


def test_every_kind_has_a_block_that_loads() -> None:
    kinds = set()
    for block in re.findall(r"```toml\n(.*?)```", PAGE, re.S):
        # What is commented out must load too, unless it says the same key twice.
        for text in (block, re.sub(r"(?m)^# (\w+ = )", r"\1", block)):
            try:
                table = tomllib.loads(text)
            except tomllib.TOMLDecodeError as error:
                assert "overwrite" in str(error)
                continue
            settings = from_table(table, DaemonSettings, where="on-call-targets.md")
            kinds |= {target.__struct_config__.tag for target in settings.oncall.targets.values()}
    assert kinds == {section.__struct_config__.tag for section, _ in SENDERS}


def test_every_kind_in_the_table_leads_to_its_part() -> None:
    headings = {
        re.sub(r"[^\w\- ]", "", line[3:].lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("## ")
    }
    links = dict(re.findall(r"\| \[`(\w+)`\]\(#([\w-]+)\)", PAGE))
    assert set(links) == {section.__struct_config__.tag for section, _ in SENDERS}
    assert set(links.values()) <= headings
