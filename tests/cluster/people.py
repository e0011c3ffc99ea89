"""People and bad luck at random against a whole daemon in mode act, and what must hold whatever they do.

Everything that a person does is done with the resourceVersion that they saw, so that it is always clear whose it is.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.cluster import objects, owed
from tests.cluster.client import ApiError, Json, wait_for
from tests.cluster.whole import Whole
from tests.system.processes import eventually

RACKS, NODES_PER_RACK = 2, 5
CORDONED_MAX, MOVES_MAX, BROKEN_MAX, JOBS_MAX = 4, 2, 8, 16
GUARDED = "guarded"
SETTINGS = f"""\
[issue]
mode = "act"
breaker_cordons = 100
settle_seconds_max = 20
hold_seconds_max = 20
retry_seconds = 5
missed_quiet_seconds = 2
[plan]
interval_seconds = 0.5
spares_kept = 0
moves_max = {MOVES_MAX}
cordoned_ratio_max = 1.0
cordoned_max = {CORDONED_MAX}
cordoned_ratio_max_per_pool = 1.0
cordoned_ratio_max_per_rack = 1.0
cordons_per_hour_max = 1000
moves_per_hour_max = 1000
is_finding_needed_to_make_room = false
"""
BY_HAND = "kubectl"


class People:
    """One run: `step` does something at random and checks; `end` lets it come to rest and checks what is left."""

    def __init__(self, whole: Whole, seed: int) -> None:
        self.whole, self.space, self.client = whole, whole.space, whole.space.client
        self.random = Random(seed)
        self.done: list[str] = []
        self.closed_by_hand: set[str] = set()
        self.vetoed: set[str] = set()
        self.broken: set[str] = set()
        self.held_by_hand: set[str] = set()
        self.suspended_by_hand: set[str] = set()
        self.jobs: dict[str, str | None] = {}
        """Job -> its queue."""
        self.number = 0
        self.acts: dict[str, Callable[[], str | None]] = {
            "cordon": self._cordon,
            "uncordon": self._uncordon,
            "break": self._break,
            "add job": self._add,
            "delete job": self._delete,
            "suspend job": self._suspend,
            "quota": self._quota,
            "hold queue": self._hold,
            "open queue": self._open,
            "scale": self._scale,
            "pod dies": self._kill_pod,
            "kill daemon": self._kill_daemon,
        }
        self.weights = [2, 2, 4, 9, 3, 1, 1, 1, 3, 2, 2, 1]

    def begin(self) -> None:
        """Work of every kind, some of it under a disruption budget, and the daemon."""
        space = self.space
        space.add_racks(racks=RACKS, nodes_per_rack=NODES_PER_RACK)
        for name in ("web", "api"):
            space.deployment(name, replicas=2, gpus=2)
            budget = objects.disruption_budget(name, space.namespace, labels={"app": name}, minAvailable=1)
            space.client.create("poddisruptionbudgets", budget)
            space.wait_running(name, 2)
        space.run_gang(GUARDED, queue=None, pods=2, gpus=4, pod_labels={"app": GUARDED})
        never = objects.disruption_budget(GUARDED, space.namespace, labels={"app": GUARDED}, maxUnavailable=0)
        space.client.create("poddisruptionbudgets", never)
        self.guarded = {one["metadata"]["uid"] for one in space.pods(GUARDED)}
        self.whole.up()

    def step(self) -> str:
        """One act, one beat of the daemon, one look at all that must hold. What was done."""
        while True:
            name = self.random.choices(list(self.acts), self.weights)[0]
            try:
                said = self.acts[name]()
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
                said = None  # the daemon or a controller was quicker: nothing was done
            if said is not None:
                break
        self.done.append(said)
        self._beat()
        self.check()
        return said

    def check(self) -> None:
        """What must hold at every moment."""
        nodes = {one["metadata"]["name"]: one for one in self.client.list("nodes")}
        ours = [name for name in self.space.nodes if _is_ours(nodes[name])]
        assert len(ours) <= CORDONED_MAX, self._story(f"{len(ours)} nodes are cordoned by us: {ours}")
        for name in self.closed_by_hand:
            assert nodes[name]["spec"].get("unschedulable"), self._story(f"a person's cordon of {name} was lifted")
        for name in self.vetoed - self.closed_by_hand:
            assert not nodes[name]["spec"].get("unschedulable"), self._story(f"{name} was opened by a person")
        for name in self.held_by_hand:
            policy = self.client.get("clusterqueues", name)["spec"].get("stopPolicy")
            assert policy == "Hold", self._story(f"a person's Hold of {name} was lifted")
        for name in self.suspended_by_hand:
            spec = self.client.get("jobs", name, self.space.namespace)["spec"]
            assert spec.get("suspend"), self._story(f"a person's stop of {name} was undone")
        alive = {one["metadata"]["uid"] for one in self.space.pods(GUARDED)}
        assert alive == self.guarded, self._story("a pod whose disruption budget allows none was stopped")
        moving = [one for one in self.whole.daemon.board().commands if one.command.state.is_begun]
        victims = sum(1 for one in moving for move in one.command.recommendation.moves if move.before)
        assert victims <= MOVES_MAX, self._story(f"{victims} workloads are moved at once")

    def end(self) -> None:
        """People open what they closed for work to go on, and the daemon comes to rest with nothing left over."""
        for name in list(self.held_by_hand):
            self.client.patch("clusterqueues", name, {"spec": {"stopPolicy": "None"}}, fieldManager=BY_HAND)
            self.held_by_hand.discard(name)
        rest = lambda: self._story("it does not come to rest")  # noqa: E731
        eventually(lambda: self._is_at_rest() or None, seconds=120.0, said=rest)
        self.check()
        code, out, err = self.whole.verb("release", "--all", "--reason", "the end of the run", "--wait")
        assert (code, err) == (0, ""), self._story(out)
        assert owed.left_of_ours(self.space) == [], self._story("something of ours is left")
        left = [one for one in owed.stopped(self.space) if one.split()[0] not in self.suspended_by_hand]
        assert left == [], self._story("something was left stopped")
        self.check()

    def _is_at_rest(self) -> bool:
        """Nothing under way, and nothing of ours but what is to last."""
        begun = [one for one in self.whole.daemon.board().commands if one.command.state.is_begun]
        return not begun and not owed.left_of_ours(self.space, but_lasting=True)

    def _story(self, what: str) -> str:
        return "\n".join([what, *(f"{number}. {one}" for number, one in enumerate(self.done, 1)), self.whole.told()])

    def _beat(self) -> None:
        """Let the daemon beat once more."""
        before = self._beats()
        eventually(lambda: self._beats() > before or None, seconds=90.0, said=self.whole.told)

    def _beats(self) -> float:
        return self.whole.metrics("trimtab_beats_total").get('beat="rebalance"', 0.0)

    # --- what people do

    def _node(self, *, is_closed: bool) -> Json | None:
        nodes = [one for one in self.client.list("nodes") if one["metadata"]["name"] in self.space.nodes]
        found = [one for one in nodes if bool(one["spec"].get("unschedulable")) is is_closed]
        return self.random.choice(found) if found else None

    def _switch(self, node: Json, *, is_closed: bool) -> None:
        seen = {"resourceVersion": node["metadata"]["resourceVersion"]}
        body = {"metadata": seen, "spec": {"unschedulable": is_closed or None}}
        self.client.patch("nodes", node["metadata"]["name"], body, fieldManager="kubectl-cordon")

    def _cordon(self) -> str | None:
        node = self._node(is_closed=False)
        if node is None or len(self.closed_by_hand) >= 2:
            return None
        self._switch(node, is_closed=True)
        self.closed_by_hand.add(node["metadata"]["name"])
        return f"cordon {node['metadata']['name']}"

    def _uncordon(self) -> str | None:
        node = self._node(is_closed=True)
        if node is None:
            return None
        name = node["metadata"]["name"]
        self._switch(node, is_closed=False)
        if name in self.closed_by_hand:
            self.closed_by_hand.discard(name)
            return f"uncordon {name}, which a person had closed"
        self.vetoed.add(name)
        return f"uncordon {name}, which trimtab had closed"

    def _break(self) -> str | None:
        well = [one for one in self.space.nodes if one not in self.broken]
        if len(self.broken) >= BROKEN_MAX:
            return None
        node = self.random.choice(well)
        self.broken.add(node)
        self.whole.reporter.break_gpu(node, self.random.randrange(8))
        return f"GPU lost on {node}"

    def _add(self) -> str | None:
        if len(self.jobs) >= JOBS_MAX:
            return None
        self.number += 1
        name, queue = f"j{self.number}", self.random.choice(["tas", "flat", None])
        pods, gpus = self.random.choice([(1, 1), (1, 2), (1, 4), (1, 8), (2, 4), (2, 8)])
        marks = {"can_replace_pods": True, "annotations": {"trimtab/replaceable-pods": "true"}}
        self.space.gang(name, queue=queue, pods=pods, gpus=gpus, **(marks if self.random.random() < 0.5 else {}))
        self.jobs[name] = queue
        return f"add {name}: {pods} × {gpus} in {queue}"

    def _job(self) -> str | None:
        return self.random.choice(sorted(self.jobs)) if self.jobs else None

    def _delete(self) -> str | None:
        name = self._job()
        if name is None:
            return None
        self.client.delete("jobs", name, self.space.namespace, propagation="Background")
        del self.jobs[name]
        self.suspended_by_hand.discard(name)
        return f"delete {name}"

    def _suspend(self) -> str | None:
        """Of a plain job alone: Kueue's are suspended and resumed by Kueue."""
        plain = [name for name, queue in self.jobs.items() if queue is None and name not in self.suspended_by_hand]
        if not plain:
            return None
        job = self.client.get("jobs", self.random.choice(plain), self.space.namespace)
        name = job["metadata"]["name"]
        if job["spec"].get("suspend"):
            return None  # ours at this moment: a person would see that it is stopped
        body = {"metadata": {"resourceVersion": job["metadata"]["resourceVersion"]}, "spec": {"suspend": True}}
        self.client.patch("jobs", name, body, self.space.namespace, fieldManager=BY_HAND)
        self.suspended_by_hand.add(name)
        return f"suspend {name}"

    def _queue(self) -> Json:
        name = f"{self.space.namespace}-{self.random.choice(['tas', 'flat'])}"
        return self.client.get("clusterqueues", name)

    def _quota(self) -> str:
        queue = self._queue()
        gpus = self.random.choice([8, 24, 96])
        groups = queue["spec"]["resourceGroups"]
        groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = str(gpus)
        seen = {"resourceVersion": queue["metadata"]["resourceVersion"]}
        body = {"metadata": seen, "spec": {"resourceGroups": groups}}
        self.client.patch("clusterqueues", queue["metadata"]["name"], body, fieldManager=BY_HAND)
        return f"quota of {queue['metadata']['name']} is {gpus}"

    def _hold(self) -> str | None:
        queue = self._queue()
        name = queue["metadata"]["name"]
        if queue["spec"].get("stopPolicy", "None") != "None":
            return None
        seen = {"resourceVersion": queue["metadata"]["resourceVersion"]}
        body = {"metadata": seen, "spec": {"stopPolicy": "Hold"}}
        self.client.patch("clusterqueues", name, body, fieldManager=BY_HAND)
        self.held_by_hand.add(name)
        return f"hold {name}"

    def _open(self) -> str | None:
        if not self.held_by_hand:
            return None
        name = self.random.choice(sorted(self.held_by_hand))
        self.client.patch("clusterqueues", name, {"spec": {"stopPolicy": "None"}}, fieldManager=BY_HAND)
        self.held_by_hand.discard(name)
        return f"open {name}"

    def _scale(self) -> str:
        name, replicas = self.random.choice(["web", "api"]), self.random.choice([1, 2, 3])
        self.client.patch("deployments", name, {"spec": {"replicas": replicas}}, self.space.namespace)
        return f"scale {name} to {replicas}"

    def _kill_pod(self) -> str | None:
        pods = [one["metadata"] for one in self.space.pods() if one["metadata"]["uid"] not in self.guarded]
        if not pods:
            return None
        pod = self.random.choice(sorted(pods, key=lambda one: one["name"]))
        self.client.delete("pods", pod["name"], self.space.namespace, grace_seconds=0)
        return f"{pod['name']} dies"

    def _kill_daemon(self) -> str:
        self.whole.daemon.kill()
        self.whole.again()
        wait_for(lambda: self.whole.daemon.board().why_not_written is None, "the daemon has its Lease again")
        return "kill -9 of the daemon"


def _is_ours(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable")) and any("cordon" in one.get("what", ()) for one in owed.holds(node))
