"""Puts the digest together for the daemon: where it is made, and the chore that sends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trimtab.chores import Chore
from trimtab.clock import Clock
from trimtab.errors import SettingsError
from trimtab.model.oncall import Target
from trimtab.model.window import Window
from trimtab.settings import DaemonSettings
from trimtab.show.digest.desk import DigestDesk, zone_of
from trimtab.show.digest.make import DigestSource
from trimtab.show.digest.schedule import DigestPost
from trimtab.store.history import History
from trimtab.store.past import Past

POST_MINUTES = 10


def digest_desk(
    settings: DaemonSettings,
    *,
    history: History,
    past: Past,
    window: Callable[[], Window | None],
    page_url: Callable[[], str],
) -> DigestDesk:
    """Where digests are made. Raises SettingsError for a time zone that is not known."""
    return DigestDesk(
        source=lambda: DigestSource(cluster=settings.cluster, hours=past, facts=history, window=window()),
        zone=zone_of(settings.digest.timezone),
        page_url=page_url,
    )


def digest_chore(
    settings: DaemonSettings, desk: DigestDesk, *, history: History, targets: Mapping[str, Target], clock: Clock
) -> Chore:
    """Sends the digest once it is due. Raises SettingsError for a target that does not exist."""
    for name in settings.digest.targets:
        if name not in targets:
            known = ", ".join(sorted(targets)) or "none"
            raise SettingsError(
                f"digest.targets: there is no target {name!r} under [oncall.targets]. There are: {known}."
            )
    post = DigestPost(settings=settings.digest, desk=desk, notes=history, targets=targets, cluster=settings.cluster)
    return Chore(name="digest", minutes=POST_MINUTES, run=lambda: post.tick(clock.now()))
