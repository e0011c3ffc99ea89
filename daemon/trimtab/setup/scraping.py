"""How Prometheus reaches daemon and agents: as asked or as the daemon's settings say; what only a person knows."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from trimtab.settings import DaemonSettings
from trimtab.setup.asked import Asked
from trimtab.setup.prometheus import Scraped

READER = "prometheus"
"""The user that Debian's Prometheus runs as."""


def daemon_url(settings: DaemonSettings) -> str:
    """How a program on this host reaches the daemon."""
    host, _, port = settings.people.listen.rpartition(":")
    reach = "127.0.0.1" if host in ("", "0.0.0.0", "[::]") else host
    return (
        f"{'https' if settings.people.certificate_file or settings.people.own_certificate else 'http'}://{reach}:{port}"
    )


def scraped_of(settings: DaemonSettings, asked: Asked) -> Scraped:
    """Addresses and files that Prometheus is told."""
    own = settings.people.metrics_token_file
    return Scraped(
        daemon_url=(asked.daemon_url or daemon_url(settings)).rstrip("/"),
        token_file=own if asked.metrics_token_file is None else asked.metrics_token_file,
        ca_file=asked.ca_file or "",
        agents_token_file=asked.agents_token_file or "",
    )


def unreadable(scraped: Scraped, root: Path) -> Iterator[str]:
    """A line for each file that Prometheus's user cannot read, as far as this host can tell."""
    for what, path in (
        ("the metrics token", scraped.token_file),
        ("the agents' token", scraped.agents_token_file),
        ("the authority", scraped.ca_file),
    ):
        if path and not may_read(root / path.lstrip("/"), root):
            yield (
                f"User {READER} cannot read {what} in {path}: let it, or make a copy that it can read and name that "
                f"({_OPTIONS[what]})."
            )


def unknown(scraped: Scraped, asked: Asked) -> Iterator[str]:
    """What cannot be known here; for the run that made or changed the file."""
    if scraped.daemon_url.startswith("https:") and asked.ca_file is None:
        yield (
            "Where Prometheus does not trust who signed the daemon's certificate: trimtab setup --ca-file FILE; "
            f"where it is for another name than in {scraped.daemon_url}: --daemon-url URL."
        )
    if asked.agents_token_file is None:
        yield "Where agents ask for a token (metrics token_file in agent.toml): trimtab setup --agents-token-file FILE."


_OPTIONS = {
    "the metrics token": "--metrics-token-file",
    "the agents' token": "--agents-token-file",
    "the authority": "--ca-file",
}


def may_read(path: Path, root: Path) -> bool:
    """Whether Prometheus's user may read a file, by the modes of it and of the folders that lead there."""
    user, groups = _reader()
    folders = [one for one in path.parents if one.is_relative_to(root) and one != root]
    try:
        return all(_has(one.stat(), 0o1, user, groups) for one in folders) and _has(path.stat(), 0o4, user, groups)
    except OSError:  # not there, or we may not look ourselves
        return False


def _has(found: os.stat_result, bit: int, user: int | None, groups: frozenset[int]) -> bool:
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == user:
        return bool(mode & bit << 6)
    return bool(mode & (bit << 3 if found.st_gid in groups else bit))


def _reader() -> tuple[int | None, frozenset[int]]:
    try:
        entry = pwd.getpwnam(READER)
        return entry.pw_uid, frozenset(os.getgrouplist(READER, entry.pw_gid))
    except KeyError:
        return None, frozenset()
