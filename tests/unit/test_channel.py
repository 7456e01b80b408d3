"""The line between a supervisor and a worker, one of which may be stopped for long."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from rowlock.cli.channel import Channel, Message

# More than any system keeps of a socket's.
LARGE = "x" * 1_000_000


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """Both ends, neither of which waits for the other."""
    one, other = socket.socketpair()
    one.settimeout(0)
    other.settimeout(0)
    with one, other:
        yield Channel(one), Channel(other)


def heard(end: Channel) -> list[Message]:
    messages: list[Message] = []
    while True:
        try:
            messages += end.receive()
        except BlockingIOError:
            return messages


def test_what_was_told_in_part_is_told_whole_before_the_next(
    ends: tuple[Channel, Channel],
) -> None:
    """Else one that was stopped for a minute would never be understood again."""
    worker, supervisor = ends
    worker.send(first=1)
    with pytest.raises(BlockingIOError):
        worker.send(failed=LARGE)
    assert heard(supervisor) == [{"first": 1}]

    told: list[Message] = []
    while not told:
        told += heard(supervisor)
        with suppress(BlockingIOError):
            worker.send(second=2)
            told += heard(supervisor)

    assert told == [{"failed": LARGE}, {"second": 2}]


def test_what_was_not_told_at_all_is_for_the_sender_to_tell_again(
    ends: tuple[Channel, Channel],
) -> None:
    worker, supervisor = ends
    count = 0
    with suppress(BlockingIOError):
        while True:
            worker.send(number=count)
            count += 1
    assert heard(supervisor) == [{"number": number} for number in range(count)]

    worker.send(number=count)

    assert heard(supervisor) == [{"number": count}]
