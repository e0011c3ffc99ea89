"""What a cluster offers and lets us do: permissions, kinds, gates and labels, and what each missing one costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.errors import SchedulerError, SchedulerGone, SchedulerRefused, SchedulerUnavailable
from trimtab.model.command import Mode
from trimtab.schedulers.discovery import offered
from trimtab.schedulers.kubernetes import Api
from trimtab.schedulers.rights import KUEUE, NOTHING, RESOURCE, VOLCANO_JOBS, Right, rights_of
from trimtab.settings import DaemonSettings, KubernetesSettings

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One thing looked at. `costs` says what goes without it; `fix` what to do about it."""

    name: str
    is_ok: bool
    sentence: str
    costs: str = ""
    fix: str = ""


def survey(api: Api, settings: DaemonSettings) -> Iterator[Seen]:
    """Everything that was looked at, in the order in which it matters. One that cannot be reached ends it."""
    kubernetes = settings.kubernetes or KubernetesSettings()
    try:
        version = str(api.get("/version").get("gitVersion") or "of no version")
    except SchedulerError as error:
        yield Seen(
            name="cluster",
            is_ok=False,
            sentence=str(error),
            costs=NOTHING,
            fix="See [kubernetes] kubeconfig and context.",
        )
        return
    yield Seen(name="cluster", is_ok=True, sentence=f"The API server answers: Kubernetes {version}.")
    groups = _groups(api)
    yield from _kinds(groups)
    yield from _rights(api, groups, settings, kubernetes)
    yield from _labels(api, kubernetes)
    yield from _kueue(api, groups, kubernetes)


def _groups(api: Api) -> Mapping[str, frozenset[str]]:
    """API group -> kinds that it serves."""
    found: dict[str, set[str]] = {}
    for name in offered(api)[0]:
        plural, _, group = name.partition(".")
        found.setdefault(group, set()).add(plural)
    return {group: frozenset(kinds) for group, kinds in found.items()}


def _kinds(groups: Mapping[str, frozenset[str]]) -> Iterator[Seen]:
    """Schedulers that are there; what is not installed is absent and no fault."""
    here = [name for name, group in (("Kueue", KUEUE), ("Volcano", VOLCANO_JOBS)) if group in groups]
    yield Seen(
        name="schedulers",
        is_ok=True,
        sentence=f"Beside kube-scheduler: {' and '.join(here)}."
        if here
        else "kube-scheduler alone; no queueing controller.",
    )
    if KUEUE in groups and "topologies" not in groups[KUEUE]:
        yield Seen(
            name="Kueue's Topology",
            is_ok=False,
            sentence="This Kueue has no Topology kind.",
            costs="Gangs are not kept in one rack by Kueue, and no single pod is replaced.",
            fix="Kueue 0.14 or later has it.",
        )
    has_rules = "devicetaintrules" in groups.get(RESOURCE, frozenset())
    yield Seen(
        name="DeviceTaintRule",
        is_ok=True,
        sentence="One GPU can be taken out alone (DeviceTaintRule)."
        if has_rules
        else "DeviceTaintRule is not served, so a bad GPU takes its node out. The gate DRADeviceTaintRules brings it, "
        "for GPUs that are handed out by DRA.",
    )


def _rights(
    api: Api, groups: Mapping[str, frozenset[str]], settings: DaemonSettings, kubernetes: KubernetesSettings
) -> Iterator[Seen]:
    may_act = settings.issue.mode in (Mode.APPROVE, Mode.ACT)
    missing = 0
    for right in rights_of(kubernetes, may_act=may_act):
        if not _matters(right, groups) or _is_allowed(api, right):
            continue
        missing += 1
        yield Seen(
            name="permission",
            is_ok=False,
            sentence=f"This account may not {right.text}.",
            costs=right.costs,
            fix=f"Apply docs/how-to/kubernetes/{_manifest_of(right)}.",
        )
    if not missing:
        what = "read and act" if may_act else f"read, which mode {settings.issue.mode} needs"
        yield Seen(name="permissions", is_ok=True, sentence=f"This account may {what}.")


def _manifest_of(right: Right) -> str:
    if right.is_for_check:
        return "kueue-check"
    return "act" if right.is_for_acting else "base"


def _matters(right: Right, groups: Mapping[str, frozenset[str]]) -> bool:
    """Whether the API that it is for is there; the core's always is."""
    return not right.group or right.resource.split("/")[0] in groups.get(right.group, frozenset())


def _is_allowed(api: Api, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource}
    if subresource:
        attributes["subresource"] = subresource
    if right.namespace:
        attributes["namespace"] = right.namespace
    if right.name:
        attributes["name"] = right.name
    try:
        answer = api.post(REVIEWS, {"spec": {"resourceAttributes": attributes}})
    except SchedulerRefused:
        return False
    return bool((answer.get("status") or {}).get("allowed"))


def _labels(api: Api, kubernetes: KubernetesSettings) -> Iterator[Seen]:
    """Whether GPU nodes say where they stand."""
    try:
        nodes = api.get("/api/v1/nodes").get("items") or []
    except SchedulerError:
        return  # said as a missing permission
    gpus = [one for one in nodes if kubernetes.gpu_resource in ((one.get("status") or {}).get("capacity") or {})]
    if not gpus:
        yield Seen(
            name="GPU nodes",
            is_ok=False,
            sentence=f"No node of {len(nodes)} has {kubernetes.gpu_resource}.",
            costs="There is nothing to watch.",
            fix="Install the device plugin, or set [kubernetes] gpu_resource.",
        )
        return
    yield Seen(
        name="GPU nodes", is_ok=True, sentence=f"{len(gpus)} of {len(nodes)} nodes have {kubernetes.gpu_resource}."
    )
    if not kubernetes.rack_labels:
        return
    bare = [one["metadata"]["name"] for one in gpus if not _has_label(one, kubernetes.rack_labels)]
    if bare:
        yield Seen(
            name="rack labels",
            is_ok=False,
            sentence=f"{len(bare)} GPU nodes have none of {', '.join(kubernetes.rack_labels)} ({bare[0]} …).",
            costs="Gangs that must stay in one rack are not moved onto them.",
            fix="Label them, or set [kubernetes] rack_labels to the labels that they have.",
        )


def _has_label(node: Mapping[str, Any], labels: tuple[str, ...]) -> bool:
    return any(label in (node["metadata"].get("labels") or {}) for label in labels)


def _kueue(api: Api, groups: Mapping[str, frozenset[str]], kubernetes: KubernetesSettings) -> Iterator[Seen]:
    """The admission check: whether it is there and active, and how to get rid of it."""
    if KUEUE not in groups or not kubernetes.admission_check:
        return
    name = kubernetes.admission_check
    try:
        check = api.get(f"/apis/{KUEUE}/v1beta2/admissionchecks/{name}")
        queues = api.get(f"/apis/{KUEUE}/v1beta2/clusterqueues").get("items") or []
    except SchedulerGone:
        yield Seen(
            name="admission check",
            is_ok=False,
            sentence=f"There is no AdmissionCheck {name}.",
            costs="No exact seats under Kueue.",
            fix="Apply docs/how-to/kubernetes/kueue-check, or leave [kubernetes] admission_check empty.",
        )
        return
    except (SchedulerRefused, SchedulerUnavailable):
        return  # said as a missing permission
    named = sorted(one["metadata"]["name"] for one in queues if name in _checks_of(one))
    is_active = any(
        one.get("type") == "Active" and one.get("status") == "True"
        for one in (check.get("status") or {}).get("conditions") or []
    )
    removal = (
        f"To take it out: remove {name} from spec.admissionChecksStrategy of {', '.join(named) or 'its ClusterQueues'}"
        ", then delete the AdmissionCheck."
    )
    yield Seen(
        name="admission check",
        is_ok=is_active or not named,
        sentence=f"AdmissionCheck {name} is {'' if is_active else 'not '}active; it guards {len(named)} ClusterQueues.",
        costs="" if is_active else "Nothing new is admitted in them while no daemon answers.",
        fix=removal if named else f"Name it in the ClusterQueues that are to have exact seats. {removal}",
    )


def _checks_of(queue: Mapping[str, Any]) -> list[str]:
    spec = queue.get("spec") or {}
    strategy = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    return [*(spec.get("admissionChecks") or []), *(one["name"] for one in strategy)]
