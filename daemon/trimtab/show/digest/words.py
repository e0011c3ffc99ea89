"""A digest in words: sections with sentences and tables, in one language; HTML and Markdown are made from these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from trimtab.model.digest import Digest, Dossier, GpuHours, LeftOut, RuleGain
from trimtab.model.past import GpuTimeState
from trimtab.show.catalogue import Catalogue

CAUSES_MAX = 12
QUEUES_MAX = 30
NOTHING = "–"

STATES = (
    GpuTimeState.WORKING,
    GpuTimeState.HELD_IDLE,
    GpuTimeState.STRANDED,
    GpuTimeState.FREE,
    GpuTimeState.SPARE,
    GpuTimeState.OUT_OF_SERVICE,
    GpuTimeState.UNKNOWN,
)
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table: its header, its rows of equal length, and which columns are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part. `chart` names the picture that belongs to it, if one does; `plain` is text to be kept as it is."""

    title: str
    lines: tuple[str, ...] = ()
    grid: Grid | None = None
    chart: str = ""
    plain: tuple[str, ...] = ()


class Telling:
    """Tells digests in one language, moments in one zone."""

    def __init__(self, catalogue: Catalogue, zone: tzinfo) -> None:
        """Speak as the catalogue does."""
        self.catalogue = catalogue
        self._zone = zone

    def say(self, key: str, **args: str | int | float) -> str:
        """One of the digest's texts."""
        return self.catalogue.say(f"digest-{key}", **args)

    def title(self, digest: Digest) -> str:
        """What it is and of when."""
        return self.say(
            "title", cluster=digest.cluster, since=self.moment(digest.since), until=self.moment(digest.until)
        )

    def lead(self, digest: Digest) -> str:
        """The sentence that stands alone: what the fleet did, and what it lost."""
        hours = digest.hours
        if hours.total <= 0:
            return self.say("nothing")
        lost = hours.lost + hours.of(GpuTimeState.OUT_OF_SERVICE)
        return self.say(
            "lead",
            total=_hours(hours.total),
            good=_hours(hours.good),
            idle=_hours(hours.of(GpuTimeState.HELD_IDLE)),
            stranded=_hours(hours.of(GpuTimeState.STRANDED)),
            lost=_hours(lost),
        )

    def sections(self, digest: Digest) -> tuple[Section, ...]:
        """All parts, the most important first."""
        return (
            self._hours(digest),
            self._causes(digest),
            self._gains(digest),
            self._prospects(digest),
            self._queues(digest),
            self._incidents(digest),
            *self._offenders(digest),
            self._basis(digest),
        )

    def moment(self, at: datetime) -> str:
        """A moment in the digest's zone."""
        return f"{at.astimezone(self._zone):%Y-%m-%d %H:%M}"

    def state(self, state: GpuTimeState) -> str:
        """What a GPU did, in words."""
        return self.say(f"state-{state.value}")

    def cause(self, rule: str) -> str:
        """A kind of finding in words; one that has none is named as it is."""
        return self.catalogue.say(f"rule-{rule}") if self.catalogue.knows(f"rule-{rule}") else rule

    # --- the parts

    def _hours(self, digest: Digest) -> Section:
        hours = digest.hours
        rows = [(self.state(state), _hours(hours.of(state)), _share(hours.of(state), hours.total)) for state in STATES]
        rows.append((self.say("total"), _hours(hours.total), ""))
        return Section(
            title=self.say("hours"),
            lines=(self._goodput(hours),),
            grid=self._grid("state", "gpu-hours", "share", rows=rows),
            chart="days",
        )

    def _goodput(self, hours: GpuHours) -> str:
        if hours.goodput_ratio is None:
            return self.say("goodput-none")
        return self.say(
            "goodput",
            ratio=f"{hours.goodput_ratio:.1%}".replace("%", " %"),
            good=_hours(hours.good),
            held=_hours(hours.held),
        )

    def _causes(self, digest: Digest) -> Section:
        rows = [
            (
                self.cause(one.cause),
                _hours(one.out_of_service),
                _hours(one.held_idle),
                _hours(one.lost),
                _hours(one.total),
            )
            for one in digest.causes[:CAUSES_MAX]
        ]
        if not rows:
            return Section(title=self.say("causes"), lines=(self.say("causes-none"),))
        grid = self._grid("cause", "out", "idle", "lost", "sum", rows=rows)
        return Section(title=self.say("causes"), lines=(self.say("causes-about"),), grid=grid, chart="causes")

    def _gains(self, digest: Digest) -> Section:
        if not digest.gains:
            return Section(title=self.say("gains"), lines=(self.say("gains-none"),))
        gained, cost = sum(one.gained for one in digest.gains), sum(one.cost for one in digest.gains)
        rows = [self._gain_row(one) for one in digest.gains]
        header = ("rule", "settled", "good", "not-done", "gained", "forecast", "cost", "forecast", "unlocked")
        return Section(
            title=self.say("gains"),
            lines=(self.say("gains-about", gained=_hours(gained), cost=_hours(cost)),),
            grid=self._grid(*header, rows=rows),
            chart="gains",
        )

    def _gain_row(self, one: RuleGain) -> tuple[str, ...]:
        named = {"missed": one.missed, "undone": one.undone, "refused": one.refused, "expired": one.expired}
        not_done = ", ".join(self.say(f"not-{name}", count=count) for name, count in named.items() if count)
        return (
            one.rule,
            str(one.settled),
            str(one.good),
            not_done or NOTHING,
            _hours(one.gained),
            _known(one.gained_forecast),
            _hours(one.cost),
            _known(one.cost_forecast),
            str(one.gpus_unlocked),
        )

    def _prospects(self, digest: Digest) -> Section:
        if not digest.prospects:
            return Section(title=self.say("prospects"), lines=(self.say("prospects-none"),))
        rows = [
            (
                one.name or NOTHING,
                self.say(f"prospect-{one.kind.value}", subject=one.subject or NOTHING),
                _hours(one.gpu_hours),
            )
            for one in digest.prospects
        ]
        grid = self._grid("name", "what", "gpu-hours-week", rows=rows)
        return Section(title=self.say("prospects"), lines=(self.say("prospects-about"),), grid=grid)

    def _queues(self, digest: Digest) -> Section:
        rows = [
            (
                one.queue or self.say("no-queue"),
                _hours(one.hours.held),
                _hours(one.hours.good),
                _hours(one.hours.of(GpuTimeState.HELD_IDLE)),
                _hours(one.hours.lost),
                _hours(one.hours.of(GpuTimeState.OUT_OF_SERVICE)),
            )
            for one in digest.queues[:QUEUES_MAX]
        ]
        if not rows:
            return Section(title=self.say("queues"), lines=(self.say("queues-none"),))
        grid = self._grid("queue", "held", "useful", "idle", "lost", "out", rows=rows)
        more = len(digest.queues) - len(rows)
        return Section(
            title=self.say("queues"), lines=(self.say("queues-more", count=more),) if more > 0 else (), grid=grid
        )

    def _incidents(self, digest: Digest) -> Section:
        found = digest.incidents
        if not (found.opened or found.still_open or found.closed):
            return Section(title=self.say("incidents"), lines=(self.say("incidents-none"),))
        lines = [self.say("incidents-about", opened=found.opened, closed=found.closed, still=found.still_open)]
        spans = {
            "to-page": found.to_page_seconds,
            "to-acknowledge": found.to_acknowledge_seconds,
            "to-mend": found.to_mend_seconds,
        }
        lines += [self.say(key, span=span_text(seconds)) for key, seconds in spans.items() if seconds is not None]
        if found.longest:
            lines.append(self.say("longest", line=found.longest, span=span_text(found.longest_seconds)))
        rows = [(self.cause(rule), str(count)) for rule, count in found.by_rule.items()]
        grid = self._grid("cause", "incidents-opened", rows=rows) if rows else None
        return Section(title=self.say("incidents"), lines=tuple(lines), grid=grid)

    def _offenders(self, digest: Digest) -> Iterator[Section]:
        if not digest.offenders:
            yield Section(title=self.say("offenders"), lines=(self.say("offenders-none"),))
            return
        rows = [
            (one.node, one.gpu or NOTHING, str(one.incidents), self.catalogue.say(f"action-{one.worst_action.value}"))
            for one in digest.offenders
        ]
        grid = self._grid("node", "gpu", "incidents-opened", "to-do", rows=rows)
        yield Section(title=self.say("offenders"), lines=(self.say("offenders-about"),), grid=grid)
        for one in digest.offenders:
            title = self.say("dossier", node=one.node, gpu=one.gpu or self.say("whole-node"))
            yield Section(title=title, plain=tuple(dossier_lines(one)))

    def _basis(self, digest: Digest) -> Section:
        lines = [
            self.say(
                "covered",
                since=self.moment(digest.covered_since),
                until=self.moment(digest.covered_until),
                edge=span_text(digest.edge_seconds),
            ),
            self.say("energy", energy=_hours(digest.energy_kwh)),
            *(self._left_out(one) for one in digest.left_out),
            self.say("made", at=self.moment(digest.made_at)),
        ]
        return Section(title=self.say("basis"), lines=tuple(lines))

    def _left_out(self, one: LeftOut) -> str:
        at = self.moment(one.at) if one.at is not None else ""
        return self.say(f"left-out-{one.kind.value.replace('_', '-')}", count=one.count, at=at)

    def _grid(self, *header: str, rows: Sequence[tuple[str, ...]]) -> Grid:
        texts = {"rule", "state", "cause", "queue", "name", "what", "node", "gpu", "to-do", "not-done"}
        return Grid(
            header=tuple(self.say(f"column-{one}") for one in header),
            rows=tuple(rows),
            numbers=frozenset(index for index, one in enumerate(header) if one not in texts),
        )


def dossier_lines(dossier: Dossier) -> Iterator[str]:
    """What a vendor asks for, as plain text in English whatever the digest's language: it goes to their support."""
    named = {
        "Node": dossier.node,
        "GPU UUID": dossier.gpu,
        "Model": dossier.model,
        "Serial": dossier.serial,
        "PCI": dossier.pci,
        "Driver": dossier.driver,
        "VBIOS": dossier.vbios,
    }
    for name, value in named.items():
        yield f"{name + ':':<10}{value or ('unknown' if name != 'GPU UUID' else 'the node as a whole')}"
    yield f"Incidents: {dossier.incidents} within the time of this digest. Indicated: {dossier.worst_action.value}."
    yield "Health as last read:" if dossier.health else "Health: no reading at hand."
    yield from (f"  {key} = {value:g}" for key, value in dossier.health.items())
    yield "Log (UTC):" if dossier.events else "Log: no line of the device is kept."
    if dossier.events_left_out:
        yield f"  ({dossier.events_left_out} earlier lines are left out)"
    for event in dossier.events:
        code = f" {event.code}" if event.code is not None else ""
        times = f" ({event.count} times)" if event.count > 1 else ""
        yield f"  {event.at:%Y-%m-%d %H:%M:%S}Z {event.kind}{code}{times}: {event.text or 'no text'}"
    yield "Tried:" if dossier.tried else "Tried: nothing that trimtab did."
    yield from (f"  {line}" for line in dossier.tried)


def span_text(seconds: float) -> str:
    """`41 s`, `12 min`, `3.5 h`, `2.1 d`."""
    for unit, size, up_to in (("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172800.0)):
        if seconds < up_to:
            return f"{seconds / size:.1f} {unit}".replace(".0 ", " ")
    return f"{seconds / 86400:.1f} d".replace(".0 ", " ")


def _hours(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _known(value: float | None) -> str:
    return NOTHING if value is None else _hours(value)


def _share(value: float, base: float) -> str:
    return f"{100 * value / base:.1f} %" if base > 0 else NOTHING
