"""Claims of the app's jobs, as a worker makes and ends them."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from rowlock import App
from rowlock._job import Claim, Outcome
from rowlock._store import Demand

T = TypeVar("T")


def run(app: App, call: Coroutine[Any, Any, T]) -> T:
    """Wait for a call of the app's store."""
    return app._portal.run(call, "the test")


def claim(app: App) -> Claim:
    """Claim the job that is due."""
    demand = Demand(total=1, tasks=frozenset({"mail"}))
    lease = timedelta(minutes=5)
    claimed = run(app, app._store.claim(demand, worker="w", lease=lease))
    (only,) = claimed.claims
    return only


def finish(app: App, outcome: Outcome) -> None:
    """End a claim."""
    (settled,) = run(app, app._store.finish([outcome]))
    assert settled.accepted
