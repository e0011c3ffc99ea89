"""Free GPUs per node as planning takes seats, and the search for seats: nothing is ever given out twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trimtab.model.cluster import ClusterSnapshot, Node, Workload
from trimtab.model.command import Seat


@dataclass(slots=True, kw_only=True)
class Room:
    """Free GPUs on nodes that a seat may be given on. Working copy of one plan; `copy` before trying."""

    free: dict[str, int]
    usable: Mapping[str, int]
    """Node -> GPUs that it has in service, held or not."""
    racks: Mapping[str, str | None]
    spares: frozenset[str]
    pools: Mapping[str, str | None] = field(default_factory=dict)
    why_closed: Mapping[str, str] = field(default_factory=dict)
    """Node -> what keeps off all but those who tolerate it."""
    spares_kept: int = 0
    whole: int = -1
    """How many nodes are whole and free; counted once, then kept up to date."""

    def __post_init__(self) -> None:
        """Count the whole nodes where a copy does not bring the count along."""
        if self.whole < 0:
            self.whole = sum(1 for node in self.free if self.is_whole(node))

    def copy(self) -> Room:
        """A copy to try on."""
        return Room(
            free=dict(self.free),
            usable=self.usable,
            racks=self.racks,
            spares=self.spares,
            pools=self.pools,
            why_closed=self.why_closed,
            spares_kept=self.spares_kept,
            whole=self.whole,
        )

    def become(self, trial: Room) -> None:
        """Take over what was tried on a copy."""
        self.free, self.whole = trial.free, trial.whole

    def take(self, node: str, gpus: int) -> None:
        """Give GPUs of a node out; never more than are free."""
        if gpus and self.is_whole(node):
            self.whole -= 1
        self.free[node] = max(self.free.get(node, 0) - gpus, 0)

    def close(self, node: str) -> None:
        """Give no more seats on a node."""
        if self.is_whole(node):
            self.whole -= 1
        self.free.pop(node, None)

    def is_whole(self, node: str) -> bool:
        """Whether all of the node's GPUs are free."""
        return self.usable.get(node, 0) > 0 and self.free.get(node, 0) == self.usable[node]

    @property
    def wholes_to_give(self) -> int:
        """Whole free nodes beyond those kept for faults."""
        return max(self.whole - self.spares_kept, 0)

    def free_without_spares(self) -> dict[str, int]:
        """Node -> free GPUs, spare nodes left out."""
        return {node: gpus for node, gpus in self.free.items() if node not in self.spares}

    def largest_free(self, *, with_spares: bool) -> tuple[str, int]:
        """The node with most free GPUs and how many; ("", 0) where nothing is free."""
        free = self.free if with_spares else self.free_without_spares()
        found = sorted(free.items(), key=lambda item: (-item[1], item[0]))
        return found[0] if found and found[0][1] else ("", 0)


def room_of(snapshot: ClusterSnapshot, *, closed: Collection[str], spares_kept: int) -> Room:
    """The room of a snapshot: schedulable nodes but those `closed` (suspect), less what commands reserved."""
    owed = _reserved(snapshot)
    open_nodes = [node for node in snapshot.nodes if _takes_seats(node) and node.name not in closed]
    return Room(
        free={node.name: max(len(snapshot.free_gpus[node.name]) - owed[node.name], 0) for node in open_nodes},
        usable={node.name: sum(1 for gpu in node.gpus if gpu.is_usable) for node in open_nodes},
        racks={node.name: node.rack for node in open_nodes},
        pools={node.name: node.pool for node in open_nodes},
        why_closed={node.name: node.why_closed for node in open_nodes if node.why_closed is not None},
        spares=frozenset(node.name for node in open_nodes if node.is_spare),
        spares_kept=spares_kept,
    )


def _takes_seats(node: Node) -> bool:
    return node.is_schedulable and node.other_mover is None


def _reserved(snapshot: ClusterSnapshot) -> Counter[str]:
    """Node -> GPUs reserved there and not yet held by the workload that they are reserved for."""
    held: Counter[tuple[str, str]] = Counter()
    for workload in snapshot.workloads:
        for placement in workload.placements:
            held[placement.node, workload.id] += len(placement.gpus)
    reserved: Counter[tuple[str, str]] = Counter()
    for reservation in snapshot.reservations:
        reserved[reservation.node, reservation.workload] += reservation.gpus
    owed: Counter[str] = Counter()
    for (node, workload_id), gpus in reserved.items():
        owed[node] += max(gpus - held[node, workload_id], 0)
    return owed


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a seat must respect: nodes that are out, whether spares may be used, and which nodes come first."""

    without: frozenset[str] = frozenset()
    may_use_spares: bool = False
    keeps_spares: bool = True
    """Leave `spares_kept` whole free nodes alone."""
    preferred: frozenset[str] = frozenset()
    """Nodes of the standing advice: the same seats again where they still serve, so that advice stays put."""
    near: frozenset[str | None] = field(default_factory=frozenset)
    """Racks to stay in where possible."""
    only_racks: frozenset[str | None] | None = None
    """Racks to stay in whatever happens; None = any."""
    pool: str | None = None
    """The pool to stay in; None = any."""
    tolerates: tuple[str, ...] = ()
    """What keeps others off a node and not this work."""

    def allows(self, node: str, room: Room) -> bool:
        """Whether a seat may be given on this node at all."""
        closed = room.why_closed.get(node)
        return (
            node not in self.without
            and (self.may_use_spares or node not in room.spares)
            and (self.only_racks is None or room.racks.get(node) in self.only_racks)
            and (self.pool is None or room.pools.get(node) == self.pool)
            and (closed is None or closed in self.tolerates)
        )


def search_for(workload: Workload, search: Search, *, stay: Iterable[str | None]) -> Search:
    """The search narrowed to what the workload itself asks for. `stay`: racks of its pods that stay where they are."""
    bound = frozenset(stay) if workload.together == "rack" else frozenset()
    return replace(search, pool=workload.pool, tolerates=workload.tolerates, only_racks=bound or None)


def find_seats_together(
    pods: Sequence[tuple[str, int]], room: Room, search: Search, *, together: str | None
) -> tuple[Seat, ...] | None:
    """As `find_seats`; with `together` all in one rack: the one it is in before others, then the tightest that fits."""
    if together != "rack" or search.only_racks is not None:
        return find_seats(pods, room, search)
    free: Counter[str | None] = Counter()
    for node, gpus in room.free.items():
        free[room.racks.get(node)] += gpus
    kept = {room.racks.get(node) for node in search.preferred}
    order = sorted(free, key=lambda rack: (rack not in kept, rack not in search.near, free[rack], rack or ""))
    for rack in order:
        seats = find_seats(pods, room, replace(search, only_racks=frozenset({rack})))
        if seats is not None:
            return seats
    return None


def find_seats(pods: Sequence[tuple[str, int]], room: Room, search: Search) -> tuple[Seat, ...] | None:
    """A seat for every (pod, GPUs), all at once, or None; takes them off `room` only when all are found."""
    trial = room.copy()
    found: dict[str, Seat] = {}
    for pod, gpus in sorted(pods, key=lambda item: -item[1]):
        node = _best_node(gpus, trial, search)
        if node is None:
            return None
        trial.take(node, gpus)
        found[pod] = Seat(pod=pod, node=node, gpus=gpus)
    room.become(trial)
    return tuple(found[pod] for pod, _ in pods)


def _best_node(gpus: int, room: Room, search: Search) -> str | None:
    wholes_to_give = room.wholes_to_give if search.keeps_spares else len(room.free)
    fitting = [
        node
        for node, free in room.free.items()
        if free >= gpus and search.allows(node, room) and (wholes_to_give > 0 or not room.is_whole(node))
    ]
    return min(fitting, key=lambda node: _place(node, gpus, room, search), default=None)


def _place(node: str, gpus: int, room: Room, search: Search) -> tuple[bool, bool, bool, bool, int, str]:
    """Order of choice: standing seat, no spare, no whole node broken, near the others, tightest fit, name."""
    return (
        node not in search.preferred,
        node in room.spares,
        room.is_whole(node) and gpus < room.usable[node],
        room.racks.get(node) not in search.near,
        room.free[node] - gpus,
        node,
    )


def gpus_by_node(seats: Iterable[Seat]) -> Counter[str]:
    """Node -> GPUs of the seats on it."""
    count: Counter[str] = Counter()
    for seat in seats:
        count[seat.node] += seat.gpus
    return count
