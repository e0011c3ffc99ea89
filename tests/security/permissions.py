"""The page of what each process may do and why, made from the units and manifests: what they grant, it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent.parent
UNITS = ROOT / "systemd"
MANIFESTS = ROOT / "docs" / "how-to" / "kubernetes"
GRANTS = (
    "User", "StateDirectory", "CacheDirectory", "AmbientCapabilities", "DeviceAllow", "LoadCredential",
    "RestrictAddressFamilies", "PrivateNetwork", "SupplementaryGroups", "ReadWritePaths", "BindReadOnlyPaths",
)  # fmt: skip
"""Directives that give something; the others of a unit take away."""

WHY = {
    "User=trimtab": "no root; owns its state and nothing else",
    "User=trimtab-agent": "no root; owns its spool and nothing else",
    "StateDirectory=trimtab": "/var/lib/trimtab: database, node tokens, the operator's token, its own CA",
    "StateDirectory=trimtab-agent": "/var/lib/trimtab-agent: spool, its credential and key",
    "CacheDirectory=trimtab": "/var/cache/trimtab: scratch",
    "AmbientCapabilities=CAP_SYSLOG": "opens /dev/kmsg, where the kernel says what its GPUs did",
    "AmbientCapabilities=": "none",
    "DeviceAllow=/dev/kmsg r": "reads the kernel's messages; cannot write them",
    "LoadCredential=credentials:/etc/trimtab/credentials.d": "secrets that root keeps; read once a start, by systemd",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6": "reports, the API, what it asks of others; systemd's socket",
    "RestrictAddressFamilies=AF_UNIX": "systemd's socket, a local database; no network",
    "PrivateNetwork=yes": "no network at all",
}
NVIDIA = (
    "asks the driver (NVML) for readings; NVML opens its devices for writing, and is asked nothing that changes a GPU"
)
RULE_WHY = {
    "trimtab-reader": "reads what a snapshot is made of; writes its Events, and asks about tokens and rights",
    "trimtab-own": "its own Lease and the pause switch, in its own namespace",
    "trimtab-actor": "the writes of commands, each fenced to its fields by policy.yaml",
    "trimtab-kueue-check": "the state of its own admission check on a workload",
}

_HEAD = """# Permissions: what each process needs, and why

Made from the units and manifests (`make docs`); a test fails where one of them grants what has no reason here.
What a thief could do with each of these is in [the threat model](threat-model.md).

## On a host
"""
_UNIT = "| Grants | Why |\n|---|---|"
_SERVERS = """
Everything else is taken away: no capability besides those above, a read-only system (`ProtectSystem=strict`), no homes,
no other devices, system calls of `@system-service` alone, no new privileges. `systemd-analyze security UNIT` tells all.

Without /dev/kmsg (`kernel_log = "none"`) an agent sees readings and no XID lines; without a GPU's devices it sees
nothing of it and says so. `trimtab doctor` names what is missing and the line that grants it.

Files: `/etc/trimtab/*.toml` may be read by everybody and hold no secret; `/etc/trimtab/credentials.d` is root's alone
(0700); `operator.token`, `client.toml`, `ca.key` and an agent's key are made with mode 0600.

## Ports
| Port | Who reaches it | Needs |
|---|---|---|
| 9740, people | browsers, verbs, Prometheus, call-backs of pagers | token, session or signature; off loopback TLS |
| 9741, ingest | agents | a node's credential (or join token, or service account); off loopback TLS |
| 9742, an agent's /metrics | Prometheus | loopback by default; off it a token or a list of readers, and TLS |

Outgoing: an agent to its daemons; the daemon to what its settings name (database, cluster API, Alertmanager, pagers,
chats, mail, hooks, exporters). No proxy of the environment is used and no redirect is followed.

## PostgreSQL
```sql
CREATE ROLE trimtab LOGIN PASSWORD '…';          -- no SUPERUSER, no CREATEDB, no CREATEROLE, no REPLICATION
CREATE DATABASE trimtab OWNER trimtab ENCODING 'UTF8' TEMPLATE template0;
```
It owns its one database, because an upgrade changes tables; it creates no role and no extension, and takes advisory
locks for upgrades and for which of two daemons acts. Grafana signs in as a role of its own that reads, and may not read
tokens, sessions and node credentials ([grafana.md](grafana.md)).

## In Kubernetes
"""
_AGENT = """
**trimtab-agent** (DaemonSet): its account may do nothing; its token (audience `trimtab`, bound to pod and node) only
proves where it runs. The container is `privileged`, because the device cgroup lets nothing less open /dev/kmsg; whoever
will not have that sets `kernel_log = "none"` and `privileged: false`, and sees no XID lines. It mounts /dev/kmsg
read-only and one folder of the node for its spool.
"""


def page() -> str:
    """The page, in Markdown."""
    lines = [_HEAD]
    for unit in sorted(UNITS.glob("*.service")):
        lines += [f"**{unit.name}**", "", _UNIT]
        lines += [f"| `{grant}` | {why_of(grant)} |" for grant in _shown(grants(unit))]
        lines.append("")
    lines.append(_SERVERS.strip("\n"))
    for kind, name, rules in roles():
        lines += ["", f"**{name}** ({kind}): {RULE_WHY[name]}.", "", "| May | Of | Why |", "|---|---|---|"]
        lines += [f"| {verbs} | {of} | {why} |" for verbs, of, why in rules]
    lines += ["", _AGENT.strip("\n")]
    return "\n".join(lines).rstrip("\n") + "\n"


def grants(unit: Path) -> list[str]:
    """What a unit gives, in its order."""
    found = re.findall(r"^(\w+)=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    return [f"{name}={value}" for name, value in found if name in GRANTS]


def _shown(given: list[str]) -> list[str]:
    """The driver's devices as one line; what is set to nothing grants nothing."""
    devices = [grant for grant in given if grant.startswith("DeviceAllow=char-nvidia")]
    others = [grant for grant in given if grant not in devices and not grant.endswith("=")]
    names = ", ".join(grant.removeprefix("DeviceAllow=").removesuffix(" rw") for grant in devices)
    return [*others, *([f"DeviceAllow={names} rw"] if devices else [])]


def why_of(grant: str) -> str:
    """The reason; KeyError where nobody gave one."""
    return NVIDIA if grant.startswith("DeviceAllow=char-nvidia") else WHY[grant]


def roles() -> Iterator[tuple[str, str, list[tuple[str, str, str]]]]:
    """Each role of the manifests: its kind, name and rules with the comment beside or above them."""
    for path in sorted(MANIFESTS.glob("*/*.yaml")):
        for text in re.split(r"^---$", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            held = yaml.safe_load(text)
            if held and held.get("kind") in ("Role", "ClusterRole"):
                yield held["kind"], held["metadata"]["name"], _rules(held["rules"], text)


def _rules(rules: list[dict[str, list[str]]], text: str) -> list[tuple[str, str, str]]:
    whys = _comments(text)
    found = []
    for rule in rules:
        verbs = ", ".join(rule["verbs"])
        groups = rule.get("apiGroups", [])
        of = ", ".join(rule.get("resources", rule.get("nonResourceURLs", [])))
        named = f" named {', '.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
        group = f" ({', '.join(group for group in groups if group)})" if any(groups) else ""
        found.append((verbs, f"{of}{group}{named}", next(whys, "")))
    return found


def _comments(text: str) -> Iterator[str]:
    """The comment of each rule: at its end, else the last one above it."""
    above = ""
    for line in text.partition("rules:")[2].splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            above = stripped.lstrip("# ")
        elif stripped.startswith("- "):
            _, mark, own = stripped.partition("  #")
            yield (own.strip() if mark else above).rstrip(".")
