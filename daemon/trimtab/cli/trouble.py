"""Why the daemon could not be asked, as a sentence that says what to do. Pure: an error in, a sentence out."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from trimtab.cli.place import Place


def sentence_of(error: Exception, place: Place) -> str:
    """What went wrong between here and the daemon."""
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
        ("certificate has expired", "certificate is not yet valid"),
        "The certificate of {url} is out of date, or this host's clock is. Renew the one or set the other.",
    ),
    (
        ("Hostname mismatch", "IP address mismatch", "doesn't match"),
        "The certificate of {url} is for another name than {host}. Use the name that it was made for.",
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed"),
        "The certificate of {url} is not trusted here. Give --ca-file FILE with the CA that signed it.",
    ),
    (
        ("NO_CERTIFICATE_OR_CRL_FOUND", "PEM lib", "no certificate or crl found"),
        "The file given as --ca-file holds no certificate in PEM form.",
    ),
    (
        ("WRONG_VERSION_NUMBER", "wrong version number", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"),
        "{url} does not speak TLS. If the daemon listens without it, write http:// (address from {said_by}).",
    ),
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
