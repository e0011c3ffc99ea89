"""Rewrites the reference pages that are generated from code: `make docs`."""

from __future__ import annotations

from pathlib import Path

from trimtab.show.metrics_reference import metrics_reference

if __name__ == "__main__":
    path = Path(__file__).parent.parent / "docs" / "metrics.md"
    path.write_text(metrics_reference(), encoding="utf-8")
    print(f"{path.name} written")
