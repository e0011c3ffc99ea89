"""Puts on-call together for the daemon: targets, routes, the bell, one delivery beat a target, the heartbeat."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from trimtab.chores import Chore
from trimtab.clock import Clock, SystemClock, count_text, unix_seconds
from trimtab.errors import SettingsError
from trimtab.loop import Beat
from trimtab.model.oncall import Target
from trimtab.reloading import Swappable
from trimtab.settings import DaemonSettings, OnCallSettings
from trimtab.settings.oncall_targets import (
    PER_MINUTE,
    PagerDutySettings,
    SlackSettings,
    TargetSection,
    WebhookSettings,
)
from trimtab.show.oncall.bell import Bell
from trimtab.show.oncall.delivery import Deliverer, DeliveryCounts, real_seconds
from trimtab.show.oncall.desk import Desk, DrillMaker
from trimtab.show.oncall.heartbeat import Heartbeat
from trimtab.show.oncall.letters import Letters
from trimtab.show.oncall.pager import Arbiter
from trimtab.show.oncall.quiet import NeverQuiet, Quiet
from trimtab.show.oncall.routes import Router
from trimtab.show.oncall.secret import Secret
from trimtab.show.oncall.sender import Sender
from trimtab.show.oncall.senders import build_all
from trimtab.show.oncall.wording import Frame
from trimtab.store.history import History

PRUNE_MINUTES = 60
Gate = Callable[[Callable[[], str]], Callable[[], str]]
DRILLS_MINUTES = 1


@dataclass(slots=True, kw_only=True)
class OnDuty:
    """On-call of one daemon."""

    bell: Bell
    arbiter: Arbiter
    senders: dict[str, Sender]
    beats: tuple[Beat, ...]
    chores: tuple[Chore, ...]
    targets: Swappable[Target]
    """Each configured target, by name; a reload swaps these three."""
    nexts: Swappable[str]
    deliverers: dict[str, Deliverer]
    make_beat: Callable[[str, Sender, OnCallSettings], Beat]
    make_letters: Callable[[OnCallSettings], Letters]
    directory: Path
    callback_secrets: Swappable[tuple[Secret, ...]]
    counts: DeliveryCounts = field(default_factory=DeliveryCounts)

    def desk(self, history: History, drill: DrillMaker) -> Desk:
        """What the API works on."""
        wall = SystemClock()
        return Desk(
            bell=self.bell,
            arbiter=self.arbiter,
            memory=history,
            targets=self.targets,
            nexts=self.nexts,
            counts=self.counts,
            drill=drill,
            unix_seconds_now=lambda: unix_seconds(wall.now()),
            callback_secrets=self.callback_secrets,
        )


def on_duty(
    settings: DaemonSettings,
    *,
    history: History,
    clock: Clock,
    page_url: Callable[[], str],
    why_not_well: Callable[[], str],
    quiet: Quiet | None = None,
    gate: Gate = lambda tick: tick,
) -> OnDuty:
    """Everything that on-call needs, not started. Raises SettingsError for a target or route that cannot be.

    `gate` is put before each delivery: nothing is sent while another daemon may still send the same.

    What an earlier process of this daemon had in hand when it died is let go of, and marked as a repeat.
    """
    oncall, directory = settings.oncall, Path(settings.state_directory)
    senders = build_all(oncall.targets, clock=SystemClock(), directory=directory)
    known = Swappable({name: sender.target for name, sender in senders.items()})
    arbiter = Arbiter(setting=oncall.pager, switch=history)

    def frame() -> Frame:
        return Frame(page_url=page_url().rstrip("/"), runbook_url=oncall.runbook_url)

    bell = Bell(
        cluster=settings.cluster,
        settings=oncall,
        memory=history,
        router=Router(oncall, known),
        letters=Letters(frame, known, quiet_update_seconds=real_seconds(clock, oncall.quiet_update_seconds)),
        arbiter=arbiter,
        quiet=quiet or NeverQuiet(),
    )
    counts = DeliveryCounts()
    place = _place(directory)
    history.free_leases(f"{place}/")
    history.bury_unknown(known, at=clock.now())
    deliverers: dict[str, Deliverer] = {}

    def delivery(name: str, sender: Sender, section: OnCallSettings) -> Beat:
        deliverers[name] = Deliverer(
            sender,
            outbox=history,
            settings=section,
            clock=clock,
            owner=f"{place}/{os.getpid()}",
            counts=counts,
            next_target=section.targets[name].next,
            per_minute_max=_per_minute(section.targets[name]),
        )
        seconds = real_seconds(clock, section.deliver_seconds)
        return Beat(f"deliver {name}", gate(deliverers[name].tick), interval_seconds=seconds, clock=clock)

    def letters_of(section: OnCallSettings) -> Letters:
        return Letters(frame, known, quiet_update_seconds=real_seconds(clock, section.quiet_update_seconds))

    beats = [delivery(name, sender, oncall) for name, sender in senders.items()]
    url = _heartbeat_url(settings)
    if url is not None:
        heartbeat = Heartbeat(url, why_not_well=why_not_well)
        seconds = real_seconds(clock, oncall.heartbeat_seconds)
        beats.append(Beat("heartbeat", heartbeat.tick, interval_seconds=seconds, clock=clock))

    def prune() -> str:
        gone = history.prune_outbox(clock.now() - timedelta(days=oncall.outbox_days))
        return f"{count_text(gone, 'message')} older than {oncall.outbox_days:g} days left the outbox"

    return OnDuty(
        bell=bell,
        arbiter=arbiter,
        senders=senders,
        targets=known,
        nexts=Swappable({name: target.next for name, target in oncall.targets.items()}),
        deliverers=deliverers,
        make_beat=delivery,
        make_letters=letters_of,
        directory=directory,
        beats=tuple(beats),
        chores=(
            # A letter for a target that the settings no longer have would wait for ever, and page as stuck.
            Chore(
                name="unknown_targets",
                minutes=1,
                run=lambda: f"{history.bury_unknown(known, at=clock.now())} letters for targets that are gone",
            ),
            Chore(name="outbox", minutes=PRUNE_MINUTES, run=prune),  # letters are kept for weeks, not for ever
            Chore(
                name="drills",
                minutes=DRILLS_MINUTES,
                run=lambda: f"forgot {count_text(bell.forget_drills(clock.now()), 'drill')}",
            ),
        ),
        counts=counts,
        callback_secrets=Swappable(callback_secrets_of(settings)),
    )


def callback_secrets_of(settings: DaemonSettings) -> dict[str, tuple[Secret, ...]]:
    """What call-backs are signed with, by kind of target; of several targets of a kind, any of theirs."""
    found: dict[str, list[Secret]] = {}
    for name, target in settings.oncall.targets.items():
        kind, path = "", ""
        if isinstance(target, PagerDutySettings):
            kind, path = "pagerduty", target.webhook_secrets_file
        elif isinstance(target, SlackSettings):
            kind, path = "slack", target.signing_secret_file
        elif isinstance(target, WebhookSettings):
            kind, path = "webhook", target.keys_file
        if path:
            secret = Secret(Path(settings.state_directory) / path, of=f"oncall.targets.{name}")
            found.setdefault(kind, []).append(secret)
    return {kind: tuple(secrets) for kind, secrets in found.items()}


def _place(directory: Path) -> str:
    """Who holds a lease: this host and state directory, whose lock makes us the only process of it."""
    where = hashlib.blake2s(str(directory.resolve()).encode(), digest_size=4).hexdigest()
    return f"{socket.gethostname()}:{where}"


def _per_minute(target: TargetSection) -> float:
    return target.per_minute_max or PER_MINUTE.get(type(target), 60.0)


def _heartbeat_url(settings: DaemonSettings) -> Callable[[], str] | None:
    oncall = settings.oncall
    if oncall.heartbeat_url and oncall.heartbeat_url_file:
        raise SettingsError("oncall: heartbeat_url and heartbeat_url_file are both set. Keep one.")
    if oncall.heartbeat_url_file:
        secret = Secret(Path(settings.state_directory) / oncall.heartbeat_url_file, of="oncall.heartbeat_url_file")
        return lambda: secret.value
    return (lambda: oncall.heartbeat_url) if oncall.heartbeat_url else None
