"""PromQL as these dashboards write it: every series by its variables, and each GPU once, however many scrape it.

The agents and the daemon both export what is known of a GPU. Where both are scraped each series comes twice, with other
`instance` and `job` labels: so nothing is summed before `max by (cluster, node, gpu)` has made one of them.
"""

from __future__ import annotations

CLUSTER = 'cluster=~"$cluster"'
NODE = f'{CLUSTER}, node=~"$node"'
GPU = f'{NODE}, gpu=~"$gpu"'
INSTANCE = 'instance=~"$instance"'
BY_GPU, BY_NODE = "cluster, node, gpu", "cluster, node"


def gpu(name: str, more: str = "", *, where: str = GPU, by: str = BY_GPU) -> str:
    """A metric of whole GPUs (`gi=""`: not of their MIG instances), each once."""
    return f"max by ({by}) (trimtab_gpu_{name}{{{where}, {_whole(more)}}})"


def gpu_rate(name: str, more: str = "", *, where: str = GPU, by: str = BY_GPU) -> str:
    """How fast a counter of whole GPUs grows, each once."""
    return f"max by ({by}) (rate(trimtab_gpu_{name}{{{where}, {_whole(more)}}}[$__rate_interval]))"


def gpu_increase(name: str, more: str = "", *, where: str = GPU, by: str = BY_GPU) -> str:
    """By how much a counter of whole GPUs has grown over the time shown, each once."""
    return f"max by ({by}) (increase(trimtab_gpu_{name}{{{where}, {_whole(more)}}}[$__range]))"


def indexed(expression: str, *, where: str = GPU) -> str:
    """The same, with the GPU's index on its node beside its UUID, for legends that a person can read."""
    info = f"max by ({BY_GPU}, index) (trimtab_gpu_info{{{where}}})"
    return f"{expression} * on ({BY_GPU}) group_left (index) {info}"


def of_job(expression: str) -> str:
    """Only the GPUs that the chosen job holds."""
    return f"{expression} and on ({BY_GPU}) " + holders('workload="$workload"')


def holders(more: str = "", *, by: str = BY_GPU) -> str:
    """1 for each GPU that is held; `by` may add its holder's `workload` and `queue`."""
    return f"max by ({by}) (trimtab_gpu_job_info{{{_both(CLUSTER, _whole(more))}}})"


def by_holder(label: str, expression: str, more: str = "") -> str:
    """A value of GPUs with their holders' `label`; a GPU that several hold counts for each of them."""
    held = holders(more, by=f"{BY_GPU}, {label}")
    return f"{held} * on ({BY_GPU}) group_left () {expression}"


def node(name: str, more: str = "", *, where: str = NODE, by: str = BY_NODE) -> str:
    """A metric of nodes, each once."""
    return f"max by ({by}) (trimtab_node_{name}{{{_both(where, more)}}})"


def cluster(name: str, more: str = "", *, by: str = "cluster") -> str:
    """A metric of whole clusters; `by` names what else tells its series apart."""
    return f"max by ({by}) (trimtab_{name}{{{_both(CLUSTER, more)}}})"


def agents(name: str, *, by: str = BY_NODE) -> str:
    """A metric of agents themselves."""
    return f"max by ({by}) (trimtab_agent_{name}{{{NODE}}})"


def agents_rate(name: str, *, by: str = BY_NODE) -> str:
    """How fast a counter of agents grows."""
    return f"max by ({by}) (rate(trimtab_agent_{name}{{{NODE}}}[$__rate_interval]))"


def own(name: str, more: str = "") -> str:
    """A metric of the daemon itself."""
    return f"trimtab_{name}{{{_both(INSTANCE, more)}}}"


def own_rate(name: str, more: str = "") -> str:
    """How fast a counter of the daemon itself grows."""
    return f"rate({own(name, more)}[$__rate_interval])"


def _both(where: str, more: str) -> str:
    return f"{where}, {more}" if more else where


def _whole(more: str) -> str:
    return f'gi="", {more}' if more else 'gi=""'
