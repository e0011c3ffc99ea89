"""Queues and fairness: who has what of the fleet, who waits, and who holds what others could use."""

from __future__ import annotations

from dashboards.panels import BLUE, GREEN, ORANGE, TO_JOB, Ask, bars, lines, rows, stack
from dashboards.queries import CLUSTER, by_holder, cluster, gpu, holders
from dashboards.sheet import Row, Sheet

_QUEUE = 'queue=~"$queue"'


def _queue(name: str, more: str = "", *, by: str = "cluster, queue") -> str:
    return cluster(f"queue_{name}", f"{_QUEUE}, {more}" if more else _QUEUE, by=by)


_HELD, _ASKED = _queue("gpus", 'state="held"'), _queue("gpus", 'state="asked_for"')

SHARES = Row(
    title="Shares",
    panels=(
        stack(
            "GPUs held, by queue",
            "What each queue's jobs hold.",
            "none",
            Ask(_HELD, "{{queue}}"),
        ),
        lines(
            "Share of quota in use",
            "Above 1 a queue has borrowed from its neighbours; what is lent comes back when they ask.",
            "percentunit",
            Ask(f"{_HELD} / {_queue('gpus_quota')}", "{{queue}}"),
            steps=((None, GREEN), (1.0, ORANGE)),
        ),
        rows(
            "Queues now",
            "Quota, what is held of it, what is asked for beyond, and what is held and idle.",
            Ask(_queue("gpus_quota")),
            Ask(_HELD),
            Ask(_ASKED),
            Ask(_queue("gpus_held_idle")),
            names={
                "queue": "Queue",
                "Value #A": "Quota",
                "Value #B": "Held",
                "Value #C": "Asked for",
                "Value #D": "Held but idle",
                "cluster": "Cluster",
            },
        ),
    ),
)

WAITING = Row(
    title="Who waits",
    panels=(
        lines(
            "GPUs asked for, by queue",
            "What a queue's waiting jobs want; beside free GPUs it is placement, without them it is quota or room.",
            "none",
            Ask(_ASKED, "{{queue}}"),
        ),
        lines(
            "Longest wait, by queue",
            "How long the longest-waiting job of each queue has waited.",
            "s",
            Ask(_queue("wait_seconds_max"), "{{queue}}"),
        ),
        lines(
            "Jobs by state and queue",
            "Running, waiting and stopping jobs of each queue.",
            "none",
            Ask(_queue("workloads", by="cluster, queue, state"), "{{queue}} {{state}}"),
            width=24,
        ),
    ),
)

USE = Row(
    title="Who uses what is held",
    panels=(
        lines(
            "Held but idle, by queue",
            "GPUs that are held and not used while others may wait: their owners are told, nothing is taken away.",
            "none",
            Ask(_queue("gpus_held_idle"), "{{queue}}"),
        ),
        lines(
            "SM activity, by queue",
            "Mean over the GPUs that a queue's jobs hold.",
            "percentunit",
            Ask(
                "avg by (queue) (" + by_holder("queue", gpu("sm_active_ratio", where=CLUSTER), _QUEUE) + ")",
                "{{queue}}",
            ),
            maximum=1.0,
        ),
        bars(
            "Largest jobs",
            "The fifteen jobs that hold the most GPUs.",
            "none",
            Ask(
                "topk(15, count by (workload) (" + holders(_QUEUE, by="cluster, node, gpu, workload") + "))",
                "{{workload}}",
            ),
            height=10,
            links=TO_JOB,
            steps=((None, BLUE),),
        ),
        bars(
            "Least active jobs",
            "The fifteen jobs whose GPUs are least active, on the mean of their GPUs now.",
            "percentunit",
            Ask(
                "bottomk(15, avg by (workload) ("
                + by_holder("workload", gpu("sm_active_ratio", where=CLUSTER), _QUEUE)
                + "))",
                "{{workload}}",
            ),
            height=10,
            maximum=1.0,
            links=TO_JOB,
            steps=((None, BLUE),),
        ),
    ),
)

SHEET = Sheet(
    uid="trimtab-queues",
    title="trimtab: Queues and fairness",
    text="Who has what of the fleet, who waits for how long, and who holds what others could use.",
    rows=(SHARES, WAITING, USE),
    variables=("cluster", "queue"),
)
