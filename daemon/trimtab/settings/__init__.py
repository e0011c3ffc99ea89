"""Settings of agent and daemon: one TOML file each, read strictly; an unknown key is an error."""

from __future__ import annotations

from trimtab.settings.agent import AgentSettings
from trimtab.settings.alertmanager import AlertmanagerSettings, OthersSettings
from trimtab.settings.cluster import KubernetesSettings, SimulatedSettings
from trimtab.settings.daemon import DaemonSettings
from trimtab.settings.digest import DigestSettings
from trimtab.settings.edges import IngestSettings, PeopleSettings, ScrapeSettings, ScrapeTarget, StoreSettings
from trimtab.settings.enrolment import EnrolmentSettings
from trimtab.settings.exposition import AgentMetricsSettings, MetricsSettings
from trimtab.settings.judgement import DetectSettings, IssueSettings, PlanSettings
from trimtab.settings.load import from_table, load, read_token
from trimtab.settings.oncall import OnCallSettings
from trimtab.settings.pair import PairSettings, pair_trouble
from trimtab.settings.rollup import RollupSettings
from trimtab.settings.tls import TlsSettings

__all__ = [
    "AgentMetricsSettings",
    "AgentSettings",
    "AlertmanagerSettings",
    "DaemonSettings",
    "DetectSettings",
    "DigestSettings",
    "EnrolmentSettings",
    "IngestSettings",
    "IssueSettings",
    "KubernetesSettings",
    "MetricsSettings",
    "OnCallSettings",
    "OthersSettings",
    "PairSettings",
    "PeopleSettings",
    "PlanSettings",
    "RollupSettings",
    "ScrapeSettings",
    "ScrapeTarget",
    "SimulatedSettings",
    "StoreSettings",
    "TlsSettings",
    "from_table",
    "load",
    "pair_trouble",
    "read_token",
]
