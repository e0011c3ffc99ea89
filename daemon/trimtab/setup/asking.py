"""`--grafana-api`: hands what Grafana is to have to a process of its own, and reads what it did.

grafana-client brings a library that replaces urllib3 in the whole interpreter: it never comes into this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

import trimtab
from trimtab.errors import SettingsError
from trimtab.setup import grafana
from trimtab.setup.around import Done, Wishes
from trimtab.setup.files import Act, Change
from trimtab.setup.shipped import Shipped

SECONDS_MAX = 120.0
NO_CLIENT = 3
"""Exit code of the process where grafana-client is not installed."""
_HANDED_ON = ("PATH", "LANG", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""Of our environment, what the other process needs to reach Grafana as this site wants it."""
HOW_TO_INSTALL = (
    "python3 -m venv /opt/trimtab-grafana && URLLIB3_NO_OVERRIDE=1 /opt/trimtab-grafana/bin/pip install "
    "--no-binary urllib3-future 'trimtab[grafana]'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiWishes:
    """Which Grafana, who we are there, and which interpreter has the client."""

    url: str
    token_file: Path
    python: str | None = None
    is_removal: bool = False


class _Told(msgspec.Struct):
    path: str
    act: Act
    why: str = ""


def by_api(api: ApiWishes, wishes: Wishes, shipped: Shipped) -> Done:
    """Make, change or remove folder, data sources and dashboards by Grafana's API. Raises SettingsError."""
    _check(api)
    sources = grafana.data_sources(prometheus_url=wishes.prometheus_url, postgres=wishes.postgres)
    order = {
        "url": api.url,
        "token_file": str(api.token_file),
        "is_dry": wishes.is_dry,
        "is_removal": api.is_removal,
        "folder": {"uid": grafana.FOLDER_UID, "title": grafana.FOLDER},
        "sources": [_source(one) for one in sources],
        "password_file": wishes.postgres.password_file if wishes.postgres else "",
        "dashboards": [
            json.loads(text) for text in shipped.dashboards(has_history=wishes.postgres is not None).values()
        ],
    }
    told = _ask(api, order)
    changes = tuple(Change(path=one.path, act=one.act, why=one.why) for one in told)
    return Done(found=("Grafana",), changes=changes, as_before=wishes.as_before)


def _check(api: ApiWishes) -> None:
    parts = urlsplit(api.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"--grafana-api {api.url}: not an address such as https://grafana.example.")
    if parts.username or parts.password:
        raise SettingsError("--grafana-api: leave the password out of the address; --grafana-token-file has the token.")


def _source(source: grafana.DataSource) -> dict[str, object]:
    said = source.fields()
    return {key: value for key, value in said.items() if key not in ("secureJsonData", "orgId", "editable")}


def _ask(api: ApiWishes, order: dict[str, object]) -> list[_Told]:
    command = [api.python or sys.executable, "-m", "trimtab.setup.push"]
    # The other interpreter may have no trimtab of its own: this one's is enough for it, which imports nothing else.
    environment = {"PYTHONPATH": str(Path(trimtab.__file__).parent.parent), "URLLIB3_NO_OVERRIDE": "1"}
    environment |= {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
    try:
        ran = subprocess.run(
            command, input=json.dumps(order), capture_output=True, text=True, timeout=SECONDS_MAX, env=environment,
            check=False, cwd="/",
        )  # fmt: skip
    except OSError as error:
        raise SettingsError(f"--grafana-python {command[0]}: {error.strerror}.") from error
    except subprocess.TimeoutExpired as error:
        raise SettingsError(f"{api.url} did not answer within {SECONDS_MAX:.0f} s.") from error
    if ran.returncode == NO_CLIENT:
        raise SettingsError(
            f"{command[0]} has no grafana-client. It needs an environment of its own: {HOW_TO_INSTALL}; "
            "then give --grafana-python /opt/trimtab-grafana/bin/python."
        )
    if ran.returncode != 0:
        said = ran.stderr.strip().splitlines()
        raise SettingsError(f"{api.url}: {said[-1] if said else f'exit code {ran.returncode}'}")
    return msgspec.json.decode(ran.stdout, type=list[_Told])
