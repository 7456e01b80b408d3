"""SIGHUP, step by step, with processes that do nothing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from rowlock.cli.child import Child
from rowlock.cli.replacing import Replacing
from rowlock.cli.slot import Slot


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Child]]:
    """Two children of this process, which sleep."""
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(sys, "orig_argv", sleeps)
    children = [Child(), Child()]
    yield children
    for child in children:
        child.kill()
        os.waitpid(child.pid, 0)
        child.died(-signal.SIGKILL)


def test_a_successor_for_which_there_is_no_room_is_started_when_there_is(
    children: list[Child],
) -> None:
    old, new = children
    slot = Slot(0.0)
    slot.child = old
    room = iter([None, new])
    replacing = Replacing([slot], lambda: next(room))
    replacing.begin()

    replacing.turn(0.0)
    assert slot.successor is None
    replacing.turn(0.0)

    assert slot.successor is new


def test_where_no_worker_was_there_none_has_been_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slot = Slot(9.0)
    replacing = Replacing([slot], lambda: None)
    with caplog.at_level("INFO", "rowlock.cli"):
        replacing.begin()
        replacing.turn(0.0)
        replacing.turn(0.0)

    assert slot.is_due(0.0)
    assert caplog.messages[-1] == (
        "No worker was there to be replaced: those that start are new."
    )
