"""Rewrites the reference pages and samples that are generated from code: `make docs`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.security.permissions import page as permissions
from tests.security.reference import page as hostile_requests

from trimtab.cli import VERBS
from trimtab.cli.exits import reference as exit_codes
from trimtab.cli.reference import page as commands
from trimtab.settings.reference import KINDS, page, sample
from trimtab.show.api_reference import api_reference
from trimtab.show.api_table import ROUTES
from trimtab.show.metrics_reference import metrics_reference
from trimtab.show.oncall.webhook_body import schema

ROOT = Path(__file__).parent.parent


def generated() -> dict[Path, str]:
    """Every generated file with what it should hold now."""
    return {
        ROOT / "docs" / "metrics.md": metrics_reference(),
        ROOT / "docs" / "api.md": api_reference(ROUTES),
        ROOT / "docs" / "reference" / "commands.md": commands(),
        ROOT / "docs" / "reference" / "exit-codes.md": exit_codes(VERBS),
        ROOT / "docs" / "reference" / "settings.md": page(),
        ROOT / "docs" / "reference" / "hostile-requests.md": hostile_requests(),
        ROOT / "docs" / "how-to" / "permissions.md": permissions(),
        ROOT / "docs" / "reference" / "oncall-webhook.schema.json": json.dumps(schema(), indent=2) + "\n",
        **{ROOT / "systemd" / f"{name}.toml": sample(kind) for name, kind in KINDS.items()},
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)} written")
