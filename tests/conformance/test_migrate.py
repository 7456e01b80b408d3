"""Migrate and open: the schema comes by itself, once, and is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rowlock._errors import SchemaMismatch, StoreError
from rowlock._filter import Filter
from rowlock._store import Store
from rowlock.stores import connect
from rowlock.testing import FakeClock

from .given import Enqueue, OpenAnother, new_job
from .stores import StoreCase


async def test_an_open_store_has_nothing_to_migrate(store: Store) -> None:
    assert list(await store.migrate(dry_run=True)) == []
    assert list(await store.migrate()) == []


async def test_a_dry_run_names_what_is_pending_oldest_first(
    unmigrated: str, clock: FakeClock
) -> None:
    store = connect(unmigrated, clock=clock)
    try:
        pending = await store.migrate(dry_run=True)
        again = await store.migrate(dry_run=True)

        assert [each.version for each in pending] == list(range(1, len(pending) + 1))
        assert all(each.name and each.sql.strip() for each in pending)
        assert list(again) == list(pending)
    finally:
        await store.close()


async def test_migrate_applies_what_the_dry_run_named_and_is_done(
    unmigrated: str, clock: FakeClock
) -> None:
    store = connect(unmigrated, clock=clock)
    try:
        pending = await store.migrate(dry_run=True)
        applied = await store.migrate()
        await store.open()

        assert len(pending) >= 1
        assert list(applied) == list(pending)
        assert list(await store.migrate()) == []
        assert None not in await store.enqueue([new_job()])
    finally:
        await store.close()


async def test_opening_twice_does_nothing(store: Store, enqueue: Enqueue) -> None:
    ids = await enqueue(2)

    await store.open()

    assert [job.id for job in await store.get(ids)] == ids


async def test_closing_twice_does_nothing(database: str, clock: FakeClock) -> None:
    store = connect(database, clock=clock)
    await store.open()

    await store.close()
    await store.close()


async def test_a_closed_store_says_so(store: Store) -> None:
    await store.close()

    with pytest.raises(StoreError, match="closed"):
        await store.enqueue([new_job()])
    with pytest.raises(StoreError, match="closed"):
        await store.list(Filter())


async def test_a_store_that_was_never_opened_can_be_closed(
    database: str, clock: FakeClock
) -> None:
    await connect(database, clock=clock).close()


async def test_what_was_handed_over_is_finished_at_close(
    store: Store, open_another: OpenAnother
) -> None:
    another = await open_another()
    handed_over = [asyncio.create_task(another.enqueue([new_job()])) for _ in range(20)]
    await asyncio.sleep(0)

    await another.close()

    ids = {job_id for (job_id,) in await asyncio.gather(*handed_over)}
    assert {job.id for job in (await store.list(Filter())).jobs} == ids


async def test_jobs_outlive_the_process(
    store: Store, open_another: OpenAnother, enqueue: Enqueue
) -> None:
    ids = await enqueue(3)
    before = await store.get(ids)
    await store.close()

    another = await open_another()

    assert list(await another.get(ids)) == list(before)


async def test_a_schema_that_is_too_new_is_refused_with_what_to_do(
    store: Store,
    store_case: StoreCase,
    database: str,
    clock: FakeClock,
    from_the_future: Callable[[], None],
) -> None:
    await store.close()
    from_the_future()
    another = connect(database, clock=clock)

    with pytest.raises(SchemaMismatch, match=r"(?i)upgrade"):
        await another.open()

    await another.close()
    assert store_case.processes


async def test_law_15_a_refused_database_is_left_as_it_was(
    store: Store,
    database: str,
    clock: FakeClock,
    from_the_future: Callable[[], None],
) -> None:
    await store.close()
    from_the_future()
    another = connect(database, clock=clock)

    for _ in range(2):
        with pytest.raises(SchemaMismatch):
            await another.open()
        with pytest.raises(SchemaMismatch):
            await another.migrate()
    await another.close()
