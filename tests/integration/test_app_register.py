"""An app tells of its tasks, as workers do, and nobody waits for it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, closing
from datetime import datetime
from typing import Any, TypeAlias

import psycopg
import pytest

from rowlock import App, _register
from rowlock.testing import FakeClock
from tests.cluster_fixtures import FreshDatabase
from tests.conformance.stores import Connection, StoreCase
from tests.endings import known
from tests.eventually import eventually

from .roles import cast

Told: TypeAlias = dict[str, tuple[str, dict[str, Any], datetime | int]]

MAIL = {"priority": 4, "max_attempts": 7, "timeout": 60.0, "max_payload": 10_000}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_register, "SETTLE_S", 0.0)


@pytest.fixture
async def app(database_url: str, clock: FakeClock) -> AsyncIterator[App]:
    """An app with two tasks, not open yet."""
    app = make(database_url, clock)
    yield app
    await app.close()


def make(url: str, clock: FakeClock | None = None) -> App:
    app = App(url, max_payload=10_000, clock=clock)

    @app.task(queue="letters", priority=4, max_attempts=7, timeout=60)
    def mail() -> None: ...

    @app.task
    def bill() -> None: ...

    return app


def told(url: str) -> Told:
    """What the database knows of tasks, read by somebody else."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as own:
            found = own.execute(
                "SELECT name, queue, defaults, seen_at FROM rowlock_tasks"
            ).fetchall()
    else:
        with psycopg.connect(url) as own:
            found = own.execute(
                "SELECT name, queue, defaults::text, seen_at FROM rowlock.tasks"
            ).fetchall()
    return {
        name: (queue, json.loads(defaults), seen_at)
        for name, queue, defaults, seen_at in found
    }


async def all_told(url: str) -> Told:
    await eventually(lambda: len(told(url)) == 2)
    return told(url)


@pytest.mark.parametrize("way", ["enqueue", "enqueue_sync", "open"])
async def test_an_app_tells_of_its_tasks_when_it_is_first_used(
    app: App, database_url: str, way: str
) -> None:
    task = app.tasks["bill"]
    if way == "enqueue":
        assert known(await task.enqueue())
    elif way == "enqueue_sync":
        assert known(await asyncio.to_thread(task.enqueue_sync))
        await asyncio.to_thread(app.get_sync, 1)
    else:
        await app.open()

    found = await all_told(database_url)

    assert found["mail"][:2] == ("letters", MAIL)
    assert found["bill"][0] == "default"


async def test_it_tells_once_an_hour_at_most(
    app: App, database_url: str, clock: FakeClock
) -> None:
    await app.tasks["bill"].enqueue()
    first = await all_told(database_url)

    clock.advance(3000)
    await app.tasks["bill"].enqueue()
    await asyncio.sleep(0.2)  # for what must not happen
    assert told(database_url) == first

    clock.advance(700)
    await app.tasks["bill"].enqueue()
    await eventually(lambda: told(database_url) != first)


async def test_it_does_so_outside_the_callers_transaction(
    app: App, database_url: str, shared_case: StoreCase
) -> None:
    await app._store.open()
    lend: Callable[[str], AbstractContextManager[Connection]] | None = shared_case.lend
    assert lend is not None

    def rolled_back() -> None:
        with lend(database_url) as own:
            app.tasks["bill"].options(connection=own).enqueue_sync()
            own.rollback()

    await asyncio.to_thread(rolled_back)

    assert set(await all_told(database_url)) == {"bill", "mail"}
    assert (await app.list()).jobs == ()


async def test_an_app_without_tasks_tells_nothing(
    database_url: str, clock: FakeClock
) -> None:
    async with App(database_url, clock=clock) as app:
        await app.enqueue_many([])
        await asyncio.sleep(0.1)  # for what must not happen

    assert told(database_url) == {}


async def test_a_closed_app_tells_nothing(
    app: App, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_register, "SETTLE_S", 0.1)
    await app.open()
    await app.close()
    await asyncio.sleep(0.3)  # for what must not happen

    assert told(database_url) == {}


async def test_what_is_locked_delays_no_enqueue_and_is_told_later(
    fresh_database: FreshDatabase, clock: FakeClock
) -> None:
    url = fresh_database()
    async with make(url, clock) as app:
        with psycopg.connect(url) as own:
            own.execute("LOCK TABLE rowlock.tasks IN ACCESS EXCLUSIVE MODE")
            async with asyncio.timeout(0.9):  # it would be a second
                for _ in range(20):
                    await app.tasks["bill"].enqueue()
            await eventually(lambda: not app._access.register._telling)
        assert told(url) == {}

        clock.advance(61)
        await app.tasks["bill"].enqueue()
        await all_told(url)


async def test_who_may_not_tell_enqueues_all_the_same(
    fresh_database: FreshDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "rowlock.app")
    with cast(fresh_database()) as roles:
        with psycopg.connect(roles.admin, autocommit=True) as own:
            for right in (
                "USAGE ON SCHEMA rowlock",
                "SELECT, INSERT ON rowlock.live",
                "SELECT ON rowlock.migrations",
                "USAGE ON SEQUENCE rowlock.ids",
                "EXECUTE ON FUNCTION rowlock.iso",
            ):
                own.execute(f'GRANT {right} TO "{roles.stranger.name}"'.encode())
        async with make(roles.stranger.url) as app:
            assert known(await app.tasks["bill"].enqueue())
            await eventually(lambda: "app.register" in caplog.text)
            assert known(await app.tasks["bill"].enqueue())
        assert told(roles.admin) == {}

    (line,) = caplog.records
    assert line.levelname == "DEBUG"


async def test_sqls_enqueue_knows_the_defaults_of_a_task_that_only_an_app_has(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database()
    async with make(url) as app:
        await app.tasks["bill"].enqueue()
        await all_told(url)
        with psycopg.connect(url, autocommit=True) as own:
            row = own.execute("SELECT rowlock.enqueue('mail')").fetchone()
        assert row is not None
        job = await app.get(row[0])

    assert (job.queue, job.priority, job.max_attempts) == ("letters", 4, 7)
