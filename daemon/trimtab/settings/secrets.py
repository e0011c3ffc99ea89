"""Which settings are secrets, how they are shown, and the database's address with its password."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

from trimtab.errors import SettingsError
from trimtab.secrecy import never_show, without_passwords
from trimtab.settings.edges import StoreSettings
from trimtab.settings.load import read_token

PASSWORD_ENVIRONMENT = "TRIMTAB_DATABASE_PASSWORD"
SET = "set"
SECRET_KEYS = frozenset({"oncall.heartbeat_url"})
"""Keys whose value may be a secret itself; every other secret is a file that a key names."""


def shown(key: str, value: object) -> object:
    """A value as people may see it: secrets as `set`, an address without its password."""
    if not isinstance(value, str) or not value:
        return value
    return SET if key in SECRET_KEYS else without_passwords(value, SET)


def database_url(store: StoreSettings) -> str:
    """`store.url` with the password of `store.password_file`, where there is one. Raises SettingsError."""
    password = read_token(store.password_file, environment_name=PASSWORD_ENVIRONMENT)
    parts = urlsplit(store.url)
    if parts.password:
        never_show(parts.password)
    if not password or not parts.scheme.startswith("postgresql"):
        return store.url
    if parts.password:
        raise SettingsError(
            "store.url has a password, and store.password_file gives another. Keep the file and take it out of the URL."
        )
    user, _, place = parts.netloc.rpartition("@")
    if not user:
        raise SettingsError(
            "store.password_file is set and store.url names no user. Write postgresql://USER@HOST/NAME."
        )
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{place}"))
