"""How Kueue carries advice out: the writes as kubectl lines, the way in a sentence, its expected time. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Move, Recommendation, Verb, Way
from trimtab.schedulers.kueue_moves import NAME
from trimtab.schedulers.kueue_objects import KueueWorkload
from trimtab.schedulers.kueue_rules import SWAP_SECONDS, is_exact, queues_to_hold
from trimtab.schedulers.kueue_scope import Scope
from trimtab.schedulers.kueue_seats import KEPT, seat_key
from trimtab.settings import KubernetesSettings

START_SECONDS = 1.5
"""From the reactivation until the pods run, the queue's opening included."""
STEP_SECONDS = 2.5
"""What a whole move takes besides: three of our steps, each looked at before the next."""
FIRST_SECONDS = 3.5
"""From the opening of an emptied node until the one who waits runs there."""


def way_of(
    recommendation: Recommendation, snapshot: ClusterSnapshot, scope: Scope, settings: KubernetesSettings
) -> Way:
    """Kueue's part of the advice; empty where it has none."""
    moves = [one for one in recommendation.moves if one.controller == NAME and one.workload]
    found = {move.workload: scope.of(move.workload or "") for move in moves}
    known = [(move, one) for move in moves if (one := found[move.workload]) is not None]
    victims = [(move, one) for move, one in known if move.before and not move.replaced]
    waiters = [(move, one) for move, one in known if not move.before]
    swaps = [(move, one) for move, one in known if move.replaced]
    steps = [f"kubectl cordon {write.node}" for write in recommendation.writes if write.verb is Verb.CORDON]
    steps += [line for move, one in swaps for line in _swap_lines(move, one)]
    steps += _move_lines(victims, waiters, scope, settings)
    steps += [f"kubectl uncordon {write.node}" for write in recommendation.writes if write.verb is Verb.UNCORDON]
    seconds = [_seconds_of_swap(move, snapshot) for move, _ in swaps]
    if victims:
        stop = max((_stop_seconds(move, snapshot) for move, _ in victims), default=0.0)
        seconds.append(STEP_SECONDS + stop + START_SECONDS + (FIRST_SECONDS if waiters else 0.0))
    return Way(
        steps=tuple(steps),
        sentence=_sentence(victims, waiters, swaps, settings, max(seconds, default=0.0)),
        seconds=max(seconds, default=None),
        against=tuple(_against(victims, waiters, swaps, scope, settings)),
    )


Known = Sequence[tuple[Move, KueueWorkload]]


def _swap_lines(move: Move, one: KueueWorkload) -> list[str]:
    namespace = one.key.split("/", maxsplit=1)[0]
    lines = []
    for pod in move.replaced:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
        lines.append(f"echo '{json.dumps(body)}' | kubectl create --raw {path} -f -")
    return lines


def _move_lines(victims: Known, waiters: Known, scope: Scope, settings: KubernetesSettings) -> list[str]:
    if not victims:
        return []
    queues = sorted({queue for _, one in (*victims, *waiters) if (queue := scope.queue_of(one))})
    left = {seat.node for move, _ in victims for seat in move.before}
    emptied = sorted({seat.node for move, _ in waiters for seat in move.after} & left)
    lines = [_patch("clusterqueue", queue, None, {"stopPolicy": "Hold"}) for queue in queues]
    lines += [f"kubectl cordon {node}" for node in emptied]
    lines += [_active(one, is_active=False) for _, one in victims]
    for _, one in victims:
        namespace, _, name = one.key.partition("/")
        lines.append(f"kubectl -n {namespace} wait workload/{name} --for=condition=QuotaReserved=False --timeout=10m")
    lines.append("# and until none of their pods is left")
    for move, one in victims:
        lines += _seat_lines(move, one, settings)
    lines += [_active(one, is_active=True) for _, one in victims]
    lines += [f"kubectl uncordon {node}" for node in emptied]
    return lines + [_patch("clusterqueue", queue, None, {"stopPolicy": "None"}) for queue in queues]


def _seat_lines(move: Move, one: KueueWorkload, settings: KubernetesSettings) -> list[str]:
    if not is_exact(one, settings):
        return []
    key = seat_key(settings.prefix, one)
    nodes = " ".join(sorted({seat.node for seat in move.after}))
    return [
        f"kubectl label node {nodes} {key}={KEPT}",
        f"# check {settings.admission_check} of {one.key}: Ready, podSetUpdates nodeSelector {key}={KEPT}",
    ]


def _active(one: KueueWorkload, *, is_active: bool) -> str:
    namespace, _, name = one.key.partition("/")
    return _patch("workload", name, namespace, {"active": is_active})


def _patch(kind: str, name: str, namespace: str | None, spec: dict[str, object]) -> str:
    where = f"-n {namespace} " if namespace else ""
    return f"kubectl {where}patch {kind} {name} --type=merge -p '{json.dumps({'spec': spec})}'"


def _stop_seconds(move: Move, snapshot: ClusterSnapshot) -> float:
    workload = snapshot.workload_by_id.get(move.workload or "")
    return workload.stop_seconds if workload is not None else 0.0


def _seconds_of_swap(move: Move, snapshot: ClusterSnapshot) -> float:
    workload = snapshot.workload_by_id.get(move.workload or "")
    known = workload.replace_seconds if workload is not None else None
    return known if known is not None else SWAP_SECONDS + _stop_seconds(move, snapshot)


def _sentence(victims: Known, waiters: Known, swaps: Known, settings: KubernetesSettings, seconds: float) -> str:
    parts = []
    if swaps:
        pods = sum(len(move.replaced) for move, _ in swaps)
        parts.append(
            f"hot swap of {pods} {'pod' if pods == 1 else 'pods'}: evicted off the cordoned node, the others run on"
        )
    if victims:
        exact = all(is_exact(one, settings) for _, one in victims)
        seats = "on the seats of the plan by our AdmissionCheck" if exact else "on seats that Kueue chooses"
        whole = "whole gang" if len(victims) == 1 else f"{len(victims)} jobs whole"
        parts.append(f"{whole} by deactivate and reactivate, {seats}, their queues held meanwhile")
    if waiters and victims:
        parts.append("then the emptied node opens for the one who waits")
    if not parts:
        return ""
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}; about {seconds:.0f} s until all of it runs."


def _against(victims: Known, waiters: Known, swaps: Known, scope: Scope, settings: KubernetesSettings) -> Iterable[str]:
    if swaps:
        queues = queues_to_hold(scope, [], {seat.node for move, _ in swaps for seat in move.after})
        if queues:
            yield f"Nothing keeps a replaced pod's seat for the second until Kueue takes it; jobs wait in {queues[0]}."
    if not victims:
        return
    loose = [one.key for _, one in victims if not is_exact(one, settings)]
    if loose and settings.admission_check:
        yield f"{loose[0]} is in a queue without {settings.admission_check}: Kueue chooses its seats."
    own = {queue for _, one in (*victims, *waiters) if (queue := scope.queue_of(one))}
    nodes = {seat.node for move, _ in (*victims, *waiters) for seat in (*move.before, *move.after)}
    peers = [queue for queue in queues_to_hold(scope, sorted(own), nodes) if queue not in own]
    if peers:
        yield f"No job is admitted meanwhile in {', '.join(peers)} either."
