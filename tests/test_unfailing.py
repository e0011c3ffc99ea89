"""A log that cannot be written costs lines, and nothing else."""

from __future__ import annotations

import io

from trimtab.unfailing import Unfailing


class Full(io.StringIO):
    """A stream whose disk may be full."""

    is_full = False

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_what_cannot_be_written_is_counted_and_told_once_it_can() -> None:
    stream = Full()
    log = Unfailing(stream)
    log.write("one\n")
    stream.is_full = True
    for _ in range(3):
        log.write("lost\n")
        log.flush()
    stream.is_full = False
    log.write("two\n")
    log.write("three\n")
    assert stream.getvalue().splitlines() == [
        "one",
        "the log could not be written 3 times, lines are missing here: [Errno 28] No space left on device",
        "two",
        "three",
    ]
    assert log.failures_total == 3


def test_a_stream_that_was_closed_ends_nobody() -> None:
    stream = io.StringIO()
    log = Unfailing(stream)
    stream.close()
    log.write("nobody reads it\n")
    log.flush()
    assert log.failures_total >= 1
