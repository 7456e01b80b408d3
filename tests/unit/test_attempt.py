"""What a handler asks of its attempt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from rowlock._cancelled import Cancelled


def test_the_signal_to_stop_is_false_until_it_is_set() -> None:
    cancelled = Cancelled()
    assert not cancelled
    assert not cancelled.is_set()
    assert repr(cancelled) == "<Cancelled: not set>"

    cancelled.set("timeout")

    assert cancelled
    assert cancelled.is_set()
    assert repr(cancelled) == "<Cancelled: timeout>"


def test_all_threads_that_wait_are_woken() -> None:
    cancelled = Cancelled()
    with ThreadPoolExecutor(4) as threads:
        waits = [threads.submit(cancelled.wait, 30) for _ in range(4)]
        cancelled.set("shutdown")

        assert [each.result() for each in waits] == [True] * 4


def test_a_wait_tells_whether_it_is_set() -> None:
    cancelled = Cancelled()
    assert not cancelled.wait(0)

    cancelled.set("lost")

    assert cancelled.wait()
