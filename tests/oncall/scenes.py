"""Messages to send, and files to keep secrets in, for the tests of senders."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.cluster.certificates import sign
from tests.fakes.clock import START

from trimtab.clock import Clock, SystemClock
from trimtab.model.advice import Severity, Subject
from trimtab.model.oncall import Message, Thread, Verb, incident_key
from trimtab.settings.oncall_targets import TargetSection
from trimtab.show.oncall.sender import Sender
from trimtab.show.oncall.senders import build
from trimtab.show.refusals import Refusals

FIRST_LINE = "hall-a: llama-70b stopped, gpu-07 lost GPU 3 (XID 79)"
CHINESE_FIRST_LINE = "一号厅：llama-70b 已停止，gpu-07 的 3 号 GPU 掉卡（XID 79），32 张卡受影响"
CHINESE_LINE = "受影响的作业已停止，等待处理。"
KEY = incident_key("hall-a", "i17")


def a_door(clock: Clock, told: list[tuple[str, str, str]]) -> Any:
    """A door whose callers come from 192.0.2.7; what it refuses stands in `told`: who, what, why."""
    refusals = Refusals(clock=clock, write=lambda *line: told.append(line))
    return SimpleNamespace(peer=lambda knock: "192.0.2.7", refusals=refusals)


def a_message(verb: Verb = Verb.OPEN, **changes: Any) -> Message:
    """A message about one incident; `id` differs by verb and sequence, as the outbox makes it."""
    sequence = changes.pop("sequence", list(Verb).index(verb) + 1)
    made = Message(
        id=f"msg_i17_{sequence}",
        key=KEY,
        verb=verb,
        sequence=sequence,
        at=START + timedelta(minutes=sequence),
        opened_at=START,
        cluster="hall-a",
        rule="device_fault",
        severity=Severity.CRITICAL,
        subject=Subject(cluster="hall-a", node="gpu-07", gpu="GPU-5f0c", workload="research/llama-70b"),
        first_line=FIRST_LINE,
        title=FIRST_LINE,
        lines=("Hits llama-70b: 32 GPUs stand still.", "Since 09:00 UTC.", "Proposed: R11, cordon gpu-07."),
        link="https://trimtab.example/f/31",
        runbook="https://trimtab.example/runbooks/device_fault",
        queue="research",
        owner="lin",
        facts={"finding": "F31", "action": "hardware_rma", "gpus_hit": "32"},
    )
    return replace(made, **changes)


def a_story() -> list[Message]:
    """Open, worse, acknowledged, resolved."""
    return [
        a_message(Verb.OPEN),
        a_message(Verb.UPDATE, first_line="hall-a: llama-70b and vision-3 stopped, gpu-07 lost 2 GPUs", is_loud=True),
        a_message(Verb.ACKNOWLEDGE, first_line="hall-a: wang has it", who="wang", lines=()),
        a_message(Verb.RESOLVE, first_line="hall-a: llama-70b runs again after 41 min", who="wang"),
    ]


def a_long_chinese_message(**changes: Any) -> Message:
    """Far past every limit, three bytes a character."""
    lines = tuple(f"{number} {CHINESE_LINE * 40}" for number in range(400))
    return a_message(
        **{"locale": "zh-CN", "first_line": CHINESE_FIRST_LINE, "title": CHINESE_FIRST_LINE, "lines": lines, **changes}
    )


def told(sender: Sender, messages: list[Message]) -> Thread | None:
    """Send in order, as the outbox does: with the thread of the one before, and only what the target takes."""
    thread: Thread | None = None
    for message in messages:
        if message.verb in sender.target.verbs:
            thread = sender.send(message, thread).thread or thread
    return thread


def secret_file(folder: Path, name: str, *lines: str) -> str:
    """A file with a secret in it; its name, relative to the folder that senders are built with."""
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return name


def a_sender(settings: TargetSection, folder: Path, *, clock: Clock | None = None) -> Sender:
    """The sender that the catalogue builds for these settings; called `night`."""
    return build("night", settings, clock=clock or SystemClock(), directory=folder)


def own_ca(folder: Path) -> Path:
    """A folder with ca.crt of a CA that nobody knows, and a certificate of 127.0.0.1 by it."""
    ca = sign("own-ca", days=30)
    ca.write(folder, "ca")
    sign("localhost", issuer=ca, names=("localhost",), days=30).write(folder, "tls")
    return folder
