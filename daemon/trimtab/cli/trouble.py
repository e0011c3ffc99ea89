"""Why the daemon could not be asked, as a sentence that says what to do. Pure: an error in, a sentence out."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from trimtab import handshakes
from trimtab.cli.place import Place

KEYS = handshakes.Keys(address="--url", ca="--ca-file", is_daemon=True)


def sentence_of(error: Exception, place: Place) -> str:
    """What went wrong between here and the daemon."""
    parts = urlsplit(place.url)
    trouble = handshakes.trouble_of(error, is_tls=parts.scheme == "https")
    if trouble is not None and trouble is not handshakes.Trouble.RESET:
        said = handshakes.sentence_of(error, url=place.url, keys=KEYS, ca_file=place.ca_file or "")
        return f"{said} (The address is from {place.said_by}.)"
    said = " ".join(str(one) for one in _chain(error))
    for signs, sentence in _SIGNS:
        if any(sign in said for sign in signs):
            return sentence.format(url=place.url, host=urlsplit(place.url).hostname, said_by=place.said_by)
    return (
        f"The daemon at {place.url} does not answer. Is it running? `trimtab doctor` looks further. "
        f"(The address is from {place.said_by}.)"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


# The first that is found in the error's texts; what OpenSSL and the resolver say has been the same for years.
_SIGNS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (
            "Name or service not known",
            "Temporary failure in name resolution",
            "nodename nor servname",
            "NameResolution",
        ),
        "There is no host {host}: its name is not known here (address from {said_by}).",
    ),
    (
        ("RemoteDisconnected", "Connection aborted", "Connection reset"),
        "{url} took the connection and hung up. If the daemon speaks TLS, write https:// (address from {said_by}).",
    ),
    (
        ("timed out", "Read timed out"),
        "The daemon at {url} did not answer in time. Is a firewall between here and there? (Address from {said_by}.)",
    ),
)
