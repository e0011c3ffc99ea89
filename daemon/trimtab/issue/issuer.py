"""Carries commands out, one step a beat: what is agreed is finished or undone, whatever happens in between."""

from __future__ import annotations

from trimtab.issue.ledger import Ledger

__all__ = ["Ledger"]
