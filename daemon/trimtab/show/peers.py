"""Addresses and networks that may read without a token. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from trimtab.errors import SettingsError


class Peers:
    """A list of addresses and networks; `in` says whether a peer is on it."""

    def __init__(self, allowed: Iterable[str], *, key: str) -> None:
        """Raises SettingsError that names the key."""
        self._key = key
        self.allow(allowed)

    def allow(self, allowed: Iterable[str]) -> None:
        """These and no others from now on. Raises SettingsError that names the key; the list is then as before."""
        try:
            self._networks = [ipaddress.ip_network(one, strict=False) for one in allowed]
        except ValueError as error:
            said = f"{self._key}: {error}. Write an address or a network, such as 10.20.0.0/16."
            raise SettingsError(said) from error

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, peer: object) -> bool:
        try:
            address = ipaddress.ip_address(str(peer).strip("[]").partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address.version == network.version and address in network for network in self._networks)
