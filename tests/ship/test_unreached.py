"""Why a daemon was not reached, in a sentence that says what to do."""

from __future__ import annotations

import ssl

import pytest

from trimtab.ship.unreached import unreached

URL = "https://trimtab.example:9741"


def mismatch() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed: Hostname mismatch")
    error.verify_code = 62
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (mismatch(), "is for another name than trimtab.example. Write a name that it is for in daemon_urls"),
        (mismatch(), "or add trimtab.example to tls.names there and run `trimtab ca renew`"),
        (ConnectionRefusedError(111, "Connection refused"), f"{URL} is out of reach: Connection refused."),
        (TimeoutError("timed out"), f"{URL} is out of reach: timed out."),
    ],
)
def test_it_is_said_without_the_librarys_words(error: OSError, said: str) -> None:
    sentence = unreached(error, url=URL)
    assert said in sentence
    assert "Errno" not in sentence
    assert "_ssl.c" not in sentence
