"""What happens to claims that are held: finished, renewed, their state saved."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from rowlock._fingerprint import fingerprint
from rowlock._job import JSON, ClaimKey, Outcome, Status
from rowlock._keys import spawned_of
from rowlock._outcome import in_words
from rowlock._store import Renewal, Settled
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.bounds import Arrival, Line
from rowlock.stores.postgres.enqueue import NOTHING, Added, enqueue, portions
from rowlock.stores.postgres.errors import Locked, NoPartition
from rowlock.stores.postgres.sessions import Row, Session

LAST_ERROR = 1000  # characters of `last_error`
_TRIES = 3

# Of a finish with a locked row. Longer than a renewal or a cancel takes, and no longer:
# a worker's other outcomes wait meanwhile.
_PATIENCE = timedelta(milliseconds=100)
# Of a renewal, which nobody waits for but the next one.
_SHARE_OF_LEASE = 10
_LONGEST_PATIENCE = timedelta(seconds=1)  # law 18


class Finished(NamedTuple):
    """An answer an outcome, in their order, and the news of jobs that are due again."""

    answer: tuple[Settled, ...]
    arrivals: tuple[Arrival, ...]


class Stand(NamedTuple):
    """How a job stands."""

    status: Status
    claims: int


class Written(NamedTuple):
    """What a finish wrote, by claim, and the jobs that it spawned."""

    rows: Mapping[ClaimKey, Row]
    spawned: Mapping[ClaimKey, tuple[int | None, ...]]
    arrivals: tuple[Arrival, ...]

    def and_also(self, more: Written) -> Written:
        """Add what was written apart."""
        return Written(
            {**self.rows, **more.rows},
            {**self.spawned, **more.spawned},
            self.arrivals + more.arrivals,
        )


async def finish(session: Session, outcomes: Sequence[Outcome]) -> Finished:
    """
    Write these outcomes where their claim holds, then the jobs they spawn.

    A row that is locked for a moment is waited for, apart from the others; what is
    locked for longer is answered so (`Settled.is_locked`).
    """
    # A second outcome of a claim meets what the first one wrote.
    first: dict[ClaimKey, Outcome] = {}
    for outcome in outcomes:
        first.setdefault(outcome.key, outcome)
    written = await _write(session, list(first.values()))
    stands: Mapping[int, Stand] = {}
    if len(written.rows) < len(outcomes):
        left = [outcome for key, outcome in first.items() if key not in written.rows]
        stands = await find(session, [outcome.key.job_id for outcome in outcomes])
        locked = [outcome for outcome in left if holds(outcome.key, stands)]
        if locked:
            with contextlib.suppress(Locked):
                written = written.and_also(await _write(session, locked, wait=True))
            stands = await find(session, [outcome.key.job_id for outcome in outcomes])
    return Finished(tuple(_answers(outcomes, written, stands)), written.arrivals)


def _answers(
    outcomes: Sequence[Outcome], written: Written, stands: Mapping[int, Stand]
) -> Iterator[Settled]:
    """Answer each outcome as if they had been written one after the other."""
    to_come = {key.job_id: key for key in written.rows}
    for outcome in outcomes:
        key = outcome.key
        if key in written.rows and to_come.get(key.job_id) == key:
            del to_come[key.job_id]
            yield _accepted(key, written)
        elif key.job_id in to_come:
            # An older claim's, before that of the claim which held then.
            yield Settled(
                key=key,
                accepted=False,
                status=Status.RUNNING,
                claims=to_come[key.job_id].claim,
            )
        else:
            yield _refused(key, stands)


async def _write(
    session: Session, outcomes: Sequence[Outcome], *, wait: bool = False
) -> Written:
    """Write outcomes; a day that has no partition gets one."""
    ids = sorted(outcome.key.job_id for outcome in outcomes)
    for _ in range(_TRIES):
        try:
            if not wait and not any(outcome.spawned for outcome in outcomes):
                return await _write_once(session, outcomes)
            if not wait:
                async with session.transaction():
                    return await _write_once(session, outcomes)
            async with _holding(session, ids, _PATIENCE):
                return await _write_once(session, outcomes)
        except NoPartition:
            await make_partitions(session, ids)
    return await _write_once(session, outcomes)


@asynccontextmanager
async def _holding(
    session: Session, ids: Sequence[int], patience: timedelta
) -> AsyncIterator[None]:
    """Have these rows in a transaction, where nobody holds one for longer than this."""
    async with session.transaction():
        # The server takes 0 for no limit.
        span = max(1, rows.micros(patience) // 1000)
        await session.run("patience", span=f"{span}ms")
        await session.run("lock", ids=rows.numbers(ids))
        yield


async def make_partitions(session: Session, ids: Sequence[int]) -> None:
    """Make the partitions of a week, and those that these jobs would go to now."""
    await session.run("make_partitions")
    for (day,) in await session.run("days", ids=rows.numbers(ids)):
        await session.run("make_partition", day=day.isoformat())


async def _write_once(session: Session, outcomes: Sequence[Outcome]) -> Written:
    ordered = sorted(outcomes, key=lambda outcome: outcome.key)
    parts = list(portions(ordered, lambda outcome: len(outcome.result or "")))
    if len(parts) > 1 and not session.is_in_transaction:
        async with session.transaction():
            return await _write_parts(session, parts)
    return await _write_parts(session, parts)


async def _write_parts(session: Session, parts: Sequence[Sequence[Outcome]]) -> Written:
    written = Written({}, {}, ())
    for part in parts:
        written = written.and_also(await _write_part(session, part))
    return written


async def _write_part(session: Session, ordered: Sequence[Outcome]) -> Written:
    errors = [_error(outcome) for outcome in ordered]
    found = await session.run(
        "finish",
        ids=rows.numbers([outcome.key.job_id for outcome in ordered]),
        claims=rows.numbers([outcome.key.claim for outcome in ordered]),
        statuses=rows.texts([outcome.status for outcome in ordered]),
        delays=rows.numbers([rows.micros(outcome.delay) for outcome in ordered]),
        unstarted=rows.flags([outcome.unstarted for outcome in ordered]),
        failed=rows.flags([outcome.failed for outcome in ordered]),
        lost=rows.flags([outcome.lost for outcome in ordered]),
        errors=rows.texts([rows.maybe_json(error) for error in errors]),
        summaries=rows.texts([_summary(outcome.error) for outcome in ordered]),
        fingerprints=rows.texts(
            [None if error is None else fingerprint(error) for error in errors]
        ),
        results=rows.texts([outcome.result for outcome in ordered]),
        metas=rows.texts([rows.maybe_json(outcome.meta) for outcome in ordered]),
        leases=rows.instants([outcome.leased_until for outcome in ordered]),
    )
    written = {ClaimKey(row[0], row[1]): row for row in found}
    spawned, added = await _spawn(session, [o for o in ordered if o.key in written])
    again = tuple(
        Arrival(Line(queue, priority), run_at, run_at, is_suspect=suspect)
        for _, _, _, run_at, queue, priority, suspect in found
        if run_at is not None
    )
    return Written(written, spawned, again + added.arrivals)


async def _spawn(
    session: Session, outcomes: Sequence[Outcome]
) -> tuple[Mapping[ClaimKey, tuple[int | None, ...]], Added]:
    jobs = [spawned_of(job) for outcome in outcomes for job in outcome.spawned]
    if not jobs:
        return {}, NOTHING
    added = await enqueue(session, jobs)
    ids = iter(added.answer)
    spawned = {
        outcome.key: tuple(next(ids) for _ in outcome.spawned) for outcome in outcomes
    }
    return spawned, added


def _error(outcome: Outcome) -> Mapping[str, JSON] | None:
    if outcome.error is None:
        return None
    event = "lost" if outcome.lost else "failed" if outcome.failed else "released"
    return {**outcome.error, "event": event}


def _summary(error: Mapping[str, JSON] | None) -> str | None:
    return None if error is None else rows.clean(in_words(error)[:LAST_ERROR])


def _accepted(key: ClaimKey, written: Written) -> Settled:
    _, _, status, run_at, *_ = written.rows[key]
    return Settled(
        key=key,
        accepted=True,
        status=rows.STATUS[status],
        claims=key.claim,
        run_at=run_at,
        spawned=written.spawned.get(key, ()),
    )


def _refused(key: ClaimKey, stands: Mapping[int, Stand]) -> Settled:
    stand = stands.get(key.job_id)
    if stand is None:
        return Settled(key=key, accepted=False, status=None, claims=None)
    return Settled(key=key, accepted=False, status=stand.status, claims=stand.claims)


async def find(session: Session, ids: Collection[int]) -> dict[int, Stand]:
    """Tell how these jobs stand; missing ids are left out."""
    found = await session.run("find", ids=rows.numbers(list(ids)))
    return {row[0]: Stand(Status(row[1]), row[2]) for row in found}


def holds(key: ClaimKey, stands: Mapping[int, Stand]) -> bool:
    """Say whether a claim holds its job (law 6)."""
    return stands.get(key.job_id) == (Status.RUNNING, key.claim)


async def renew(
    session: Session,
    keys: Collection[ClaimKey],
    *,
    worker: str,
    lease: timedelta,
    abandoned: bool,
) -> Renewal:
    """
    Extend what is held, and show that the worker lives (law 8).

    A row that is locked for a moment is waited for, apart from the others: it may be
    in the hands of a recovery, and its worker is to hear of that (law 9).
    """
    extend = partial(_extend, session, worker=worker, lease=lease, abandoned=abandoned)
    extended = await extend(sorted(keys))
    stands: dict[int, Stand] = {}
    if left := [key for key in sorted(keys) if key not in extended]:
        stands = await find(session, [key.job_id for key in left])
    if locked := [key for key in left if holds(key, stands)]:
        ids = [key.job_id for key in locked]
        patience = min(lease / _SHARE_OF_LEASE, _LONGEST_PATIENCE)
        with contextlib.suppress(Locked):
            async with _holding(session, ids, patience):
                extended |= await extend(locked)
        stands |= await find(session, ids)
    return Renewal(
        lost=frozenset(
            key for key in left if key not in extended and not holds(key, stands)
        ),
        cancelled=frozenset(key for key, asked in extended.items() if asked),
    )


async def _extend(
    session: Session,
    keys: Sequence[ClaimKey],
    *,
    worker: str,
    lease: timedelta,
    abandoned: bool,
) -> dict[ClaimKey, bool]:
    """Extend what is held and free; each with whether a cancel was asked of it."""
    found = await session.run(
        "renew",
        ids=rows.numbers([key.job_id for key in keys]),
        claims=rows.numbers([key.claim for key in keys]),
        worker=worker,
        lease=str(rows.micros(lease)),
        abandoned=str(abandoned),
    )
    return {ClaimKey(job_id, claims): asked for job_id, claims, asked in found}


async def save(
    session: Session, key: ClaimKey, *, state: str | None, progress: str | None
) -> bool:
    """
    Keep a running attempt's state or progress; False: the claim is lost.

    A row that is locked for a moment is waited for.

    Raises:
        Locked: it is locked for longer, perhaps by its handler's own transaction.
    """
    write = partial(
        session.run,
        "save",
        id=str(key.job_id),
        claim=str(key.claim),
        state=state,
        progress=progress,
    )
    if await write():
        return True
    if not holds(key, await find(session, [key.job_id])):
        return False
    # Of no row; or what follows would pass for a part of a whole (law 15).
    session.has_written = False
    async with _holding(session, [key.job_id], _PATIENCE):
        return bool(await write())
