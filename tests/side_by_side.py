"""All tests as three runs at once: the real control plane and processes, servers (both mostly wait), the rest.

`make test` runs it; each line is led by its run's name, and what failed is named once more at the end. What failed
beside others is tried once more, alone on the machine: three runs on two cores can hold a server up for longer than a
test waits. What fails then too has failed; what passes is named as unsteady, for somebody to mend.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field

RUNS = {
    "cluster": "cluster or processes",
    "servers": "servers and not cluster",
    "rest": "not cluster and not processes and not servers",
}
"""Name of the run -> which marks it takes (`-m`)."""
NOTHING_RAN = 5
FAILED = 1
"""pytest's exit code where tests failed; any other one means that the run itself broke, and is not tried again."""
UNSTEADY_MAX = 10
"""More failures than this are no accident of timing."""
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

    @property
    def failed(self) -> list[str]:
        """The lines that name what failed."""
        return [line for line in self.ending if not line.startswith("= ")]


def begun(name: str, arguments: list[str]) -> Run:
    """A run under way; what failed last is remembered by each run on its own."""
    command = [sys.executable, "-m", "pytest", "-m", RUNS[name], "-o", f"cache_dir=.pytest_cache/{name}", *arguments]
    return Run(name, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))


def beside_each_other(arguments: list[str]) -> list[Run]:
    """All runs, ended."""
    runs = [begun(name, arguments) for name in RUNS]
    followers = [threading.Thread(target=run.follow) for run in runs]
    for follower in followers:
        follower.start()
    for follower in followers:
        follower.join()
    for run in runs:
        run.process.wait()
    return runs


def passes_alone(run: Run, arguments: list[str]) -> bool:
    """Whether what failed in a run passes with the machine to itself."""
    if run.process.returncode != FAILED or len(run.failed) > UNSTEADY_MAX:
        return False
    again = begun(run.name, ["--last-failed", "--last-failed-no-failures=none", *arguments])
    again.follow()
    return again.process.wait() == 0


def main(arguments: list[str]) -> int:
    """Run all; 0 where all are well, at the second try at the latest."""
    runs = beside_each_other(arguments)
    codes = [run.process.returncode for run in runs]
    is_well = 0 in codes or FAILED in codes
    unsteady: list[str] = []
    for run in runs:
        if run.process.returncode in (0, NOTHING_RAN):
            continue
        if passes_alone(run, arguments):
            unsteady += run.failed
        else:
            is_well = False
    for run in runs:
        sys.stdout.writelines(f"{run.name:>7} = {line}" for line in run.ending)
    if unsteady and is_well:
        sys.stdout.write(f"== {len(unsteady)} unsteady: failed beside the other runs, passed alone; mend them\n")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
