"""What Grafana is told: two data sources with fixed uids, one folder, and where the dashboards lie."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trimtab.setup.history import Postgres
from trimtab.setup.text import literal, yaml_text

PROVISIONING = "etc/grafana/provisioning"
DASHBOARDS = f"{PROVISIONING}/dashboards/trimtab"
FOLDER, FOLDER_UID = "trimtab", "trimtab"
PROMETHEUS_UID, POSTGRESQL_UID = "trimtab-prometheus", "trimtab-postgresql"
SCRAPE_INTERVAL = "15s"
"""How often trimtab is scraped, for Grafana's $__rate_interval."""


class DataSource(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, rename="camel"):
    """One data source, as Grafana's provisioning and its API take it."""

    name: str
    uid: str
    type: str
    access: str = msgspec.field(default="proxy")
    url: str
    user: str = ""
    json_data: dict[str, object] = {}
    secure_json_data: dict[str, str] = {}
    org_id: int = 1
    is_default: bool = False
    editable: bool = False

    def fields(self) -> dict[str, object]:
        """With what is as usual left out, but for what must be said."""
        said = msgspec.to_builtins(self)
        return {**said, "access": self.access, "orgId": self.org_id, "isDefault": False, "editable": self.editable}


class _DataSources(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    api_version: int = 1
    datasources: list[dict[str, object]]


class _Provider(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    name: str = FOLDER
    org_id: int = 1
    folder: str = FOLDER
    folder_uid: str = FOLDER_UID
    type: str = "file"
    disable_deletion: bool = False
    update_interval_seconds: int = 30
    allow_ui_updates: bool = False
    options: dict[str, object] = msgspec.field(
        default_factory=lambda: {"path": f"/{DASHBOARDS}", "foldersFromFilesStructure": False}
    )


class _Providers(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    api_version: int = 1
    providers: list[_Provider]


def data_sources(*, prometheus_url: str, postgres: Postgres | None) -> list[DataSource]:
    """Prometheus, and PostgreSQL where the history is there."""
    found = [
        DataSource(
            name="trimtab Prometheus",
            uid=PROMETHEUS_UID,
            type="prometheus",
            url=prometheus_url,
            json_data={"httpMethod": "POST", "timeInterval": SCRAPE_INTERVAL},
        )
    ]
    if postgres is not None:
        found.append(_postgresql(postgres))
    return found


def _postgresql(postgres: Postgres) -> DataSource:
    secret = {"password": f"$__file{{{postgres.password_file}}}"} if postgres.password_file else {}
    return DataSource(
        name="trimtab history",
        uid=POSTGRESQL_UID,
        type="grafana-postgresql-datasource",
        url=postgres.address,
        user=postgres.user,
        json_data={"database": postgres.database, "sslmode": postgres.ssl_mode, "maxOpenConns": 5},
        secure_json_data=secret,
    )


def provisioning(sources: list[DataSource], dashboards: Mapping[str, str]) -> Mapping[str, str]:
    """Path -> text of every file that Grafana reads at its start."""
    return {
        f"{PROVISIONING}/datasources/trimtab.yaml": yaml_text(
            msgspec.to_builtins(_DataSources(datasources=[_escaped(source) for source in sources])),
            says="Where Grafana finds trimtab's numbers. Passwords are read from files, never written here.",
        ),
        f"{PROVISIONING}/dashboards/trimtab.yaml": yaml_text(
            msgspec.to_builtins(_Providers(providers=[_Provider()])),
            says="Where Grafana finds trimtab's dashboards; it looks again every 30 s.",
        ),
        **{f"{DASHBOARDS}/{name}": text for name, text in dashboards.items()},
    }


def _escaped(source: DataSource) -> dict[str, object]:
    """Grafana expands `$` in these files: only the reference to the password's file is meant so."""
    said = source.fields()
    plain = {key: value for key, value in said.items() if key != "secureJsonData"}
    escaped: dict[str, object] = _literal(plain)  # type: ignore[assignment]
    return {**escaped, "secureJsonData": said["secureJsonData"]} if source.secure_json_data else escaped


def _literal(value: object) -> object:
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, dict):
        return {key: _literal(one) for key, one in value.items()}
    return value
