"""Through a pooler in transaction mode: a real PgBouncer, whose sessions all share."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rowlock import App, Filter, Retention, Status
from rowlock.stores.postgres import PostgresStore
from rowlock.testing import FakeClock
from tests.cluster_fixtures import FreshDatabase, Pooler
from tests.endings import ended, finished, known
from tests.eventually import eventually

from .ills import cures, examine, only
from .postgres_given import opened
from .proxy import between
from .test_postgres_retention import FIRST_DAY, fill, reading, tables

# Whatever somebody else would find of us in a session of the server.
LEFT = """
    SELECT
        (SELECT json_object_agg(name, setting) FROM pg_settings
            WHERE source IN ('session', 'override') AND name NOT LIKE 'transaction_%'
            -- A pooler itself gives each client its own.
            AND name <> 'application_name')
            ::text,
        (SELECT count(*) FROM pg_prepared_statements),
        (SELECT count(*) FROM pg_listening_channels()),
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
            AND database = (SELECT oid FROM pg_database
                WHERE datname = current_database()))
"""


def left_in(pooled: str) -> tuple[Any, ...] | None:
    """Ask as another client of the pooler, which has one session of the server."""
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as other:
        return other.execute(LEFT).fetchone()


async def test_b64_nothing_of_ours_is_left_in_sessions_that_others_get(
    fresh_database: FreshDatabase, pooler: Pooler
) -> None:
    pooled = pooler(fresh_database(empty=True), size=1)
    before = left_in(pooled)
    assert before is not None
    assert before[1:] == (0, 0, 0)
    app = App(pooled)

    @app.task(max_attempts=2, backoff=0)
    async def mail(number: int) -> int:
        return 6 // number

    await app._store.migrate()
    async with app, app.worker():
        ids = await app.enqueue_many(mail.job(number=n % 3) for n in range(20))
        await finished(app, ids)
        await app.stats()
        await app.list(Filter())
        await app.replay(known(ids[0]))
        await app._store.prune(Retention(succeeded=0, cancelled=0, failed=0), limit=100)
        await app.doctor()
        await asyncio.sleep(0.5)  # real: for its thread to have tried to listen

    assert left_in(pooled) == before


async def test_b63_workers_share_three_sessions_without_a_word_of_complaint(
    url: str, pooler: Pooler, scale: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    pooled, workers = pooler(url, size=3), 6
    failed: set[int] = set()

    async def mail(number: int) -> int:
        if number % 7 == 0 and number not in failed:
            failed.add(number)
            raise LookupError(number)
        return number

    count = 50 * workers * scale
    async with AsyncExitStack() as stack:
        for _ in range(workers):
            app = await stack.enter_async_context(App(pooled))
            task = app.task(name="mail", backoff=0)(mail)
            await stack.enter_async_context(app.worker(concurrency=5, lease=2))
        ids = await app.enqueue_many(task.job(number=n) for n in range(count))
        looking = asyncio.create_task(look(app, url))
        jobs = await finished(app, ids, within=60 * scale)
        looking.cancel()
        states = (await asyncio.gather(looking))[0]

    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert [job.attempts for job in jobs] == [1 + (n % 7 == 0) for n in range(count)]
    assert "idle in transaction (aborted)" not in states
    told = {record.getMessage() for record in caplog.records}
    # That nobody can be told of news; and the failures, of course.
    assert {text for text in told if "attempt.failed" not in text} <= {
        text for text in told if "set ROWLOCK_DIRECT_URL" in text
    }


async def look(app: App, url: str) -> set[str]:
    """Look on as a dashboard does until cancelled; what states sessions were in."""
    states: set[str] = set()
    with suppress(asyncio.CancelledError):
        while True:
            await app.stats()
            await app.list(Filter())
            states |= session_states(url)
    return states


def session_states(url: str) -> set[str]:
    with psycopg.connect(url, autocommit=True) as own:
        return {
            str(state)
            for (state,) in own.execute(
                "SELECT state FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        }


async def test_b59_without_a_direct_url_nobody_listens_and_jobs_are_looked_for(
    url: str, pooler: Pooler, caplog: pytest.LogCaptureFixture
) -> None:
    app, feeder = App(pooler(url)), App(url)
    for each in (app, feeder):
        each.task(name="mail")(nothing)
    async with app, feeder, app.worker():
        await eventually(lambda: "set ROWLOCK_DIRECT_URL" in caplog.text)
        enqueued_at = time.monotonic()
        await ended(feeder, await feeder.tasks["mail"].enqueue())
        assert time.monotonic() - enqueued_at < 2 + 1

        # Of its own it needs nobody to tell.
        enqueued_at = time.monotonic()
        await ended(app, await app.tasks["mail"].enqueue())
        assert time.monotonic() - enqueued_at < 1

    assert caplog.text.count("no new job is heard of") == 1


@pytest.mark.parametrize("through", ["the server itself", "a pooler in session mode"])
async def test_with_a_direct_url_news_are_heard_past_the_pooler(
    url: str, pooler: Pooler, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    past = url if through == "the server itself" else pooler(url, mode="session")
    monkeypatch.setenv("ROWLOCK_DIRECT_URL", past)
    app = App(pooler(url))
    monkeypatch.delenv("ROWLOCK_DIRECT_URL")
    feeder = App(url)
    for each in (app, feeder):
        each.task(name="mail")(nothing)
    async with app, feeder, app.worker():
        await eventually(lambda: app._store._database.is_hearing)  # type: ignore[attr-defined]  # a Postgres store
        for _ in range(5):
            enqueued_at = time.monotonic()
            await ended(feeder, await feeder.tasks["mail"].enqueue())
            assert time.monotonic() - enqueued_at < 1


async def test_a_direct_url_that_leads_to_such_a_pooler_is_named(
    url: str,
    pooler: Pooler,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pooled = pooler(url)
    monkeypatch.setenv("ROWLOCK_DIRECT_URL", pooled)
    async with opened(pooled) as store:
        wakeups = store.wakeups()
        await wakeups.wait(timedelta(milliseconds=10))

        await eventually(lambda: "ROWLOCK_DIRECT_URL leads to a pooler" in caplog.text)

        assert not store._database.is_hearing
        wakeups.close()


async def test_a_migration_goes_past_the_pooler(
    fresh_database: FreshDatabase, pooler: Pooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = fresh_database(empty=True)
    async with between(url) as proxy:
        monkeypatch.setenv("ROWLOCK_DIRECT_URL", proxy.url)
        store = PostgresStore.from_url(pooler(url))
        assert len(await store.migrate()) > 0
        assert len(proxy.connected) == 1


async def test_a_migration_is_done_through_the_pooler_where_nothing_leads_past_it(
    fresh_database: FreshDatabase,
    pooler: Pooler,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("ROWLOCK_DIRECT_URL", "postgresql://127.0.0.1:1/nowhere")
    store = PostgresStore.from_url(pooler(fresh_database(empty=True)))

    assert len(await store.migrate()) > 0

    assert "(ROWLOCK_DIRECT_URL) is out of reach" in caplog.text
    await store.open()
    await store.close()


async def test_old_days_are_dropped_through_the_pooler_while_nobody_reads(
    url: str, pooler: Pooler, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    fill(url, clock)
    clock.advance(timedelta(days=5))
    keep = Retention(succeeded=3 * 86400, cancelled=3 * 86400, failed=3 * 86400)
    async with opened(pooler(url), clock=clock) as store:
        with reading(url):
            began_at = time.monotonic()
            await store.prune(keep, limit=1000)
            assert time.monotonic() - began_at < 2
            assert tables(url)[FIRST_DAY] == "attached"
        assert caplog.text.count("ROWLOCK_DIRECT_URL") == 1

        pruned = await store.prune(keep, limit=1000)

    assert FIRST_DAY not in tables(url)
    assert pruned.deleted > 0


async def test_the_doctor_names_a_pooler_until_something_leads_past_it(
    url: str,
    pooler: Pooler,
    fresh_database: FreshDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pooled = pooler(url)

    finding = await only(pooled, "pooler")
    assert finding.severity == "warning"
    assert cures(finding) == ["ROWLOCK_DIRECT_URL"]

    monkeypatch.setenv("ROWLOCK_DIRECT_URL", url)
    assert await examine(pooled, "pooler") == []

    monkeypatch.setenv("ROWLOCK_DIRECT_URL", pooled)
    assert "session mode only" in (await only(pooled, "pooler")).what

    monkeypatch.setenv("ROWLOCK_DIRECT_URL", fresh_database())
    assert (await only(pooled, "pooler")).severity == "wrong"


async def nothing() -> None:
    """Do nothing."""
