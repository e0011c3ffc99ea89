"""What Prometheus is told to scrape: every agent that reports and every exporter, in the form of http_sd. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from msgspec import Struct

from trimtab.model.board import Board
from trimtab.model.window import NodeNow, Window
from trimtab.outbound import is_loopback
from trimtab.settings import MetricsSettings, ScrapeTarget
from trimtab.show.api_types import Check

NAMED_MAX = 5
META = "__meta_trimtab_"
"""Labels of a target begin so, as those of other discoveries do; Prometheus drops them after relabelling, so that
none of them renames a series' own `cluster` or `node`."""


class Target(Struct, frozen=True, kw_only=True):
    """One entry of an http_sd answer."""

    targets: tuple[str, ...]
    labels: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What is listed, and why the rest is not: reason -> nodes."""

    targets: tuple[Target, ...] = ()
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    agents: int = 0
    """Agents among the targets; the others are exporters."""
    is_known: bool = True
    """False before the first judgement: the empty list would be no list of agents, and must not be told as one."""


LOOPBACK = "serve /metrics on loopback only"
UNSAID = "do not say where they serve /metrics (an older agent, or metrics_listen is empty)"


def discover(
    window: Window | None,
    board: Board | None,
    *,
    cluster: str,
    settings: MetricsSettings,
    exporters: Sequence[ScrapeTarget] = (),
) -> Discovery:
    """Targets of a moment: agents that are not silent, and the exporters of the settings, silent or not."""
    racks = {row.name: row.rack or "" for row in board.nodes} if board is not None else {}
    silent = {row.name for row in board.nodes if row.is_silent} if board is not None else frozenset()
    scraped = {target.node for target in exporters}
    targets: list[Target] = []
    left_out: dict[str, list[str]] = {}
    for name, now in sorted(window.nodes.items() if window is not None else ()):
        if name in scraped or name in silent or not now.is_expected:
            continue
        why = _why_not(now, settings)
        if why:
            left_out.setdefault(why, []).append(name)
            continue
        targets.append(_target(now.metrics_url, cluster=cluster, node=name, rack=racks.get(name, ""), kind="agent"))
    agents = len(targets)
    targets += [
        _target(one.url, cluster=cluster, node=one.node, rack=racks.get(one.node, ""), kind="exporter")
        for one in exporters
    ]
    return Discovery(
        targets=tuple(targets),
        left_out={why: tuple(names) for why, names in left_out.items()},
        agents=agents,
        is_known=window is not None,
    )


def _why_not(now: NodeNow, settings: MetricsSettings) -> str:
    if not now.metrics_url or not _host(now.metrics_url):
        return UNSAID
    if is_loopback(_host(now.metrics_url)) and not settings.is_loopback_listed:
        return LOOPBACK
    return ""


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.scheme in ("http", "https") and (port is None or port > 0) else ""


def _target(url: str, *, cluster: str, node: str, rack: str, kind: str) -> Target:
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    labels = {
        "__scheme__": parts.scheme,
        "__metrics_path__": parts.path or "/metrics",
        f"{META}cluster": cluster,
        f"{META}node": node,
        f"{META}kind": kind,
    }
    if rack:
        labels[f"{META}rack"] = rack
    return Target(targets=(f"{host}:{port}",), labels=labels)


def discovery_checks(found: Discovery, *, has_gpu_series: bool = True) -> Iterable[Check]:
    """What doctor says of it. No fault while the daemon's page has the GPUs: agents need no scrape then."""
    if not has_gpu_series:
        yield _gpu_series_check(found)
    if not found.is_known:
        sentence = "/sd answers 503 until the first judgement; Prometheus keeps the targets that it has meanwhile."
        yield Check(name="discovery", is_ok=True, sentence=sentence)
        return
    exporters = len(found.targets) - found.agents
    sentence = f"/sd lists {found.agents} agents and {exporters} exporters for Prometheus."
    for why, names in found.left_out.items():
        more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        sentence += f" Left out, since they {why}: {', '.join(names[:NAMED_MAX])}{more}."
    fix = ""
    if LOOPBACK in found.left_out:
        fix = (
            'To scrape agents from elsewhere set metrics_listen = "0.0.0.0:9742" with [metrics] token_file and TLS; '
            "where all run on one host, [metrics] is_loopback_listed = true here."
        )
    yield Check(name="discovery", is_ok=True, sentence=sentence, fix=fix)


def _gpu_series_check(found: Discovery) -> Check:
    """Whether what the daemon's page leaves to the agents is to be had from them."""
    sentence = "The values of GPUs are left off the daemon's /metrics ([metrics] gpu_series = false); agents have them."
    if found.targets or not found.is_known:
        return Check(name="gpu series", is_ok=True, sentence=sentence)
    return Check(
        name="gpu series",
        is_ok=False,
        sentence=f"{sentence} /sd lists none, so Prometheus may see no GPU at all.",
        fix="Let agents be scraped (metrics_listen in agent.toml), or set [metrics] gpu_series = true here.",
    )
