"""What `trimtab daemon` reads: one table a section."""

from __future__ import annotations

from trimtab.settings.alertmanager import AlertmanagerSettings
from trimtab.settings.cluster import KubernetesSettings, SimulatedSettings
from trimtab.settings.digest import DigestSettings
from trimtab.settings.disk import DiskSettings
from trimtab.settings.edges import IngestSettings, PeopleSettings, ScrapeSettings, StoreSettings
from trimtab.settings.enrolment import EnrolmentSettings
from trimtab.settings.exposition import MetricsSettings
from trimtab.settings.judgement import DetectSettings, IssueSettings, PlanSettings
from trimtab.settings.log import LogSettings
from trimtab.settings.oncall import OnCallSettings
from trimtab.settings.pair import PairSettings
from trimtab.settings.rollup import RollupSettings
from trimtab.settings.shape import Section
from trimtab.settings.tls import TlsSettings


class DaemonSettings(Section, frozen=True, kw_only=True):
    """What `trimtab daemon` reads."""

    cluster: str = "default"
    """Name of the cluster; every key and label carries it."""
    state_directory: str = "/var/lib/trimtab"
    """Database (if SQLite), tokens, the operator's token."""
    ingest: IngestSettings = IngestSettings()
    enrolment: EnrolmentSettings = EnrolmentSettings()
    people: PeopleSettings = PeopleSettings()
    tls: TlsSettings = TlsSettings()
    store: StoreSettings = StoreSettings()
    disk: DiskSettings = DiskSettings()
    pair: PairSettings = PairSettings()
    rollup: RollupSettings = RollupSettings()
    scrape: ScrapeSettings = ScrapeSettings()
    metrics: MetricsSettings = MetricsSettings()
    detect: DetectSettings = DetectSettings()
    plan: PlanSettings = PlanSettings()
    issue: IssueSettings = IssueSettings()
    oncall: OnCallSettings = OnCallSettings()
    alertmanager: AlertmanagerSettings = AlertmanagerSettings()
    digest: DigestSettings = DigestSettings()
    log: LogSettings = LogSettings()
    simulated: SimulatedSettings | None = None
    kubernetes: KubernetesSettings | None = None
