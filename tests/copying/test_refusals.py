"""What isn't copied, and what it says; nothing was written then."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from rowlock import Retention, Status
from rowlock._copy import CopyRefused, copy, preview
from rowlock._errors import ConfigError, SchemaMismatch, UsageError
from rowlock._store import Demand, Store
from rowlock.stores import connect
from rowlock.stores.postgres.copying import MOST_DAYS
from rowlock.testing import FakeClock
from tests.integration.roles import cast

from .given import (
    LEASE,
    WORKER,
    Make,
    Open,
    ended,
    job,
    quietly,
    rows_of,
)


async def refused(source: Store, target: Store) -> str:
    """Try in both ways; the sentence, which is the same."""
    said = []
    for attempt in (preview(source, target), copy(source, target, quietly)):
        with pytest.raises(CopyRefused) as caught:
            await attempt
        said.append(str(caught.value))
    assert said[0] == said[1]
    return said[0]


async def test_a_source_with_a_live_worker_is_refused_until_its_lease_is_over(
    source: Store, other: Store, clock: FakeClock
) -> None:
    await source.register(WORKER, ())

    said = await refused(source, other)

    assert "w-17 (process 17 on here, seen at 2026-01-01T00:00:00.000000Z)" in said
    clock.advance(61)
    await copy(source, other, quietly)


async def test_a_source_with_a_running_job_is_refused(
    source: Store, other: Store
) -> None:
    await source.enqueue([job(), job()])
    demand = Demand(total=1, tasks=frozenset({"pay"}))
    await source.claim(demand, worker="w", lease=LEASE)

    assert "1 job is still running" in await refused(source, other)
    await source.claim(demand, worker="w", lease=LEASE)
    assert "2 jobs are still running" in await refused(source, other)


async def test_a_target_with_a_live_worker_is_refused(
    other: Store, target: Store
) -> None:
    await target.register(WORKER, ())

    assert f"{target.url} has live workers: w-17" in await refused(other, target)


async def test_a_target_with_jobs_is_refused(other: Store, target: Store) -> None:
    await target.enqueue([job()])

    assert f"{target.url} holds 1 job already" in await refused(other, target)
    assert len(await rows_of(target)) == 1


async def test_a_store_isnt_copied_to_itself(
    source: Store, source_url: str, opened: Open
) -> None:
    another = await opened(source_url)

    with pytest.raises(UsageError, match="are the same database"):
        await copy(source, another, quietly)


async def test_a_schema_that_is_ahead_is_refused_on_either_side(
    url: str, make: Make, opened: Open
) -> None:
    ahead, other = await opened(url), await opened(make("sqlite"))
    with psycopg.connect(url) as own:
        own.execute(
            "INSERT INTO rowlock.migrations (version, name, checksum, applied_at)"
            " SELECT max(version) + 1, 'later', '', now() FROM rowlock.migrations"
        )

    for source, target in ((ahead, other), (other, ahead)):
        with pytest.raises(SchemaMismatch, match="upgrade Rowlock"):
            await copy(source, target, quietly)


async def test_more_days_than_there_is_room_for_are_refused(
    url: str, make: Make, opened: Open, scale: int
) -> None:
    path = make("sqlite")
    source, target = await opened(path), await opened(url)
    with closing(sqlite3.connect(path.removeprefix("sqlite:///"))) as own:
        own.executemany(
            "INSERT INTO rowlock_rows (status, queue, task, payload, priority, run_at,"
            " max_attempts, created_at, updated_at, finished_at)"
            " VALUES ('succeeded', 'q', 't', '{}', 0, 0, 1, 0, 0, ?)",
            [(86_400_000_000 * (20_000 + day),) for day in range(MOST_DAYS + 1)],
        )
        own.commit()
        assert f"ended on {MOST_DAYS + 1} days" in await refused(source, target)

        own.execute("DELETE FROM rowlock_rows WHERE id = 1")
        own.commit()
    if scale > 1:
        # As many as are let in do go in: the server has locks for them all.
        await copy(source, target, quietly)
        assert len(await rows_of(target)) == MOST_DAYS


BY_HAND: dict[str, object] = {
    "run_at": "soon",
    "expires_at": 2**62,
    "created_at": -1,
    "updated_at": 1.5,
    "started_at": "x",
    "cancel_requested_at": b"",
    "timeout": "long",
    "priority": 2**40,
    "max_attempts": "three",
    "claims": 10**9,
    "attempts": 10**9,
    "failures": -1,
    "losses": "x",
    "queue": "a\0b",
    "task": b"a",
    "worker": "\0",
    "idempotency_key": "a\0",
    "last_error": b"x",
    "backoff": "1,",
    "progress": "half",
    "state": "{",
    "result": "NaN",
    "payload": "",
    "meta": "[]",
    "errors": "{}",
}


@pytest.mark.parametrize("column", BY_HAND)
async def test_what_a_hand_has_written_is_named_before_anything_is_copied(
    column: str, make: Make, opened: Open
) -> None:
    path = make("sqlite")
    source, target = await opened(path), await opened(make("sqlite"))
    await source.enqueue([job(), job()])
    with closing(sqlite3.connect(path.removeprefix("sqlite:///"))) as own:
        own.execute("PRAGMA ignore_check_constraints = ON")
        statement = f"UPDATE rowlock_rows SET {column} = ? WHERE id = 2"  # noqa: S608 - a column of ours
        own.execute(statement, (BY_HAND[column],))
        own.commit()

    assert f"can't be copied: {column} of job 2." in await refused(source, target)


async def test_a_database_in_memory_isnt_copied(opened: Open) -> None:
    memory = await opened("sqlite://")

    with pytest.raises(ConfigError, match="in memory"):
        await copy(memory, memory, quietly)


async def test_only_the_owner_copies_into_a_schema(
    each_empty_url: str, make: Make, opened: Open, other: Store, clock: FakeClock
) -> None:
    source = await opened(make("sqlite"))
    await source.enqueue([job(), job()])
    await ended(source, "pay", status=Status.SUCCEEDED)
    with cast(each_empty_url) as them:
        owned = connect(them.owner.url)
        await owned.migrate(worker_role=them.worker.name)  # type: ignore[call-arg]
        as_worker = await opened(them.worker.url)
        with pytest.raises(ConfigError, match="by its owner"):
            await copy(source, as_worker, quietly)
        await copy(source, owned, quietly)
        assert len(await rows_of(as_worker)) == 2
        assert await as_worker.enqueue([job()]) == (3,)
        # To read it is a worker's right; the days that were made are the worker's, too.
        assert (await copy(as_worker, other, quietly)).total == 3
        clock.advance(timedelta(days=9))
        await as_worker.prune(Retention(), limit=10)
        assert len(await rows_of(as_worker)) == 2
        await owned.close()
        await as_worker.close()
