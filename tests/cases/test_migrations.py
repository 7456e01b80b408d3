"""Migrations under load, on real data, and new code on an old schema."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import sql

import rowlock
from rowlock import App, SchemaMismatch, Status
from rowlock._store import Demand
from rowlock.stores.postgres import PostgresStore
from rowlock.stores.postgres.migrate import all_migrations
from tests.conformance.given import new_job
from tests.endings import finished
from tests.eventually import eventually
from tests.migrations import NEWEST, bring, with_later

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Relations: TypeAlias = list[tuple[str, list[str]]]

SOURCES = Path(rowlock.__file__).parent.parent

# Every state there is, and in each: with and without what may be null, a payload of a
# megabyte, a key that other jobs had before, and texts that no version has a name for.
FILL = """
    INSERT INTO rowlock.live (
        run_at, created_at, updated_at, priority, max_attempts, queue, task, payload,
        status, leased_until, finished_at, worker, claims, attempts, timeout, backoff,
        idempotency_key, meta, errors, state, progress, last_error, expires_at
    )
    SELECT
        now() + n * interval '1 hour', now(), now(), n, 3, 'queue ' || n,
        chr(233) || n,
        CASE n WHEN 2 THEN json_build_object('big', repeat('x', 1000000))
            ELSE '{"n": 1e22, "m": -0.0}' END,
        status,
        CASE status WHEN 'running' THEN now() + interval '1 hour' END,
        CASE WHEN status IN ('succeeded', 'failed', 'cancelled') THEN now() END,
        CASE status WHEN 'running' THEN 'w-1' END, n, n,
        CASE n WHEN 1 THEN 1.5 END,
        CASE n WHEN 1 THEN '{"kind": "unheard of", "values": []}'::json END,
        CASE WHEN n = 1 THEN 'key of ' || status WHEN n = 2 THEN 'key' || status END,
        CASE n WHEN 1 THEN '{"trace": "\\u00e9"}'::jsonb ELSE '{}' END,
        CASE n WHEN 1 THEN '[{"event": "unheard of"}]'::jsonb ELSE '[]' END,
        CASE n WHEN 1 THEN 'null'::json END, CASE n WHEN 2 THEN '[0.5, null]'::json END,
        CASE n WHEN 1 THEN repeat('e', 10000) END,
        CASE n WHEN 1 THEN 'infinity'::timestamptz END
    FROM unnest(ARRAY['pending', 'running', 'succeeded', 'failed', 'cancelled'])
        AS status,
        generate_series(0, 2) AS n;
    INSERT INTO rowlock.history (
        run_at, created_at, started_at, finished_at, updated_at, priority, max_attempts,
        queue, task, payload, result, status, idempotency_key
    )
    SELECT
        now(), now(), now(), now(), now(), 0, 3, 'q', 'duplicate', '{}',
        CASE n WHEN 1 THEN 'null'::json END, status, 'the same key'
    FROM unnest(ARRAY['succeeded', 'cancelled']) AS status, generate_series(0, 2) AS n;
    INSERT INTO rowlock.tasks VALUES
        ('mail', 'letters', '{"max_attempts": 5}', now()), ('odd', 'q', '{}', now());
    INSERT INTO rowlock.pauses VALUES (NULL, 'mail', NULL, NULL, NULL, now());
    INSERT INTO rowlock.workers (
        id, host, pid, version, rowlock, tasks, queues, concurrency, lease, started_at,
        seen_at
    )
    VALUES ('w-1', 'host', 1, '0', '0', '{mail}', NULL, 5, '5 min', now(), now());
"""


async def test_b99_new_code_on_the_schema_before_says_what_to_run(
    each_empty_url: str,
) -> None:
    await bring(each_empty_url, all_migrations()[:-1])
    says = rf"version {NEWEST - 1}, and this Rowlock needs {NEWEST}: run `rowlock mig"
    app = App(each_empty_url)

    @app.task
    async def mail() -> None: ...

    with pytest.raises(SchemaMismatch, match=says):
        await mail.enqueue()
    async with await psycopg.AsyncConnection.connect(each_empty_url) as own:
        with pytest.raises(SchemaMismatch, match=says):
            await mail.options(connection=own).enqueue()
    with pytest.raises(SchemaMismatch, match=says):
        await app.worker().run()
    await app.close()


def test_b99_a_worker_on_the_schema_before_ends_with_4(
    each_empty_url: str, tmp_path: Path
) -> None:
    asyncio.run(bring(each_empty_url, all_migrations()[:-1]))
    (tmp_path / "shop.py").write_text(
        "from rowlock import App\n\napp = App()\n\n@app.task\ndef note(): ...\n"
    )

    ran = subprocess.run(
        [sys.executable, "-m", "rowlock", "worker", "shop:app", "--no-supervisor"],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": str(SOURCES), "ROWLOCK_DATABASE_URL": each_empty_url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 4
    assert ran.stderr.splitlines()[-1].startswith("Error: The database postgresql://")
    assert f"needs {NEWEST}: run `rowlock migrate`." in ran.stderr


async def test_b100_workers_and_clients_go_on_while_the_next_version_migrates(
    each_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no released pair yet: the next version is an additive migration."""
    caplog.set_level(logging.WARNING, "rowlock")
    ran: Counter[int] = Counter()

    def an_app() -> App:
        app = App(each_url)

        @app.task(max_attempts=1)
        async def note(n: int) -> None:
            ran[n] += 1

        return app

    old, new = an_app(), an_app()
    ids: list[int | None] = []

    async def load(app: App, numbers: range) -> None:
        note = app.find_task("note")
        ids.extend([await note.enqueue(n=n) for n in numbers])

    async with old, old.worker(concurrency=4):
        await load(old, range(50))
        loading = asyncio.create_task(load(old, range(50, 300)))
        await bring(each_url, with_later())
        async with new, new.worker(concurrency=4):
            await asyncio.gather(loading, load(new, range(300, 500)))
            await load(old, range(500, 550))
            over = await finished(old, ids, within=60)

    assert {job.status for job in over} == {Status.SUCCEEDED}
    assert ran == Counter(range(550))
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@dataclass
class Claimer:
    """Enqueues and claims without end, and notes how long it was kept waiting."""

    store: PostgresStore
    claimed: int = 0
    longest: float = 0.0

    async def run(self) -> None:
        demand = Demand(total=5, tasks=frozenset({"task"}))
        while True:
            began = time.monotonic()
            await self.store.enqueue([new_job()])
            answer = await self.store.claim(
                demand, worker="w", lease=timedelta(minutes=5)
            )
            self.claimed += len(answer.claims)
            self.longest = max(self.longest, time.monotonic() - began)
            # Six of them would leave the server no time for anything else.
            await asyncio.sleep(0.02)


async def test_b101_a_migration_waits_without_holding_anybody_up(
    each_url: str, scale: int
) -> None:
    store = PostgresStore.from_url(each_url)
    await store.open()
    claimer = Claimer(store)
    claiming = [asyncio.create_task(claimer.run()) for _ in range(6)]
    with held_up(each_url):
        migrating = asyncio.create_task(bring(each_url, with_later()))
        # As long as a transaction of somebody's lasts.
        await asyncio.sleep(3 + 0.7 * scale)
        assert not migrating.done()
        meanwhile = claimer.claimed
    let_go = time.monotonic()
    applied = await migrating
    took = time.monotonic() - let_go
    await eventually(lambda: claimer.claimed > meanwhile + 20)
    # None of them has ended by an error.
    assert not any(each.done() for each in claiming)
    for each in claiming:
        each.cancel()
    await asyncio.wait(claiming)
    await store.close()

    assert [each.version for each in applied] == [NEWEST + 1]
    assert meanwhile > 100
    assert claimer.longest < 2
    assert took < 5


@contextmanager
def held_up(url: str) -> Iterator[None]:
    """Have somebody's transaction read the table, and go on."""
    with psycopg.connect(url) as own:
        own.execute("SELECT count(*) FROM rowlock.live")
        yield
        own.rollback()


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
async def test_b102_a_schema_with_real_data_migrates_and_keeps_it(
    each_empty_url: str, version: int
) -> None:
    """Down is no way that Rowlock goes: a migration is undone by the next one."""
    await bring(each_empty_url, all_migrations()[:version])
    with psycopg.connect(each_empty_url, autocommit=True) as own:
        own.execute(FILL)
        columns = columns_of(own)
        before = digests(own, columns)

        await bring(each_empty_url, with_later())

        assert digests(own, columns) == before
        assert columns_of(own) != columns
        # An instant that Python has no number for is refused now, and was not then.
        own.execute("UPDATE rowlock.live SET expires_at = NULL")
    async with App(each_empty_url) as app:
        assert len((await app.list()).jobs) == 21
        failed = [job.id for job in (await app.list()).jobs if job.status == "failed"]
        assert [str(each) for each in await app.replay(failed)] == ["done"] * 3


def columns_of(own: Connection) -> Relations:
    found = own.execute(
        "SELECT relname, array_agg(attname::text ORDER BY attnum)"
        " FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
        " WHERE relnamespace = 'rowlock'::regnamespace AND relkind IN ('r', 'p', 'v')"
        " AND NOT relispartition AND attnum > 0 AND relname <> 'migrations'"
        " GROUP BY relname ORDER BY relname"
    )
    return [(relation, columns) for relation, columns in found]


def digests(
    own: Connection, relations: list[tuple[str, list[str]]]
) -> dict[str, list[str]]:
    """Tell each row of each relation by what it holds, as it was written."""
    return {
        relation: sorted(
            hashlib.sha256(repr(row).encode()).hexdigest()
            for row in own.execute(
                sql.SQL("SELECT ({})::text FROM rowlock.{}").format(
                    sql.SQL(", ").join(map(sql.Identifier, columns)),
                    sql.Identifier(relation),
                )
            )
        )
        for relation, columns in relations
    }
