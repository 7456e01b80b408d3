"""
Faults to plant, one at a time, that the simulation has to find.

Each replaces one function, of the worker or of the model database, by one that has
forgotten something. None raises: what it breaks is seen in the history only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from unittest.mock import patch

from rowlock._events.worker import ClaimLapsed
from rowlock._job import ClaimKey, Outcome, Status
from rowlock._store import Demand, Renewal, Settled, Wakeups
from rowlock._worker.fetch import Fetch
from rowlock._worker.relay import Relay
from rowlock.stores.grace import Grace
from tests.conformance.model import Model, Row

from .database import Database


class Fault(NamedTuple):
    """What is replaced, by what."""

    owner: type
    name: str
    made: Callable[[Callable[..., Any]], Callable[..., Any]]


def _without_the_fence(end: Callable[..., Settled]) -> Callable[..., Any]:
    def held(model: Model, key: ClaimKey, read: datetime | None = None) -> Row | None:
        row = model.rows.get(key.job_id)
        holds = row and row.status is Status.RUNNING
        return row if row and holds and read in (None, row.leased_until) else None

    def end_unfenced(database: Database, outcome: Outcome, by: str) -> Settled:
        with patch.object(Model, "held", held):
            return end(database, outcome, by)

    return end_unfenced


def _always_over(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _: True


def _behind_a_bound(chosen: Callable[..., list[Row]]) -> Callable[..., Any]:
    def behind(database: Database, due: Sequence[Row], demand: Demand) -> list[Row]:
        """Begin where the last claim ended, and never look before that again."""
        bounds = database.__dict__.setdefault("bounds", {})
        place = {row.id: (-row.priority, row.run_at, row.id) for row in due}
        seen = [
            row
            for row in due
            if row.queue not in bounds or place[row.id] > bounds[row.queue]
        ]
        taken = chosen(database, seen, demand)
        for row in taken:
            bounds[row.queue] = place[row.id]
        return taken

    return behind


def _extends_what_has_ended(renew: Callable[..., Renewal]) -> Callable[..., Any]:
    def extend(
        database: Database,
        keys: Collection[ClaimKey],
        *,
        worker: str,
        lease: timedelta,
        abandoned: bool,
    ) -> Renewal:
        told = renew(database, keys, worker=worker, lease=lease, abandoned=abandoned)
        extended = set()
        for key in told.lost:
            row = database.model.rows.get(key.job_id)
            if row is not None and row.claims == key.claim:
                row.leased_until = database.model.now() + lease
                database.history.add(worker, "extends", *key, row.leased_until)
                extended.add(key)
        return Renewal(lost=told.lost - extended, cancelled=told.cancelled)

    return extend


def _lapses_unchecked(on_renewal: Callable[..., None]) -> Callable[..., Any]:
    def lapse(relay: Relay, renewal: Renewal) -> None:
        """Take a claim for lost that was renewed while its outcome was written."""
        for key in renewal.lost:
            run = relay._runs.get(key)
            if run is not None and run.ended_at is not None:
                relay._emit(
                    ClaimLapsed(
                        job_id=key.job_id,
                        task=run.claim.task,
                        queue=run.claim.queue,
                        attempt=run.claim.attempts,
                        claim=key.claim,
                    )
                )
        on_renewal(relay, renewal)

    return lapse


def _keeps_run_at(end: Callable[..., None]) -> Callable[..., Any]:
    def keep(model: Model, row: Row, outcome: Outcome) -> None:
        run_at = row.run_at
        end(model, row, outcome)
        is_release = not (outcome.failed or outcome.lost or outcome.delay)
        if row.status is Status.PENDING and is_release:
            row.run_at = run_at

    return keep


def _forgets_pauses(fitting: Callable[..., list[Row]]) -> Callable[..., Any]:
    def fit(model: Model, demand: Demand) -> list[Row]:
        pauses, model.pauses = model.pauses, {}
        try:
            return fitting(model, demand)
        finally:
            model.pauses = pauses

    return fit


def _forgets_cancels(end: Callable[..., None]) -> Callable[..., Any]:
    def forget(model: Model, row: Row, outcome: Outcome) -> None:
        row.cancel_requested_at = None
        end(model, row, outcome)

    return forget


def _sees_no_holder(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_: None


def _gives_nothing_back(_: Callable[..., Any]) -> Callable[..., Any]:
    async def give_back_unknown(_: Fetch) -> None:
        return

    return give_back_unknown


def _runs_beside(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _: False


def _waits_for_news(_: Callable[..., Any]) -> Callable[..., Any]:
    async def wait(_: Fetch, wakeups: Wakeups, __: timedelta) -> None:
        await wakeups.wait(timedelta(days=1))

    return wait


FAULTS = {
    "finish without the fence": Fault(Database, "_end", _without_the_fence),
    "recover without the grace": Fault(Grace, "is_over", _always_over),
    "a bound that hides jobs": Fault(Database, "chosen", _behind_a_bound),
    "renewal after the outcome": Fault(Database, "renew", _extends_what_has_ended),
    "a loss that is told unchecked": Fault(Relay, "_renewed", _lapses_unchecked),
    "a release that keeps run_at": Fault(Model, "end", _keeps_run_at),
    "a pause that is forgotten": Fault(Model, "fitting", _forgets_pauses),
    "a cancel that is forgotten": Fault(Model, "end", _forgets_cancels),
    "a key that is held twice": Fault(Model, "holder", _sees_no_holder),
    "unknown claims that are kept": Fault(
        Fetch, "_give_back_unknown", _gives_nothing_back
    ),
    "a suspect beside others": Fault(Fetch, "_runs_suspect", _runs_beside),
    "no look without news": Fault(Fetch, "_wait", _waits_for_news),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have a fault while the block runs."""
    fault = FAULTS[name]
    made = fault.made(getattr(fault.owner, fault.name))
    with patch.object(fault.owner, fault.name, made):
        yield
