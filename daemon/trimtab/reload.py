"""What of a running daemon a reload of its settings changes, part by part, and how; all else waits for a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trimtab import logs
from trimtab.central import Central, Parts
from trimtab.clock import SystemClock
from trimtab.detect.detector import catalogue
from trimtab.errors import SettingsError
from trimtab.issue.issuer import Issuer
from trimtab.issue.verdicts import Verdicts
from trimtab.link import Link
from trimtab.loop import Beat
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import AuditLine, Move, Refusal
from trimtab.onduty import OnDuty, callback_secrets_of
from trimtab.plan.planner import Planner
from trimtab.premises import check_settings
from trimtab.reloading import Part, Reloaded, Reloader, Take
from trimtab.settings import DaemonSettings, read_token
from trimtab.show.auth import Door
from trimtab.show.oncall.delivery import real_seconds
from trimtab.show.oncall.routes import Router
from trimtab.show.oncall.senders import build_all
from trimtab.show.peers import Peers

WHO = "settings"
_STOP_SECONDS = 5.0
"""So long a delivery that is under way is waited for when its target changes; its lease keeps it single."""


class Host(Protocol):
    """The running daemon, as far as a reload reaches into it."""

    settings: DaemonSettings
    central: Central
    people_app: Any
    """The people listener's application; its `state` has what changes."""
    ingest_app: Any
    """The agents' listener's."""

    def use_beats(self, beats: tuple[Beat, ...]) -> None:
        """The beats that run from now on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The parts of a running daemon that take other settings."""

    host: Host
    parts: Parts
    duty: OnDuty
    door: Door
    make_issuer: Callable[[DaemonSettings], Issuer]

    @property
    def beats(self) -> tuple[Beat, ...]:
        """Those that run now."""
        return self.host.central.beats


def reload_of(
    host: Host,
    duty: OnDuty,
    door: Door,
    *,
    parts: Parts,
    issuer: Callable[[DaemonSettings], Issuer],
    read: Callable[[], DaemonSettings] | None,
) -> Reloader[DaemonSettings]:
    """The daemon's reload. Each that changes something or fails is in the audit."""
    running = Running(host=host, parts=parts, duty=duty, door=door, make_issuer=issuer)

    def read_checked() -> DaemonSettings:
        new = read() if read is not None else host.settings
        check_settings(new)
        return new

    def use(new: DaemonSettings) -> None:
        parts.settings = host.settings = new

    def told(reloaded: Reloaded) -> None:
        if reloaded.changes or reloaded.error:
            what = "settings not reloaded" if reloaded.error else "settings reloaded"
            why = reloaded.error or reloaded.sentence
            parts.history.audit([AuditLine(at=reloaded.at, who=WHO, what=what, why=why)])

    return Reloader(host.settings, read=read_checked, parts=_parts(running), clock=parts.clock, use=use, told=told)


def planner_of(settings: DaemonSettings, link: Link) -> Planner:
    """The planner, whose last word each workload's own scheduler has."""

    def adapter_rule(move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
        scheduler = link.schedulers.get(move.controller or "")
        return scheduler.refusal(move, snapshot) if scheduler is not None else None

    return Planner(settings.plan, adapter_rule=adapter_rule)


def _parts(running: Running) -> tuple[Part[DaemonSettings], ...]:
    """Every part with its keys, a reason beside each why it can change while the daemon runs."""
    return (
        Part(keys=("log",), prepare=_log),  # asked at each line
        Part(keys=_detect_keys(), prepare=lambda new: _detect(running, new)),  # detectors are pure
        Part(keys=("plan",), prepare=lambda new: _plan(running, new)),  # the planner is pure
        Part(keys=("issue",), prepare=lambda new: _issue(running, new)),  # the ledger has all that has begun
        Part(keys=_oncall_keys(), prepare=lambda new: _oncall(running, new)),  # the outbox has all that is under way
        Part(keys=("store.commit_interval_seconds",), prepare=lambda new: _pace(running, _commit(new))),
        Part(keys=("store.journal_days",), prepare=lambda _new: _nothing),  # asked at each pruning
        Part(keys=("ingest.body_bytes_max", "ingest.decoded_bytes_max"), prepare=lambda new: _ingest(running, new)),
        Part(keys=("metrics.allow_from",), prepare=lambda new: _allow(running, new)),
        Part(keys=("people.metrics_token_file",), prepare=lambda new: _metrics_token(running, new), is_always_due=True),
    )


def _detect_keys() -> tuple[str, ...]:
    """All thresholds; how far back is looked sizes the ring, which is made at the start."""
    fields = DaemonSettings().detect.__struct_fields__
    return tuple(f"detect.{name}" for name in fields if name != "span_seconds")


def _oncall_keys() -> tuple[str, ...]:
    """All but the heartbeat's address, which has a beat of its own from the start, what a person may switch, and what
    others than on-call read at their start.
    """
    fields = DaemonSettings().oncall.__struct_fields__
    others = ("pager", "runbook_url", "outbox_days")
    return tuple(f"oncall.{name}" for name in fields if not name.startswith("heartbeat") and name not in others)


def _nothing() -> None:
    """Whoever needs it asks the settings in force."""


def _pace(running: Running, seconds: Mapping[str, float]) -> Take:
    def take() -> None:
        for beat in running.beats:
            beat.pace(seconds.get(beat.name, beat.interval_seconds))

    return take


def _commit(new: DaemonSettings) -> Mapping[str, float]:
    return {"remember": new.store.commit_interval_seconds}


def _log(new: DaemonSettings) -> Take:
    return lambda: logs.setup(level=new.log.level, form=new.log.form, identifier="trimtab-daemon")


def _detect(running: Running, new: DaemonSettings) -> Take:
    detectors = catalogue(new.detect, spares_kept=new.plan.spares_kept)
    deepest = max(detectors, key=lambda one: one.span_seconds)
    held = running.parts.ring.span_seconds
    if deepest.span_seconds > held:
        raise SettingsError(
            f"detect: {deepest.name} would look {deepest.span_seconds:g} s back, and this daemon keeps {held:g} s at "
            "hand since its start. Restart it for that, or choose a shorter time."
        )
    pace = _pace(running, {"judge": new.detect.interval_seconds})

    def take() -> None:
        running.parts.detectors = detectors
        pace()

    return take


def _plan(running: Running, new: DaemonSettings) -> Take:
    planner = planner_of(new, running.parts.link)
    detect = _detect(running, new)  # fragmentation counts the spares that the plan keeps
    pace = _pace(running, {"rebalance": new.plan.interval_seconds})

    def take() -> None:
        detect()
        running.parts.planner = planner
        pace()

    return take


def _issue(running: Running, new: DaemonSettings) -> Take:
    issuer, people = running.make_issuer(new), running.host.people_app.state.people
    verdicts: Verdicts = people.decisions

    def take() -> None:
        # A new issuer takes up what has begun as after a restart: from the ledger alone.
        running.parts.issuer = issuer
        people.rule_modes, people.notice_seconds = new.issue.rules, new.issue.notice_seconds
        verdicts.settings = new

    return take


def _ingest(running: Running, new: DaemonSettings) -> Take:
    def take() -> None:
        running.host.ingest_app.state.desk.settings = new.ingest

    return take


def _allow(running: Running, new: DaemonSettings) -> Take:
    Peers(new.metrics.allow_from, key="metrics.allow_from")
    peers: Peers = running.host.people_app.state.peers
    return lambda: peers.allow(new.metrics.allow_from)


def _metrics_token(running: Running, new: DaemonSettings) -> Take:
    token = read_token(new.people.metrics_token_file, environment_name="TRIMTAB_METRICS_TOKEN")
    return lambda: running.door.use_metrics_token(token)


def _oncall(running: Running, new: DaemonSettings) -> Take:
    duty, section = running.duty, new.oncall
    was = running.parts.settings.oncall
    changed = {name for name, target in section.targets.items() if was.targets.get(name) != target}
    gone = set(was.targets) - set(section.targets)
    made = build_all(section.targets, clock=SystemClock(), directory=duty.directory)
    senders = {name: made[name] if name in changed else duty.senders[name] for name in section.targets}
    targets = {name: sender.target for name, sender in senders.items()}
    router = Router(section, targets)
    secrets = callback_secrets_of(new)
    seconds = real_seconds(running.parts.clock, section.deliver_seconds)
    pace = _pace(running, {f"deliver {name}": seconds for name in senders})

    def take() -> None:
        duty.targets.swap(targets)
        duty.nexts.swap({name: target.next for name, target in section.targets.items()})
        duty.callback_secrets.swap(secrets)
        duty.senders = senders
        duty.bell.use(section, router=router, letters=duty.make_letters(section))
        for deliverer in duty.deliverers.values():
            deliverer.use(section)
        pace()
        _swap_beats(running, gone | changed, [duty.make_beat(name, senders[name], section) for name in sorted(changed)])

    return take


def _swap_beats(running: Running, ended: Iterable[str], new: list[Beat]) -> None:
    names = {f"deliver {name}" for name in ended}
    old = [beat for beat in running.beats if beat.name in names]
    for beat in old:
        beat.end_soon()
    for beat in old:
        beat.stop(timeout_seconds=_STOP_SECONDS)
    for name in ended:
        if f"deliver {name}" not in {beat.name for beat in new}:
            running.duty.deliverers.pop(name, None)
    for beat in new:
        beat.start()
    running.host.use_beats((*(beat for beat in running.beats if beat not in old), *new))
