"""All tests as two runs at once: those with servers and the real control plane mostly wait, the others compute.

`make test` runs it; each line is led by its run's name, and what failed is named once more at the end.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field

RUNS = {"servers": "cluster or servers", "rest": "not cluster and not servers"}
"""Name of the run -> which marks it takes (`-m`)."""
NOTHING_RAN = 5
_SAYS_WHY = ("FAILED ", "ERROR ", "= ")


@dataclass(slots=True)
class Run:
    """One pytest process and what of its words is worth saying again."""

    name: str
    process: subprocess.Popen[str]
    ending: list[str] = field(default_factory=list)

    def follow(self) -> None:
        """Pass each line on as it comes."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            sys.stdout.write(f"{self.name:>7} | {line}")
            sys.stdout.flush()
            if line.startswith(_SAYS_WHY):
                self.ending.append(line)


def main(arguments: list[str]) -> int:
    """Run both; 0 where both are well."""
    runs = [
        Run(
            name=name,
            process=subprocess.Popen(
                [sys.executable, "-m", "pytest", "-m", marks, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ),
        )
        for name, marks in RUNS.items()
    ]
    followers = [threading.Thread(target=run.follow) for run in runs]
    for follower in followers:
        follower.start()
    for follower in followers:
        follower.join()
    codes = [run.process.wait() for run in runs]
    for run in runs:
        sys.stdout.writelines(f"{run.name:>7} = {line}" for line in run.ending)
    return 0 if all(code in (0, NOTHING_RAN) for code in codes) and 0 in codes else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
