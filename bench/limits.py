"""The table of faults: each is done to real processes; a row says what became of reports and what people see."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402
from tests.limits.table import FAULTS, SHORT, text_of  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faults", nargs="*", help="names (default: the short ones; `all` for all)")
    parser.add_argument("--list", action="store_true", help="names, and what each is")
    options = parser.parse_args()
    if options.list:
        for fault in FAULTS:
            print(f"{fault.__name__:44} {(fault.__doc__ or '').splitlines()[0]}")
        return
    chosen = [one for one in FAULTS if one.__name__ in options.faults] or list(SHORT)
    if options.faults == ["all"]:
        chosen = list(FAULTS)
    failed = 0
    lost = 0
    for fault in chosen:
        home = Path(tempfile.mkdtemp(prefix="trimtab-limits-"))
        began = time.monotonic()
        try:
            row = fault(home)
        except pytest.skip.Exception as reason:
            print(f"## {fault.__name__}: not tried: {reason}", flush=True)
            continue
        except AssertionError as error:
            failed += 1
            print(f"## {fault.__name__}: FAILED after {time.monotonic() - began:.0f} s: {str(error)[:600]}", flush=True)
            continue
        finally:
            shutil.rmtree(home, ignore_errors=True)
        lost += row.lost
        print(text_of(row), flush=True)
    print(f"{len(chosen)} faults, {failed} failed, {lost} acknowledged reports lost")
    sys.exit(1 if failed or lost else 0)


if __name__ == "__main__":
    main()
