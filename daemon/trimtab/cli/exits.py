"""Exit codes: one table for all verbs, from which the reference page and the tests are made. They do not change."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Exit(IntEnum):
    """How a verb ended, for scripts."""

    DONE = 0
    NOT_WELL = 1
    USAGE = 2
    OUT_OF_REACH = 3
    REFUSED = 4


MEANINGS: Mapping[Exit, str] = {
    Exit.DONE: "Done; where the verb looks, all is as it should be.",
    Exit.NOT_WELL: "Done, and something is not well: what that is depends on the verb, below.",
    Exit.USAGE: "Not begun: the command line, a settings file or a file to read is wrong. The sentence says where.",
    Exit.OUT_OF_REACH: "Not done: the daemon cannot be found or reached, is not trusted, or cannot answer now (503). "
    "Trying again may help.",
    Exit.REFUSED: "Not done: the daemon answered no. The token is wrong, the role does not suffice, there is no such "
    "thing, or the decision cannot be taken as it stands. Trying again does not help.",
}

_ALWAYS = {Exit.DONE: "done", Exit.USAGE: "the command line is wrong"}
ASKING: Mapping[Exit, str] = {
    **_ALWAYS,
    Exit.OUT_OF_REACH: "the daemon cannot be asked",
    Exit.REFUSED: "the daemon says no",
}
"""What every verb that asks the daemon ends with."""

_CHECK = {Exit.NOT_WELL: "with --check: a finding is open, or something is not seen"}

EXITS: Mapping[str, Mapping[Exit, str]] = {
    "agent": {**_ALWAYS, Exit.USAGE: "the command line or the settings are wrong, or what it needs is not there"},
    "daemon": {**_ALWAYS, Exit.USAGE: "the command line or the settings are wrong, or what it needs is not there"},
    "demo": {**_ALWAYS, Exit.USAGE: "the command line is wrong, or what it needs is not there"},
    "token": {**ASKING, Exit.USAGE: "the command line is wrong, or the tokens file cannot be used"},
    "enroll": {**ASKING, Exit.USAGE: "the command line is wrong, or a file or the daemon's database cannot be used"},
    "join": {
        Exit.DONE: "the node is enrolled",
        Exit.USAGE: "the command line or the settings are wrong, or there is no token",
        Exit.OUT_OF_REACH: "the daemon cannot be asked; run it again with the same token",
        Exit.REFUSED: "the daemon says no: the token was used, ran out, or is another node's",
    },
    "ca": {**_ALWAYS, Exit.USAGE: "the command line or the settings are wrong, or the CA cannot be read or written"},
    "inspect": {
        Exit.DONE: "read",
        Exit.NOT_WELL: "read, and something must go out of service (cordon_reset, cordon_reboot, hardware_rma)",
        Exit.USAGE: "the command line is wrong, or a file is not readable",
    },
    "status": {**ASKING, **_CHECK},
    "findings": {**ASKING, Exit.NOT_WELL: "with --check: the list is not empty"},
    "plan": {**ASKING, Exit.NOT_WELL: "with --check: there is something to do"},
    "incidents": {**ASKING, Exit.NOT_WELL: "with --check: an incident is open"},
    "drill": {**ASKING, Exit.NOT_WELL: "a message of it did not arrive"},
    "release": {**ASKING, Exit.NOT_WELL: "with --wait: something is left"},
    "doctor": {
        Exit.DONE: "all is well",
        Exit.NOT_WELL: "something is not, each with its fix; a daemon that cannot be asked is one of these",
        Exit.USAGE: "the command line is wrong",
    },
    "settings": {
        Exit.DONE: "shown; it will do",
        Exit.NOT_WELL: "settings check: it will not do, each mistake with its fix",
        Exit.USAGE: "the command line is wrong; settings show: the settings are",
    },
    "completion": _ALWAYS,
    "db": {
        Exit.DONE: "done",
        Exit.NOT_WELL: "check: something is damaged; kept: something is; schema: a newer trimtab wrote it",
        Exit.USAGE: "the command line is wrong, or the database or a file cannot be used",
    },
    "setup": {**_ALWAYS, Exit.USAGE: "the command line is wrong, or something could not be put in place"},
}
"""Verbs that end in other ways than `ASKING` says."""


def exits_of(verb: str) -> Mapping[Exit, str]:
    """How a verb can end, by code."""
    found = EXITS.get(verb, ASKING)
    return {code: found[code] for code in Exit if code in found}


def help_text(verb: str) -> str:
    """The same as the last lines of the verb's --help."""
    said = "; ".join(f"{int(code)} {sentence}" for code, sentence in exits_of(verb).items())
    return f"Exit codes: {said}."


def reference(verbs: Mapping[str, object]) -> str:
    """The reference page, in Markdown."""
    lines = [
        "# Exit codes",
        "",
        "Made from the code (`make docs`) and tested for every verb. The numbers keep their meaning.",
        "",
        "| Code | Meaning |",
        "|---|---|",
        *(f"| {int(code)} | {MEANINGS[code]} |" for code in Exit),
        "",
        "A live view (`trimtab top`, `--watch`) that `q` or Ctrl-C ends is 0. Any other verb that Ctrl-C",
        "cuts off, or whose question is answered with no, ends with 130; one whose reader hangs up, with 141.",
        "",
        "| Verb | " + " | ".join(str(int(code)) for code in Exit) + " |",
        "|---|" + "---|" * len(Exit),
    ]
    for verb in verbs:
        ends = exits_of(verb)
        lines.append(f"| `{verb}` | " + " | ".join(ends.get(code, "–") for code in Exit) + " |")
    return "\n".join(lines) + "\n"
