"""
Faults to plant, one at a time, that the simulation has to find.

Each replaces one function, of the worker or of the model database, by one that has
forgotten something. None raises: what it breaks is seen in the history only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

from rowlock import _outcome
from rowlock._events.worker import ClaimLapsed
from rowlock._job import Claim, ClaimKey, Outcome, Status
from rowlock._store import Demand, Fate, Pruned, Renewal, Retention, Settled, Wakeups
from rowlock._worker import completed
from rowlock._worker.buffer import Buffer
from rowlock._worker.fetch import Fetch
from rowlock._worker.handlers import Handlers
from rowlock._worker.relay import Relay
from rowlock._worker.runs import Run, Runs
from rowlock._worker.suspects import Suspects
from rowlock._worker.upkeep import KEEP_ALL, Upkeep
from rowlock.cli.recoveries import Recoveries
from rowlock.stores.grace import Grace
from tests.conformance.model import Model, Row

from .database import Database


class Fault(NamedTuple):
    """What is replaced, by what."""

    owner: type | ModuleType
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
    def behind(
        database: Database, due: Sequence[Row], demand: Demand, worker: str
    ) -> list[Row]:
        """Begin where the last claim ended, and never look before that again."""
        bounds = database.__dict__.setdefault("bounds", {})
        place = {row.id: (-row.priority, row.run_at, row.id) for row in due}
        seen = [
            row
            for row in due
            if row.queue not in bounds or place[row.id] > bounds[row.queue]
        ]
        taken = chosen(database, seen, demand, worker)
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
    def lapse(relay: Relay, lost: Collection[ClaimKey]) -> None:
        """Take a claim for lost that was renewed while its outcome was written."""
        for key in lost:
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
        on_renewal(relay, lost)

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


def _asks_nobody(_: object) -> Any:  # noqa: ANN401 - a property
    return property(lambda _: False, lambda *_: None)


def _never(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_: False


def _never_resumes(gives_way: Callable[..., bool]) -> Callable[..., Any]:
    def give_way(suspects: Suspects, now: float) -> bool:
        return suspects._resumed_at > -math.inf or gives_way(suspects, now)

    return give_way


def _counts_none(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_: 0


def _looks_behind_no_limit(demand: Callable[..., Demand]) -> Callable[..., Any]:
    def leave_out(fetch: Fetch, total: int, *, suspects: bool = False) -> Demand:
        """Name no queue that is full, also where it gives way to a suspect."""
        made = demand(fetch, max(total, 1), suspects=suspects)
        if made.queues is None:
            return replace(made, total=total)
        queues = {queue: room for queue, room in made.queues.items() if room}
        return replace(made, total=total, queues=queues)

    return leave_out


def _never_overdue(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_: math.inf


def _recovers_one(_: Callable[..., Any]) -> Callable[..., Any]:
    async def recover_one(upkeep: Upkeep, worker: str) -> int:
        found = await upkeep._outage.outlast(
            lambda: upkeep._store.lost(1, worker=worker), writing=False
        )
        return await upkeep._recover(found)

    return recover_one


def _looks_once(_: Callable[..., Any]) -> Callable[..., Any]:
    async def look_once(upkeep: Upkeep, worker: str) -> int:
        return await upkeep._recover_all_of(worker)

    return look_once


def _asks_once(turn: Callable[..., None]) -> Callable[..., Any]:
    def ask(recoveries: Recoveries, children: Sequence[Any], now: float) -> None:
        turn(recoveries, children, now)
        unasked = {lost: each for lost, each in recoveries._lost.items() if not each[1]}
        recoveries._lost = unasked

    return ask


def _keeps_all(_: Callable[..., Any]) -> Callable[..., Any]:
    async def prune(upkeep: Upkeep, _: Retention) -> None:
        await upkeep.expire()

    return prune


def _deletes_all(prune: Callable[..., Pruned]) -> Callable[..., Any]:
    def delete(
        database: Database, retention: Retention, limit: int, *, by: str
    ) -> Pruned:
        none = timedelta(0)
        nothing = Retention(succeeded=none, cancelled=none, failed=none)
        kept = KEEP_ALL if retention == KEEP_ALL else nothing
        return prune(database, kept, limit, by=by)

    return delete


def _believes_the_handler(settled: Callable[..., Settled | None]) -> Callable[..., Any]:
    def believe(run: Run, fate: Fate) -> Settled | None:
        """Take what was rolled back, and is somebody else's by now, for a success."""
        return settled(run, Fate.SUCCEEDED if fate is Fate.LOST else fate)

    return believe


def _waits_for_news(_: Callable[..., Any]) -> Callable[..., Any]:
    async def wait(_: Fetch, wakeups: Wakeups, __: timedelta) -> None:
        await wakeups.wait(timedelta(days=1))

    return wait


def _charges_all(lost: Callable[[Claim], Outcome]) -> Callable[..., Any]:
    return lambda claim: lost(claim._replace(alone=True))


def _tries_once_more(lost: Callable[[Claim], Outcome]) -> Callable[..., Any]:
    return lambda claim: lost(claim._replace(max_attempts=claim.max_attempts + 1))


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
    "unknown claims that are kept": Fault(Buffer, "refuse_unknown", _never),
    "a claim that waits for ever": Fault(Buffer, "_return_stale", _never),
    "a worker that is lost to itself": Fault(Upkeep, "_is_ours", _never),
    "a suspect beside others": Fault(Fetch, "_runs_suspect", _never),
    "a loss that innocents pay": Fault(_outcome, "lost", _charges_all),
    "at most once, and once more": Fault(_outcome, "lost", _tries_once_more),
    "a worker that gives way for ever": Fault(Suspects, "gives_way", _never_resumes),
    "a limit that isn't counted": Fault(Runs, "of_queue", _counts_none),
    "a suspect that is forgotten behind a limit": Fault(
        Fetch, "_demand", _looks_behind_no_limit
    ),
    "a suspect that waits until all are idle": Fault(
        Suspects, "overdue_in", _never_overdue
    ),
    "a death that is recovered in part": Fault(
        Upkeep, "_recover_all_of", _recovers_one
    ),
    "a death without a second look": Fault(Upkeep, "recover_dead", _looks_once),
    "a helper whose death is forgotten": Fault(Recoveries, "turn", _asks_once),
    "a thread that holds its place": Fault(Handlers, "_give_up", _never),
    "a retention that is forgotten": Fault(Upkeep, "prune", _keeps_all),
    "a retention that spares nothing": Fault(Database, "prune", _deletes_all),
    "a completion that nobody asks for": Fault(Run, "is_asked", _asks_nobody),
    "a completion that is believed": Fault(
        completed, "_settled", _believes_the_handler
    ),
    "no look without news": Fault(Fetch, "_wait", _waits_for_news),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have a fault while the block runs."""
    fault = FAULTS[name]
    made = fault.made(getattr(fault.owner, fault.name))
    with patch.object(fault.owner, fault.name, made):
        yield
