"""
What a test of your tasks needs.

`isolated` puts an app on a database of the test's own, `inline` runs each job where it
is enqueued, `drain` runs what is due, `assert_enqueued` and `refute_enqueued` look at
what was enqueued, and `FakeClock` is a clock that is moved. The fixtures for pytest are
made of these.
"""

from __future__ import annotations

from rowlock.testing._bench import HandlerFailed, Ran
from rowlock.testing._clock import FakeClock
from rowlock.testing._drain import Drained, drain, drain_sync
from rowlock.testing._expect import (
    assert_enqueued,
    assert_enqueued_sync,
    refute_enqueued,
    refute_enqueued_sync,
)
from rowlock.testing._inline import inline
from rowlock.testing._isolate import fresh_database, isolated

__all__ = [
    "Drained",
    "FakeClock",
    "HandlerFailed",
    "Ran",
    "assert_enqueued",
    "assert_enqueued_sync",
    "drain",
    "drain_sync",
    "fresh_database",
    "inline",
    "isolated",
    "refute_enqueued",
    "refute_enqueued_sync",
]
