"""Grafana's provisioning files as it reads them, strictly: a key that it does not know is an error here."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class DataSource(_Strict, kw_only=True):
    name: str
    type: str
    access: str
    url: str
    uid: str
    org_id: int
    is_default: bool
    editable: bool
    version: int = 0
    user: str = ""
    basic_auth: bool = False
    basic_auth_user: str = ""
    with_credentials: bool = False
    json_data: dict[str, Any] = {}
    secure_json_data: dict[str, str] = {}
    correlations: list[dict[str, Any]] = []


class Deleted(_Strict):
    name: str
    org_id: int


class DataSources(_Strict, kw_only=True):
    api_version: int
    datasources: list[DataSource]
    delete_datasources: list[Deleted] = []


class Options(_Strict):
    path: str
    folders_from_files_structure: bool


class Provider(_Strict):
    name: str
    org_id: int
    folder: str
    folder_uid: str
    type: str
    disable_deletion: bool
    update_interval_seconds: int
    allow_ui_updates: bool
    options: Options


class Providers(_Strict):
    api_version: int
    providers: list[Provider]


def data_sources(text: str) -> list[DataSource]:
    """What a data sources file says."""
    return msgspec.convert(yaml.safe_load(text), DataSources).datasources


def providers(text: str) -> list[Provider]:
    """What a dashboards file says."""
    return msgspec.convert(yaml.safe_load(text), Providers).providers
