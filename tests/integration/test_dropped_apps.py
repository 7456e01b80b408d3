"""An app that is dropped unclosed leaves no thread and no connection behind."""

from __future__ import annotations

import asyncio
import gc
import threading

import psycopg
import pytest

from rowlock import App, Status, UsageError, Worker
from tests.eventually import eventually

CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'rowlock'
"""


def make(url: str) -> App:
    app = App(url)

    @app.task
    def greet(name: str) -> None: ...

    return app


def use(url: str) -> None:
    app = make(url)
    for job_id in app.enqueue_many_sync([app.tasks["greet"].job("Ada")] * 3):
        assert job_id
    assert len(app.list_sync().jobs) >= 3


def left_of(before: set[threading.Thread]) -> bool:
    # An app is a cycle, and tells of its tasks for a second more.
    gc.collect()
    threads = set(threading.enumerate()) - before
    # `to_thread` has one of the loop's own.
    return any("rowlock" in thread.name for thread in threads)


async def test_threads_of_dropped_apps_end(database_url: str) -> None:
    before = set(threading.enumerate())

    for _ in range(5):
        await asyncio.to_thread(use, database_url)
    assert left_of(before)

    await eventually(lambda: not left_of(before))
    async with make(database_url) as app:
        assert len((await app.list()).jobs) == 15


async def test_connections_to_postgres_of_dropped_apps_end(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as own:

        def connections() -> int:
            gc.collect()
            row = own.execute(CONNECTIONS).fetchone()
            return int(row[0]) if row else -1

        await asyncio.to_thread(use, postgres_url)
        assert connections() > 0

        await eventually(lambda: connections() == 0)


def test_threads_of_apps_in_memory_end() -> None:
    before = set(threading.enumerate())

    for _ in range(5):
        use("sqlite://")

    asyncio.run(eventually(lambda: not left_of(before)))


async def test_a_worker_goes_on_when_its_app_is_dropped(database_url: str) -> None:
    def worker() -> Worker:
        return make(database_url).worker()

    async with worker():
        gc.collect()
        other = make(database_url)
        job_id = await other.tasks["greet"].enqueue("Ada")
        assert (await other.wait(job_id, 10)).status is Status.SUCCEEDED
        await other.close()


def test_with_closes_it(database_url: str) -> None:
    before = set(threading.enumerate())

    with make(database_url) as app:
        assert app.tasks["greet"].enqueue_sync("Ada") == 1
        with pytest.raises(LookupError), app:
            raise LookupError

    asyncio.run(eventually(lambda: not left_of(before)))
    assert app.get_sync(1).status is Status.PENDING
    app.close_sync()


async def test_with_on_a_loop_is_refused_with_what_to_write(app: App) -> None:
    with pytest.raises(UsageError, match="write `async with app`"), app:
        pass
