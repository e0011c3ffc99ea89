"""Every kind that is read is in the reader's role: what is missing there would be missing in every snapshot."""

from __future__ import annotations

from pathlib import Path

import yaml

from trimtab.schedulers.resources import RESOURCES

ROLE = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes" / "base" / "reader.yaml"


def test_the_readers_role_allows_to_read_every_kind() -> None:
    allowed: set[tuple[str, str]] = set()
    for document in yaml.safe_load_all(ROLE.read_text()):
        for rule in document.get("rules") or ():
            if {"get", "list", "watch"} <= set(rule["verbs"]):
                allowed |= {(group, name) for group in rule["apiGroups"] for name in rule["resources"]}
    assert [kind.name for kind in RESOURCES if (kind.group, kind.plural) not in allowed] == []
