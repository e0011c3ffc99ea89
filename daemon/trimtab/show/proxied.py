"""Single sign-on by the headers of a proxy: believed from listed peers only, whoever else sends them.

Knows nothing of HTTP libraries; the door asks it.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trimtab.errors import SettingsError
from trimtab.model.people import Role
from trimtab.settings import PeopleSettings, read_token

SECRET_HEADER = "X-Trimtab-Proxy-Secret"
ANYBODY = "*"
"""The group in `proxy_roles` that everybody is in whom the proxy signed in."""

_NAME = re.compile(r"[\w.@+-]{1,64}")
_HEADER = re.compile(r"[A-Za-z0-9-]+")

Headers = Callable[[str], Sequence[str]]
"""All values of a header, as they came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxied:
    """Somebody whom a listed proxy vouches for; `role` None = none of their groups has one."""

    name: str
    role: Role | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forged:
    """Headers that only a listed proxy may send, and why these are not believed."""

    why: str


class Proxies:
    """Which peers may say who somebody is, and what the groups that they tell stand for."""

    def __init__(
        self,
        *,
        peers: Sequence[str] = (),
        user_header: str = "X-Forwarded-User",
        groups_header: str = "X-Forwarded-Groups",
        roles: Mapping[str, Role] | None = None,
        secret: str = "",
    ) -> None:
        """Raises SettingsError for a peer that is no address or network, or a header that cannot be one."""
        self._networks = tuple(_network(peer) for peer in peers)
        self._user_header = _header(user_header, "people.proxy_user_header")
        self._groups_header = _header(groups_header, "people.proxy_groups_header") if groups_header else ""
        self._roles = dict(roles or {})
        self._secret = secret
        if self._networks and not self._roles:
            raise SettingsError(
                'people.proxy_peers is set and nobody would have a role. Say which, such as [people.proxy_roles] "*" = '
                '"viewer".'
            )

    def is_listed(self, peer: str) -> bool:
        """Whether this address is one of the proxies'."""
        address = _address(peer)
        return address is not None and any(address in network for network in self._networks)

    def who(self, peer: str, headers: Headers) -> Proxied | Forged | None:
        """Whom the request is from by its proxy's word; None where there is no such word."""
        users, groups = headers(self._user_header), self._groups(headers)
        if not users and not groups:
            return None
        if not self.is_listed(peer):
            return Forged(why=f"{self._user_header} came from {peer or 'an unknown address'}, which is no listed proxy")
        if self._secret and not self._knows_secret(headers):
            return Forged(why=f"{self._user_header} came from {peer} without the proxy's secret ({SECRET_HEADER})")
        if not users:
            return None
        # A proxy that appends to what the client sent, where it should have replaced it, must not be believed.
        if len(users) > 1:
            return Forged(why=f"{self._user_header} came {len(users)} times: the proxy at {peer} does not strip it")
        name = users[0].strip()
        if not name:
            return None
        # Made fit by leaving characters out, `alice, bob` would be a third person whom nobody signed in.
        if not _NAME.fullmatch(name):
            return Forged(why=f"{self._user_header} from the proxy at {peer} holds no clean name: {name[:64]!r}")
        return Proxied(name=name, role=self._role(groups))

    def client(self, peer: str, headers: Headers) -> str:
        """The address that a listed proxy speaks for: the last in X-Forwarded-For that is no proxy itself."""
        if not self.is_listed(peer):
            return peer
        told = [one.strip() for value in headers("X-Forwarded-For") for one in value.split(",")]
        for one in reversed(told):
            if _address(one) is None:
                break
            if not self.is_listed(one):
                return one
        return peer

    def _groups(self, headers: Headers) -> Sequence[str]:
        """None where the proxy tells no groups: whatever came under any name would be a client's own word."""
        return headers(self._groups_header) if self._groups_header else ()

    def _knows_secret(self, headers: Headers) -> bool:
        given = headers(SECRET_HEADER)
        return len(given) == 1 and hmac.compare_digest(given[0].encode(), self._secret.encode())

    def _role(self, values: Sequence[str]) -> Role | None:
        """The highest role that any of the groups has."""
        groups = {ANYBODY, *(one.strip() for value in values for one in value.split(","))}
        found = [role for group, role in self._roles.items() if group in groups]
        return next((role for role in (Role.ADMIN, Role.OPERATOR, Role.VIEWER) if role in found), None)


def proxies_of(settings: PeopleSettings) -> Proxies:
    """The proxies that the settings list. Raises SettingsError."""
    return Proxies(
        peers=settings.proxy_peers,
        user_header=settings.proxy_user_header,
        groups_header=settings.proxy_groups_header,
        roles={group: Role(role) for group, role in settings.proxy_roles.items()},
        secret=read_token(settings.proxy_secret_file, environment_name="TRIMTAB_PROXY_SECRET") or "",
    )


def _network(peer: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(peer, strict=False)
    except ValueError as error:
        raise SettingsError(
            f"people.proxy_peers: {peer!r} is no address and no network. Write 10.0.0.7 or 10.0.0.0/24."
        ) from error


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _header(name: str, key: str) -> str:
    if not _HEADER.fullmatch(name):
        raise SettingsError(f"{key}: {name!r} is no name of a header. Write one such as X-Forwarded-User.")
    return name
