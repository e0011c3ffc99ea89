"""Room for those who wait: empty nodes at least lost work, with a seat for everybody who has to leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from trimtab.model.advice import Subject
from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.command import Cost, Move, MoveKind, Recommendation, RecommendationKind, Seat
from trimtab.plan.cost import Disturbed, best_moment, cost_of
from trimtab.plan.displace import displacement_text
from trimtab.plan.draft import Draft, leaving, move_of, seats_of, writes_of
from trimtab.plan.emptying import Emptying, emptyings
from trimtab.plan.gain import gain_of_starting
from trimtab.plan.phrase import count_text, gpu_hours_text, list_text
from trimtab.plan.room import Room, Search, find_seats, find_seats_together, search_for
from trimtab.plan.seating import standing_nodes

RULE = "consolidate"
MOVES_HELP = ("placement", "capacity")
"""Why work waits, where a move can help; `capacity` is `placement` as soon as somebody leaves."""


def propose(draft: Draft) -> None:
    """One recommendation for each workload that placement alone keeps waiting: highest priority, then longest wait."""
    for waiting in sorted(draft.snapshot.waiting, key=lambda one: -one.priority):
        if not draft.is_in_hand(waiting):
            _propose_for(draft, waiting)


def _propose_for(draft: Draft, waiting: Workload) -> None:
    purpose = f"make-room:{waiting.id}"
    reason = why_not_placement(waiting, draft.snapshot)
    if reason is not None:
        draft.refuse_because(*reason, purpose=purpose, workload=waiting.id)
        return
    if draft.settings.is_finding_needed_to_make_room and not _findings(draft, waiting):
        sentence = f"Not moved yet: {waiting.name} has not waited long enough for others to be moved for it."
        draft.refuse_because("no_finding", sentence, purpose=purpose, workload=waiting.id)
        return
    found = _make_room(draft, waiting, purpose)
    if isinstance(found, str):
        draft.refuse_because("no_room", found, purpose=purpose, workload=waiting.id)
    elif found.victims:
        _recommend(draft, waiting, found, purpose)


def why_not_placement(waiting: Workload, snapshot: ClusterSnapshot) -> tuple[str, str] | None:
    """Why a move would not help this workload: quota, or nobody knows why it waits."""
    reason = (waiting.waiting_reason or "").strip()
    if not reason:
        return "unknown_reason", f"Not moved: why {waiting.name} waits is not known."
    if "quota" in reason.lower():
        return "quota", f"Not moved: {waiting.name} waits for quota ({reason}); a move gives none."
    if reason.lower() not in MOVES_HELP:
        return "other_reason", f"Not moved: {waiting.name} waits for something that no move gives: {reason}"
    queue = next((one for one in snapshot.queues if one.name == waiting.queue), None)
    if queue is None or queue.gpus_quota is None:
        return None
    used = sum(one.gpus for one in snapshot.workloads if one.queue == queue.name and one.is_running)
    if used + waiting.gpus <= queue.gpus_quota:
        return None
    return (
        "quota",
        f"Not moved: {waiting.name} needs {waiting.gpus} GPUs and queue {queue.name} has {used} of {queue.gpus_quota} "
        "in use; a move gives no quota.",
    )


class Found:
    """Seats for the one who waits, and the emptyings that make them."""

    def __init__(self, seats: Sequence[Seat], emptied: Sequence[tuple[Emptying, tuple[Move, ...]]]) -> None:
        """`emptied` in the order in which they are done."""
        self.seats = tuple(seats)
        self.emptied = tuple(emptied)

    @property
    def moves(self) -> tuple[Move, ...]:
        """The victims' moves, in order."""
        return tuple(move for _, moves in self.emptied for move in moves)

    @property
    def victims(self) -> tuple[Workload, ...]:
        """Who has to leave, in order."""
        return tuple(victim for one, _ in self.emptied for victim in one.victims)


def _make_room(draft: Draft, waiting: Workload, purpose: str) -> Found | str:
    """Seats for all pods of the one who waits, or the sentence that says why there are none."""
    if sum(draft.room.free_without_spares().values()) < waiting.gpus:
        return _why_none(draft, waiting, 0)  # whoever moves, as many GPUs are held after as before
    best: Found | None = None
    tried = 0
    for search in _areas(draft, waiting, purpose):
        found, options = _make_room_in(draft, waiting, purpose, search)
        tried += options
        if found is not None and (best is None or len(found.victims) < len(best.victims)):
            best = found
    return best or _why_none(draft, waiting, tried)


def _areas(draft: Draft, waiting: Workload, purpose: str) -> list[Search]:
    """Where all of its pods may sit: anywhere in its pool, or in one rack after the other, standing advice first."""
    search = search_for(waiting, Search(keeps_spares=False), stay=())
    if waiting.together != "rack":
        return [search]
    kept = {draft.room.racks.get(node) for node in standing_nodes(draft.standing.get(purpose), waiting.id)}
    racks = sorted(set(draft.room.racks.values()), key=lambda rack: (rack not in kept, rack or ""))
    return [replace(search, only_racks=frozenset({rack})) for rack in racks]


def _make_room_in(draft: Draft, waiting: Workload, purpose: str, search: Search) -> tuple[Found | None, int]:
    """Seats in one area, or None, and how many nodes there could be emptied."""
    room = draft.room.copy()
    seats = _seats_at_hand(waiting, room, search)
    if len(seats) == waiting.pods:
        return Found(seats, []), 0
    standing = draft.standing.get(purpose)
    options = emptyings(draft, waiting, room, standing, search)
    emptied = _empty(draft, options, room, waiting.pods - len(seats), standing)
    seats += [
        Seat(pod=_pod(waiting, len(seats) + place), node=option.node, gpus=waiting.gpus_per_pod)
        for place, (option, _) in enumerate(emptied)
    ]
    return (Found(seats, emptied) if len(seats) == waiting.pods else None), len(options)


def _empty(
    draft: Draft, options: Sequence[Emptying], room: Room, wanted: int, standing: Recommendation | None
) -> list[tuple[Emptying, tuple[Move, ...]]]:
    """As many nodes as are wanted, cheapest first, each with a seat for everybody who leaves it."""
    emptied: list[tuple[Emptying, tuple[Move, ...]]] = []
    targets: set[str] = set()
    moved: set[str] = set()
    for option in options:
        if len(emptied) == wanted:
            break
        if moved & {one.id for one in option.victims} or _is_over_budget(draft, moved, option):
            continue
        if room.free.get(option.node, 0) < option.gpus_free:
            continue  # a victim of an earlier node was seated here
        moves = _seat_victims(draft, option, room, frozenset({*targets, option.node}), standing)
        if moves is not None:
            emptied.append((option, moves))
            targets.add(option.node)
            moved.update(one.id for one in option.victims)
            room.close(option.node)
    return emptied


def _pod(waiting: Workload, rank: int) -> str:
    return f"{waiting.name}-{rank}"


def _seats_at_hand(waiting: Workload, room: Room, search: Search) -> list[Seat]:
    """Seats that are free already, as far as they go; spare nodes stay spare, other whole nodes its scheduler gives."""
    seats: list[Seat] = []
    for rank in range(waiting.pods):
        found = find_seats([(_pod(waiting, rank), waiting.gpus_per_pod)], room, search)
        if found is None:
            break
        seats.extend(found)
    return seats


def _is_over_budget(draft: Draft, moved: set[str], option: Emptying) -> bool:
    left = draft.moves_left
    # The first option is kept even where it alone breaks the budget: the purse then says so with its number.
    return left is not None and bool(moved) and len(moved) + len(option.victims) > left


def _seat_victims(
    draft: Draft, option: Emptying, room: Room, without: frozenset[str], standing: Recommendation | None
) -> tuple[Move, ...] | None:
    trial = room.copy()
    moves: list[Move] = []
    for victim in sorted(option.victims, key=lambda one: (-one.gpus_per_pod, one.id)):
        leave, stay = leaving(victim, without=without | draft.out, snapshot=draft.snapshot)
        racks = [draft.snapshot.node_by_name[one.node].rack for one in stay]
        search = Search(
            without=without,
            keeps_spares=True,
            preferred=standing_nodes(standing, victim.id),
            near=frozenset(draft.snapshot.node_by_name[one.node].rack for one in (stay or leave)),
        )
        pods = [(one.pod, len(one.gpus)) for one in leave]
        wanted = search_for(victim, search, stay=racks)
        found = find_seats_together(pods, trial, wanted, together=victim.together)
        if found is None:
            return None
        by_pod = {seat.pod: seat for seat in found}
        by_pod |= {seat.pod: seat for seat in seats_of(stay)}
        move = move_of(victim, MoveKind.CONSOLIDATE, option.node, [by_pod[one.pod] for one in victim.placements])
        if draft.refusal(move) is not None:
            return None
        moves.append(move)
    room.become(trial)
    return tuple(moves)


def _why_none(draft: Draft, waiting: Workload, options: int) -> str:
    free = sum(draft.room.free_without_spares().values())
    best, largest = draft.room.largest_free(with_spares=False)
    head = f"Not moved: {waiting.name} needs {waiting.pods} × {waiting.gpus_per_pod} GPUs; {free} are free"
    head += f", never more than {largest} together ({best})." if largest else "."
    spares = sorted(draft.room.spares)
    kept = f" {list_text(spares)} {'is' if len(spares) == 1 else 'are'} kept for faults." if spares else ""
    forced = draft.displacement(waiting)
    if forced is not None:
        return head + kept + " " + displacement_text(forced, waiting)
    tried = f" {count_text(options, 'node')} could be emptied, but not all who leave would have a seat."
    if free < waiting.gpus:
        return head + kept + " No move makes GPUs."
    return head + kept + (tried if options else " No node can be emptied: nobody there may be moved.")


def _recommend(draft: Draft, waiting: Workload, found: Found, purpose: str) -> None:
    settings = draft.settings
    disturbed = [Disturbed(workload=victim) for victim in found.victims]
    not_before = best_moment(
        disturbed,
        now=draft.now,
        loss_gpus=float(waiting.gpus),
        wait_seconds_max=settings.checkpoint_wait_seconds_max,
        restart_default=settings.restart_seconds_default,
    )
    at = not_before or draft.now
    cost = cost_of(disturbed, now=draft.now, at=at, restart_default=settings.restart_seconds_default)
    gain = gain_of_starting(waiting, now=draft.now, horizon_hours=settings.horizon_hours)
    if cost.gpu_hours >= gain.gpu_hours:
        draft.refuse_because(
            "not_worth_it", _not_worth(waiting, found, cost, gain.gpu_hours), purpose=purpose, workload=waiting.id
        )
        return
    starts = Move(kind=MoveKind.CONSOLIDATE, workload=waiting.id, controller=waiting.controller, after=found.seats)
    moves = (*found.moves, starts)
    draft.accept(
        Recommendation(
            kind=RecommendationKind.CONSOLIDATE,
            rule=RULE,
            purpose=purpose,
            subject=Subject(cluster=draft.snapshot.cluster, workload=waiting.id),
            sentence=_sentence(waiting, found),
            reason=_reason(draft, waiting, found),
            findings=_findings(draft, waiting),
            moves=moves,
            writes=writes_of(moves),
            gain=gain,
            cost=cost,
            created_at=draft.now,
            expires_at=at + timedelta(seconds=settings.expiry_seconds),
            not_before=not_before,
            for_workload=waiting.id,
            against=tuple(
                f"The owner of {one.name} wants to be asked first." for one in found.victims if one.wishes.is_ask_first
            ),
            if_nothing_is_done=f"{waiting.name} waits on until a whole seat comes free by itself.",
        )
    )


def _findings(draft: Draft, waiting: Workload) -> tuple[int, ...]:
    def concerns(names: Sequence[str | None]) -> bool:
        return waiting.id in names or waiting.name in names

    return tuple(
        one.id
        for one in draft.findings
        if one.finding.rule == "fragmentation" and concerns((*one.finding.workloads_hit, one.finding.subject.workload))
    )


def _not_worth(waiting: Workload, found: Found, cost: Cost, gain_gpu_hours: float) -> str:
    return (
        f"Not moved: room for {waiting.name} would stop {count_text(len(found.victims), 'job')} at "
        f"{gpu_hours_text(cost.gpu_hours)} and gives {gpu_hours_text(gain_gpu_hours)}."
    )


def _sentence(waiting: Workload, found: Found) -> str:
    nodes = list_text(one.node for one, _ in found.emptied)
    return f"Move {count_text(len(found.victims), 'job')} off {nodes} so that {waiting.name} starts"


def _reason(draft: Draft, waiting: Workload, found: Found) -> str:
    waited = f"{waiting.name} waits for {waiting.pods} × {waiting.gpus_per_pod} GPUs"
    free = sum(draft.room.free_without_spares().values())
    _, largest = draft.room.largest_free(with_spares=False)
    have = (
        f"{free} are free, never more than {largest} together" if largest < waiting.gpus_per_pod else f"{free} are free"
    )
    steps = []
    seats = waiting.pods - len(found.emptied)
    for option, moves in found.emptied:
        seats += 1
        names = list_text(one.name for one in option.victims)
        to = list_text(sorted({seat.node for move in moves for seat in move.after} - {option.node}))
        steps.append(
            f"Moving {names} to {to} frees {option.gpus_freed} GPUs on {option.node} ({option.gpus_free} are free "
            f"there): seat {seats} of {waiting.pods}."
        )
    return f"{waited}; {have}. " + " ".join(steps)
