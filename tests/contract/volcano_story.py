"""What happened to each object, in words: from a recording or from what was watched, so that the two can be compared.

Order and reasons are told, times and numbers that hang on them are not: names of Volcano's that are made up anew each
time (uids, PodGroup and Command names) are left out, and pods that came under one name follow each other in its story.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.kube_patch import merged

Json = dict[str, Any]
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "volcano"

PlaceWords = Callable[[str, str], str]
"""How a pod's node is told: from the node of the pod before it under that name (or none) and its own."""


def any_place(before: str, node: str) -> str:
    """Whatever the node, it is a place."""
    return ""


def named_place(before: str, node: str) -> str:
    """The node's name: the scenario leaves no choice."""
    return f" {node}"


def moved_place(before: str, node: str) -> str:
    """Whether it is the node that the pod before had."""
    return "" if not before else " back" if before == node else " elsewhere"


def rack_place(before: str, node: str) -> str:
    """Whether it is in the rack that the pod before had: four nodes each, by number."""
    if not before:
        return ""
    return " same rack" if (int(before[1:]) - 1) // 4 == (int(node[1:]) - 1) // 4 else " other rack"


@dataclass
class Event:
    """A line of a recording, or what a watch told, in the same shape."""

    type: str
    kind: str
    name: str
    body: Json


@dataclass
class Story:
    """Subject by subject what happened; `timeline` is all of it in one order."""

    of: dict[str, list[str]] = field(default_factory=dict)
    timeline: list[str] = field(default_factory=list)

    def add(self, subject: str, tokens: Iterable[str]) -> None:
        """Goes on with a subject's story; what was said last is not said again."""
        told = self.of.setdefault(subject, [])
        for token in tokens:
            if not told or told[-1] != token:
                told.append(token)
                self.timeline.append(f"{subject}: {token}")

    def index(self, milestone: str) -> int:
        """Where in the timeline it first stands."""
        return self.timeline.index(milestone)


def recording(name: str) -> list[Event]:
    """A recording's events, our requests and their answers left out."""
    lines = [json.loads(line) for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [_event(line) for line in lines if line["type"] in ("INITIAL", "ADDED", "MODIFIED", "DELETED")]


def answers(name: str) -> list[tuple[int, str]]:
    """What the API server said no to, in a recording: code and message."""
    lines = [json.loads(line) for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    refused = [line for line in lines if line["type"] == "RESPONSE" and line["code"] >= 400]
    return [(line["code"], plain_text(line.get("message", ""))) for line in refused]


def plain_text(message: str) -> str:
    """A message without what is made up anew each time."""
    message = message.replace("Operation cannot be fulfilled on pods", "Operation cannot be fulfilled on Pod")
    return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", message)


def _event(line: Json) -> Event:
    if line["kind"] == "Event":
        return Event("ADDED", "Event", line["regarding"]["name"], line)
    body: Json = {name: line[name] for name in ("metadata", "spec", "status") if name in line}
    return Event(line["type"], line["kind"], line["name"], body)


def watched(type_: str, kind: str, obj: Json) -> Event:
    """A watched object in the shape of a recording."""
    if kind == "Event":
        about = obj["involvedObject"]
        line = {"regarding": about, "reason": obj["reason"], "message": obj["message"]}
        return Event("ADDED", "Event", about["name"], line)
    status = dict(obj.get("status") or {})
    if kind in ("Pod", "PodGroup"):
        found = sorted(status.get("conditions") or [], key=lambda one: str(one.get("lastTransitionTime", "")))
        status["conditions"] = {one["type"]: _condition_text(one) for one in found}
    body = {"metadata": obj["metadata"], "spec": obj.get("spec") or {}, "status": status}
    return Event(type_, kind, obj["metadata"]["name"], body)


def _condition_text(condition: Json) -> str:
    reason = f"/{condition['reason']}" if condition.get("reason") else ""
    return f"{condition['status']}{reason}" + (f": {condition['message']}" if condition.get("message") else "")


class Teller:
    """Turns events into a story."""

    def __init__(self, *, place: PlaceWords = any_place) -> None:
        self.story = Story()
        self._place = place
        self._states: dict[tuple[str, str], Json] = {}
        self._nodes: dict[str, str] = {}
        self._commands: dict[str, str] = {}

    def tell(self, events: Iterable[Event], *, has_whole_objects: bool) -> Story:
        """Goes through them in order. A recording says of a change only what changed; a watch shows whole objects."""
        for event in events:
            if event.kind == "Event":
                self._tell_event(event)
            elif event.kind in TELLERS:
                self._tell_object(event, has_whole_objects=has_whole_objects)
        return self.story

    def _tell_event(self, event: Event) -> None:
        kind, reason, message = event.body["regarding"]["kind"], event.body["reason"], event.body["message"].strip()
        if kind == "Job" and reason in ("CommandIssued", "ExecuteAction"):
            words, subject = message.split(", and clean")[0], f"events of Job {event.name}"
            if words not in self.story.of.get(subject, []):  # a repeated one is counted up, not written anew
                self.story.add(subject, [words])

    def _tell_object(self, event: Event, *, has_whole_objects: bool) -> None:
        key = (event.kind, event.name)
        before = self._states.get(key)
        after = event.body if has_whole_objects or before is None else merged(before, event.body)
        subject = self._subject(event, after)
        if event.type == "DELETED":
            self._states.pop(key, None)
            self.story.add(subject, ["gone"])
            return
        self._states[key] = after
        is_first_sight = before is None and event.type == "MODIFIED"
        if event.type == "INITIAL":
            tokens = []
        elif before is None and event.type == "ADDED":
            tokens = ["made", *TELLERS[event.kind]({}, after)]
        else:
            tokens = TELLERS[event.kind](_assumed(event.kind, after) if is_first_sight else before or {}, after)
        self.story.add(subject, self._with_places(event, after, tokens))

    def _with_places(self, event: Event, after: Json, tokens: list[str]) -> list[str]:
        node = (after.get("spec") or {}).get("nodeName", "") if event.kind == "Pod" else ""
        nominated = (after.get("status") or {}).get("nominatedNodeName", "") if event.kind == "Pod" else ""
        words: dict[str, Callable[[], str]] = {
            "placed": lambda: f"placed{self._place(self._nodes.get(event.name, ''), node)}",
            "nominated": lambda: f"nominated{self._place('', nominated)}",
        }
        told = [words[one]() if one in words else one for one in tokens]
        if node:
            self._nodes[event.name] = node
        return told

    def _subject(self, event: Event, after: Json) -> str:
        name = event.name
        if event.kind == "Command":
            stem = name.rsplit("-", 1)[0] if "-" in name else name
            name = self._commands.setdefault(name, f"{stem} {len(self._commands) + 1}")
        elif event.kind == "PodGroup":
            owners = (after.get("metadata") or {}).get("ownerReferences") or [{}]
            name = re.sub(r"-[0-9a-f]{8}-[0-9a-f-]{27}$", "", name)
            name = f"of {owners[0].get('name', '?')}" if name == "podgroup" else name
        return f"{event.kind} {name}"


FRESH = ("DisruptionTarget", "PodScheduled")


def _assumed(kind: str, after: Json) -> Json:
    """What an object was before the first that a recording tells of it: a running one, as all that are not new."""
    metadata: Json = {"annotations": {}}
    status = dict(after.get("status") or {})
    if kind == "Pod":
        conditions = {name: text for name, text in (status.get("conditions") or {}).items() if name not in FRESH}
        status = {**status, "conditions": conditions}
        status.pop("nominatedNodeName", None)
    elif kind == "Job" and (status.get("state") or {}).get("phase") not in ("Running", "Pending"):
        status.pop("state", None)
    elif kind == "PodGroup":
        if status.get("phase") in ("Unknown", "Pending") or not status.get("conditions"):
            status.pop("phase", None)
        status.pop("conditions", None)
    return {"metadata": metadata, "spec": dict(after.get("spec") or {}), "status": status}


# --- one teller a kind: what changed between two states, in words


def _job(before: Json, after: Json) -> list[str]:
    return [_job_state(after)] if _job_state(after) and _job_state(after) != _job_state(before) else []


def _job_state(job: Json) -> str:
    status = job.get("status") or {}
    phase, retries = (status.get("state") or {}).get("phase", ""), status.get("retryCount", 0) or 0
    return f"{phase} retry {retries}" if phase else ""


def _group(before: Json, after: Json) -> list[str]:
    tokens = []
    size = [(one.get("spec") or {}).get("minMember", 0) or 0 for one in (before, after)]
    if before and size[0] != size[1]:
        tokens.append(f"minMember {size[1]}")
    phases = [(one.get("status") or {}).get("phase", "") for one in (before, after)]
    if phases[0] != phases[1]:
        tokens.append(phases[1])
    conditions = [(one.get("status") or {}).get("conditions") or {} for one in (before, after)]
    reasons = [_unschedulable(one.get("Unschedulable", "")) for one in conditions]
    if reasons[1] and reasons[0] != reasons[1]:
        tokens.append(reasons[1])
    return tokens


def _unschedulable(text: str) -> str:
    """Without its counts of tasks, which hang on the moment."""
    if not text:
        return ""
    _, _, origin = text.partition("Origin reason is ")
    return f"Unschedulable: {origin.partition(': ')[2]}" if origin else "Unschedulable"


def _pod(before: Json, after: Json) -> list[str]:
    tokens = []
    was, now = (_pod_facts(one) for one in (before, after))
    if not before and now["version"] != "0":
        tokens.append("of a new version")
    for name, words in (("node", "placed"), ("marked", "marked out of sync"), ("leaving", "leaving")):
        if now[name] and not was[name]:
            tokens.append(words)
    for name, words in (("disrupted", "disrupted: {}"), ("nominated", "nominated"), ("why", "no place: {}")):
        if now[name] and now[name] != was[name]:
            tokens.append(words.format(now[name]))
    if now["phase"] != was["phase"] and now["phase"] != "Pending":
        tokens.append(now["phase"])
    return tokens


def _pod_facts(pod: Json) -> dict[str, str]:
    metadata, spec, status = (pod.get(name) or {} for name in ("metadata", "spec", "status"))
    annotations, conditions = metadata.get("annotations") or {}, status.get("conditions") or {}
    scheduled = conditions.get("PodScheduled", "")
    return {
        "version": annotations.get("volcano.sh/job-version", "0") if "volcano.sh/job-name" in annotations else "0",
        "node": spec.get("nodeName", ""),
        "marked": annotations.get("volcano.sh/controller-out-of-sync", ""),
        "leaving": "yes" if metadata.get("deletionTimestamp") else "",
        "disrupted": conditions.get("DisruptionTarget", "").partition("/")[2].partition(":")[0],
        "nominated": status.get("nominatedNodeName", ""),
        "why": _why(scheduled.partition(": ")[2]) if scheduled.startswith("False") else "",
        "phase": status.get("phase", ""),
    }


def _why(message: str) -> str:
    if message.startswith("pod group is not ready"):
        return "gang not ready"
    if "can possibly be assigned to" in message:
        return "may go once " + message.partition("once ")[2]
    return message


def _command(before: Json, after: Json) -> list[str]:
    return []


def _queue(before: Json, after: Json) -> list[str]:
    states = [(one.get("status") or {}).get("state", "") for one in (before, after)]
    return [states[1]] if states[0] != states[1] else []


TELLERS: dict[str, Callable[[Json, Json], list[str]]] = {
    "Job": _job,
    "PodGroup": _group,
    "Pod": _pod,
    "Command": _command,
    "Queue": _queue,
}
