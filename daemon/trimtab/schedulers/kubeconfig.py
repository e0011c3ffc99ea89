"""Where the cluster is and who we are there: the pod's service account, else a kubeconfig. Errors name the fix."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2 as httpx
import msgspec
import yaml
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User, UserExec
from lightkube.core.exceptions import ConfigError

from trimtab.errors import SettingsError
from trimtab.schedulers.credentials import GROUP, VERSIONS, PluginAuth
from trimtab.settings import KubernetesSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """One cluster and one account."""

    config: SingleConfig
    source: str
    """`kubeconfig /home/x/.kube/config` or `the pod's service account`."""
    proxy: str = ""
    tls_server_name: str = ""

    @property
    def server(self) -> str:
        """Address of the API."""
        return self.config.cluster.server

    @property
    def credentials(self) -> str:
        """Where the credentials come from, for messages."""
        user = self.config.user
        return f"token file {user.token_file}" if user is not None and user.token_file is not None else self.source

    @property
    def plugin(self) -> UserExec | None:
        """What gives tokens, where nothing else does."""
        user = self.config.user
        return None if user is None or user.token_file is not None or user.token is not None else user.exec


def find_entrance(settings: KubernetesSettings) -> Entrance:
    """The kubeconfig that the settings name, else the pod's own account, else $KUBECONFIG, else ~/.kube/config."""
    if not settings.kubeconfig and not settings.context and _is_in_a_pod():
        try:
            config = KubeConfig.from_service_account(SERVICE_ACCOUNT)
        except (ConfigError, OSError, KeyError) as error:
            raise SettingsError(f"the pod's service account cannot be read: {error}") from error
        return Entrance(config=_with_user(config.get()), source="the pod's service account")
    path, named_by = _path(settings)
    document = _document(path, named_by)
    try:
        loaded = KubeConfig.from_dict(document, fname=path)
        return _entrance(loaded, document, settings.context, path)
    except (ConfigError, KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise SettingsError(f"kubeconfig {path} is not complete: {error!s:.300}; see kubectl config view") from error


def session_parameters(entrance: Entrance, timeout_seconds: float) -> dict[str, Any]:
    """What an HTTP session to it is made with: base_url, verify, auth, proxy, time-outs."""
    parameters = ConnectionParams(
        timeout=httpx.Timeout(timeout_seconds),
        # Proxies of the environment are for clusters out there; as with kubectl, never for this machine.
        trust_env=not _is_loopback(entrance.server),
        proxy=entrance.proxy or None,
    )
    plugin = entrance.plugin
    if plugin is not None and plugin.apiVersion not in [f"{GROUP}/{version}" for version in VERSIONS]:
        known = ", ".join(VERSIONS)
        raise SettingsError(f"{entrance.source}: plugins of {plugin.apiVersion} are not known; we know {known}")
    try:
        found = parameters.httpx_params(entrance.config)
    except ConfigError as error:
        raise SettingsError(f"{entrance.source}: {error}; use a token, a certificate or an exec plugin") from error
    except (OSError, ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"{entrance.source}: certificate-authority, client-certificate or client-key cannot be read: {error}"
        ) from error
    return found if plugin is None else {**found, "auth": PluginAuth(plugin, entrance.source)}


def _is_in_a_pod() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and Path(SERVICE_ACCOUNT, "token").is_file()


def _path(settings: KubernetesSettings) -> tuple[Path, str]:
    if settings.kubeconfig:
        return Path(settings.kubeconfig).expanduser(), "kubernetes.kubeconfig"
    found = os.environ.get("KUBECONFIG", "")
    if os.pathsep in found.strip(os.pathsep):
        raise SettingsError(f"KUBECONFIG names several files ({found}); put the one to use in kubernetes.kubeconfig")
    if found:
        return Path(found.strip(os.pathsep)).expanduser(), "KUBECONFIG"
    return Path(DEFAULT_KUBECONFIG).expanduser(), "neither kubernetes.kubeconfig nor KUBECONFIG is set, so"


def _document(path: Path, named_by: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(
            f"there is no kubeconfig {path} ({named_by}); set kubernetes.kubeconfig to the path of one, or run in a "
            f"pod with a service account"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"kubeconfig {path} ({named_by}) cannot be read: {error!s:.300}") from error
    if not isinstance(document, dict) or not document.get("clusters"):
        raise SettingsError(f"{path} ({named_by}) is no kubeconfig: it names no clusters")
    return {**document, "users": document.get("users") or [], "contexts": document.get("contexts") or []}


def _entrance(loaded: KubeConfig, document: Mapping[str, Any], context: str, path: Path) -> Entrance:
    known = ", ".join(sorted(loaded.contexts)) or "none"
    wanted = context or loaded.current_context
    if not wanted:
        raise SettingsError(f"kubeconfig {path} has no current context; set kubernetes.context to one of: {known}")
    if wanted not in loaded.contexts:
        named = "kubernetes.context" if context else "its current-context"
        raise SettingsError(f"kubeconfig {path} has no context `{wanted}` ({named}); it has: {known}")
    of = loaded.contexts[wanted]
    for section, name in (("clusters", of.cluster), ("users", of.user)):
        if name and name not in getattr(loaded, section):
            raise SettingsError(
                f"context `{wanted}` of kubeconfig {path} names `{name}`, which {section} does not have"
            )
    config = _with_user(loaded.get(wanted))
    server = urlsplit(config.cluster.server)
    if server.scheme not in ("http", "https") or not server.hostname:
        raise SettingsError(f"server `{config.cluster.server}` in kubeconfig {path} is no http(s) address")
    raw: Mapping[str, Any] = next(one["cluster"] for one in document["clusters"] if one["name"] == of.cluster)
    return Entrance(
        config=config,
        source=f"kubeconfig {path}",
        proxy=str(raw.get("proxy-url") or ""),
        tls_server_name=str(raw.get("tls-server-name") or ""),
    )


def _with_user(config: SingleConfig | None) -> SingleConfig:
    if config is None:
        raise ConfigError("no context")
    user = config.user or User()
    if user.token_file is not None:
        user = msgspec.structs.replace(user, token_file=str(config.abs_file(user.token_file)))
    return config._replace(user=user)


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
