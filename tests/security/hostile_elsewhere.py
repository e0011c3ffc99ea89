"""Hostile input that is no request to our listeners: names and texts on their way to people, kernel lines, files."""

from __future__ import annotations

from tests.security.hostile import Hostile

ROWS: tuple[Hostile, ...] = ()
