"""The policy of the layout: sizes, roots, and that the daemon's half stays out of the agent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES_MAX = 400


def python_files() -> list[Path]:
    return [path for folder in ("daemon", "tests", "bench") for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_longer_than_400_lines(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LINES_MAX, f"{path.relative_to(ROOT)} has {lines} lines: split it where the thought splits"


def test_the_source_root_is_no_package() -> None:
    assert not (ROOT / "daemon" / "__init__.py").exists()


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONPATH": "daemon"}
    )
    return set(done.stdout.split())


def test_the_agent_never_imports_what_only_the_daemon_needs() -> None:
    loaded = modules_after("import trimtab.agent")
    assert not loaded & {"sqlalchemy", "starlette", "uvicorn", "numpy", "apscheduler", "alembic", "psycopg"}


def test_help_is_light() -> None:
    loaded = modules_after("import trimtab.cli")
    assert not loaded & {"sqlalchemy", "starlette", "numpy", "requests", "rich", "pynvml"}
