"""`trimtab doctor --cluster`: what the cluster offers and lets this account do, and what each missing thing costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from trimtab.errors import SettingsError
from trimtab.schedulers.survey import Seen, survey
from trimtab.settings import DaemonSettings, KubernetesSettings, load
from trimtab.show.api_types import Check


def cluster_checks(settings_file: Path | None) -> Iterable[Check]:
    """All that was looked at. Without a file: the cluster of $KUBECONFIG, in the default mode."""
    settings = load(settings_file, DaemonSettings) if settings_file else DaemonSettings(kubernetes=KubernetesSettings())
    if settings.kubernetes is None:
        raise SettingsError(f"{settings_file} has no [kubernetes]: this daemon reads no cluster.")
    return tuple(_look(settings))


def _look(settings: DaemonSettings) -> Iterator[Check]:
    try:
        from trimtab.schedulers.connect import connect  # noqa: PLC0415 - needs the [daemon] extra
    except ModuleNotFoundError as error:
        raise SettingsError(f"{error.name} is not installed: pip install 'trimtab[daemon]'.") from error
    api = connect(settings.kubernetes or KubernetesSettings())
    try:
        for one in survey(api, settings):
            yield _check(one)
    finally:
        api.close()


def _check(seen: Seen) -> Check:
    sentence = f"{seen.sentence} {seen.costs}".strip()
    return Check(name=seen.name, is_ok=seen.is_ok, sentence=sentence, fix=seen.fix)
