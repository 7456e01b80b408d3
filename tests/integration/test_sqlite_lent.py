"""Enqueueing on a connection of the caller's, in its transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from rowlock._errors import (
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    WrongConnection,
)
from rowlock._filter import Filter
from rowlock.stores.sqlite import SQLiteStore
from rowlock.testing import FakeClock

from .sqlite_given import a_users, new_job, opened

Isolation: TypeAlias = Literal["DEFERRED", "EXCLUSIVE"] | None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that doesn't exist yet."""
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path, clock: FakeClock) -> AsyncIterator[SQLiteStore]:
    """A store on it."""
    async with opened(path, clock=clock) as store:
        yield store


async def ids(store: SQLiteStore) -> list[int]:
    return [job.id for job in (await store.list(Filter())).jobs][::-1]


async def test_a_transaction_that_has_read_what_is_old_is_told_to_begin_again(
    path: Path, store: SQLiteStore
) -> None:
    await store.enqueue([new_job()])
    with a_users(path, isolation_level=None) as own:
        own.execute("BEGIN")
        own.execute("SELECT count(*) FROM rowlock_jobs").fetchall()
        await store.enqueue([new_job()])

        with pytest.raises(StoreUnavailable, match=r"all of it again.*IMMEDIATE"):
            store.lent.enqueue_sync([new_job()], own)
        own.execute("ROLLBACK")
        own.execute("BEGIN")
        store.lent.enqueue_sync([new_job()], own)
        own.execute("COMMIT")

    assert len(await ids(store)) == 3


async def test_law_2_jobs_come_and_go_with_the_callers_transaction(
    path: Path, store: SQLiteStore
) -> None:
    with a_users(path) as own:
        own.execute("CREATE TABLE orders (id INTEGER)")
        own.execute("INSERT INTO orders VALUES (1)")
        store.lent.enqueue_sync([new_job()], own)
        assert own.in_transaction
        assert await ids(store) == []
        own.rollback()
        assert await ids(store) == []

        own.execute("INSERT INTO orders VALUES (2)")
        lent = store.lent.enqueue_sync([new_job(), new_job()], own)
        own.commit()

        assert await ids(store) == list(lent)
        assert own.execute("SELECT id FROM orders").fetchall() == [(2,)]


async def test_law_2_where_there_is_no_transaction_one_is_begun_as_sqlite3_would(
    path: Path, store: SQLiteStore
) -> None:
    with a_users(path) as own:
        store.lent.enqueue_sync([new_job()], own)

        assert own.in_transaction
        own.rollback()
        assert await ids(store) == []
        with own:
            store.lent.enqueue_sync([new_job()], own)
        assert len(await ids(store)) == 1


async def test_in_autocommit_it_stands_at_once(path: Path, store: SQLiteStore) -> None:
    with a_users(path, isolation_level=None) as own:
        lent = store.lent.enqueue_sync([new_job()], own)

        assert not own.in_transaction
        assert await ids(store) == list(lent)


async def test_law_15_in_autocommit_a_commit_that_failed_leaves_nothing_open(
    path: Path, store: SQLiteStore
) -> None:
    def no_commit(action: int, statement: str | None, *_: str | None) -> int:
        is_commit = (action, statement) == (sqlite3.SQLITE_TRANSACTION, "COMMIT")
        return sqlite3.SQLITE_DENY if is_commit else sqlite3.SQLITE_OK

    with a_users(path, isolation_level=None) as own:
        own.set_authorizer(no_commit)
        with pytest.raises(OutcomeUnknown):
            store.lent.enqueue_sync([new_job()], own)
        assert not own.in_transaction

    assert await ids(store) == []


async def test_a_transaction_that_was_begun_in_autocommit_is_joined(
    path: Path, store: SQLiteStore
) -> None:
    with a_users(path, isolation_level=None) as own:
        own.execute("BEGIN")
        store.lent.enqueue_sync([new_job()], own)
        assert own.in_transaction
        own.execute("ROLLBACK")

    assert await ids(store) == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="came with Python 3.12")
@pytest.mark.parametrize("autocommit", [True, False])
async def test_the_newer_way_of_autocommit_is_followed_too(
    path: Path, store: SQLiteStore, *, autocommit: bool
) -> None:
    with a_users(path, autocommit=autocommit) as own:
        store.lent.enqueue_sync([new_job()], own)
        assert len(await ids(store)) == autocommit
        own.rollback()
        assert len(await ids(store)) == autocommit
        store.lent.enqueue_sync([new_job()], own)
        own.commit()

    assert len(await ids(store)) == 1 + autocommit


@pytest.mark.parametrize("isolation_level", [None, "DEFERRED", "EXCLUSIVE"])
async def test_law_1_all_or_none_on_a_lent_connection(
    path: Path, store: SQLiteStore, isolation_level: Isolation
) -> None:
    await store.enqueue([new_job()])
    with a_users(path, isolation_level=isolation_level) as own:
        own.execute("CREATE TABLE orders (id INTEGER)")
        own.commit()
        if isolation_level:
            own.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(StoreError):
            store.lent.enqueue_sync([new_job(), new_job(queue=None)], own)
        # The caller's own work is still there, and the caller's to commit.
        assert own.in_transaction is bool(isolation_level)
        own.commit()
        orders = own.execute("SELECT count(*) FROM orders").fetchone()

    assert orders == (bool(isolation_level),)
    assert len(await ids(store)) == 1


async def test_law_10_a_key_is_seen_both_ways(path: Path, store: SQLiteStore) -> None:
    with a_users(path) as own:
        (first,) = store.lent.enqueue_sync([new_job(idempotency_key="k")], own)
        own.commit()
        assert list(await store.enqueue([new_job(idempotency_key="k")])) == [None]
        twice = store.lent.enqueue_sync(
            [new_job(idempotency_key="k"), new_job(idempotency_key="k2")], own
        )
        own.commit()

    assert first is not None
    assert twice[0] is None
    assert twice[1] is not None


async def test_every_option_works_there(
    path: Path, store: SQLiteStore, clock: FakeClock
) -> None:
    clock.advance(100)
    job = new_job(
        priority=3,
        delay=timedelta(seconds=5),
        expires_at=clock.now() + timedelta(days=1),
        max_attempts=7,
        timeout=1.5,
        backoff={"kind": "fixed"},
        idempotency_key="k",
        meta={"trace": "t"},
    )
    with a_users(path) as own:
        (lent_id,) = store.lent.enqueue_sync([job], own)
        own.rollback()
        (lent_id,) = store.lent.enqueue_sync([job], own)
        own.commit()
    (by_lent,) = await store.get([lent_id or 0])
    await store.cancel([by_lent.id], by="test")
    await store.delete([by_lent.id])
    (store_id,) = await store.enqueue([job])
    (by_store,) = await store.get([store_id or 0])

    fields = set(type(by_lent).__dataclass_fields__) - {"id"}
    assert {f: getattr(by_lent, f) for f in fields} == {
        f: getattr(by_store, f) for f in fields
    }


class Own(sqlite3.Connection):
    """A connection whose own cursors are of no use."""

    cursor = None  # type: ignore[assignment]  # whoever asks for one fails


async def test_what_the_caller_has_set_is_ignored_and_left(
    path: Path, store: SQLiteStore
) -> None:
    with a_users(path, factory=Own) as own:
        own.row_factory = sqlite3.Row
        own.text_factory = bytes
        (lent,) = store.lent.enqueue_sync([new_job(idempotency_key="k")], own)
        (again,) = store.lent.enqueue_sync([new_job(idempotency_key="k")], own)
        own.commit()

        assert (lent, again) == (1, None)
        assert own.row_factory is sqlite3.Row
        assert own.text_factory is bytes


async def test_a_locked_database_is_passing(path: Path, store: SQLiteStore) -> None:
    with a_users(path) as other, a_users(path, timeout=0.05) as own:
        other.execute("CREATE TABLE orders (id INTEGER)")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked") as error:
            store.lent.enqueue_sync([new_job()], own)
        assert isinstance(error.value.__cause__, sqlite3.OperationalError)
        other.rollback()

        store.lent.enqueue_sync([new_job()], own)
        own.commit()
    assert len(await ids(store)) == 1


async def test_a_snapshot_that_is_too_old_is_passing(
    path: Path, store: SQLiteStore
) -> None:
    with a_users(path, isolation_level=None) as own:
        own.execute("BEGIN")
        own.execute("SELECT count(*) FROM rowlock_jobs").fetchone()
        await store.enqueue([new_job()])

        with pytest.raises(StoreUnavailable):
            store.lent.enqueue_sync([new_job()], own)
        own.execute("ROLLBACK")


async def test_another_database_is_refused_with_both_names(
    tmp_path: Path, path: Path, store: SQLiteStore
) -> None:
    with a_users(tmp_path / "another.db") as own:
        own.execute("CREATE TABLE t (n)")
        # Attached is not enough: the tables would be looked for in the main one.
        own.execute("ATTACH ? AS main2", (str(path),))
        with pytest.raises(WrongConnection) as refusal:
            store.lent.enqueue_sync([new_job()], own)
        assert not own.in_transaction

    assert str(tmp_path / "another.db") in str(refusal.value)
    assert f"the jobs are in {path}: lend one to that." in str(refusal.value)


async def test_a_database_in_memory_is_another(store: SQLiteStore) -> None:
    with (
        a_users(Path(":memory:")) as own,
        pytest.raises(WrongConnection, match="in memory"),
    ):
        store.lent.enqueue_sync([new_job()], own)


async def test_the_same_file_by_another_name_is_the_same(
    tmp_path: Path, path: Path, store: SQLiteStore
) -> None:
    (tmp_path / "link.db").symlink_to(path)
    with a_users(tmp_path / "link.db") as own:
        store.lent.enqueue_sync([new_job()], own)
        own.commit()

    assert len(await ids(store)) == 1


async def test_a_store_in_memory_refuses_every_connection() -> None:
    async with opened(":memory:") as store:
        with (
            a_users(Path(":memory:")) as own,
            pytest.raises(WrongConnection, match="store in a file"),
        ):
            store.lent.enqueue_sync([new_job()], own)


async def test_a_closed_connection_is_refused(path: Path, store: SQLiteStore) -> None:
    own = sqlite3.connect(path)
    own.close()

    with pytest.raises(WrongConnection, match="closed"):
        store.lent.enqueue_sync([new_job()], own)


async def test_a_connection_of_another_thread_is_refused(
    path: Path, store: SQLiteStore
) -> None:
    refusals: list[Exception] = []

    with a_users(path) as own:

        def elsewhere() -> None:
            try:
                store.lent.enqueue_sync([new_job()], own)
            except WrongConnection as error:
                refusals.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    assert "thread" in str(refusals[0])


async def test_the_awaited_call_names_the_other(path: Path, store: SQLiteStore) -> None:
    with a_users(path) as own, pytest.raises(WrongConnection, match="enqueue_sync"):
        await store.lent.enqueue([new_job()], own)


@pytest.mark.parametrize("connection", [None, object(), "jobs.db", asyncio])
async def test_what_is_no_connection_is_refused_with_what_would_do(
    store: SQLiteStore, connection: object
) -> None:
    name = type(connection).__name__
    with pytest.raises(
        WrongConnection, match=rf"An? {name} can't .* a sqlite3\.Connection"
    ):
        store.lent.enqueue_sync([new_job()], connection)
    with pytest.raises(WrongConnection, match=r"sqlite3\.Connection"):
        await store.lent.enqueue([new_job()], connection)


async def test_it_needs_no_open_store_but_a_schema(path: Path) -> None:
    async with opened(path):
        pass
    store = SQLiteStore.from_url(f"sqlite:///{path}")
    with a_users(path) as own:
        store.lent.enqueue_sync([new_job()], own)
        own.commit()

    async with opened(path) as store:
        assert len(await ids(store)) == 1
