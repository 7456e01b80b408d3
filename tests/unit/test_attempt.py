"""What a handler asks of its attempt."""

from __future__ import annotations

from rowlock._attempt import Cancelled


def test_the_signal_to_stop_is_false_until_it_is_set() -> None:
    cancelled = Cancelled()
    assert not cancelled
    assert not cancelled.is_set()
    assert repr(cancelled) == "<Cancelled: not set>"

    cancelled.set("timeout")

    assert cancelled
    assert cancelled.is_set()
    assert repr(cancelled) == "<Cancelled: timeout>"
