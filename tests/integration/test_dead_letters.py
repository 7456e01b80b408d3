"""Dead letters by the hundred thousand: grouped within a second on either store."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rowlock import App, Filter
from rowlock.stores.postgres import PostgresStore, dead_letters
from tests.cluster.databases import Databases

from . import crowds
from .plans import Plans

GROUPS = 50

# As a provider's outage leaves them: a few errors, each with a traceback of 8 KiB.
_POSTGRES = """
    INSERT INTO rowlock.live (
        status, queue, task, priority, run_at, created_at, updated_at, max_attempts,
        payload, claims, attempts, finished_at, last_error, fingerprint, errors,
        idempotency_key
    )
    SELECT
        'failed', 'queue-' || n %% 3, 'task-' || n %% 5, 0, at, at, at, 3, '{}', 1, 1,
        at, 'ValueError: x', to_hex(n %% 50),
        jsonb_build_array(jsonb_build_object(
            'type', 'ValueError', 'message', 'x', 'version', '1.' || n %% 2,
            'traceback', repeat(md5(n::text), 8)
        )),
        CASE WHEN n %% 2 = 0 THEN 'key-' || n / 4 END
    FROM generate_series(1, %(rows)s) AS n
    CROSS JOIN LATERAL (SELECT now() - n * interval '1 ms' AS at) AS made
"""
_SQLITE = """
    WITH RECURSIVE numbers (n) AS (
        SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows
    )
    INSERT INTO rowlock_rows (
        status, queue, task, priority, run_at, created_at, updated_at, max_attempts,
        payload, claims, attempts, finished_at, last_error, fingerprint, errors,
        idempotency_key
    )
    SELECT
        'failed', 'queue-' || (n % 3), 'task-' || (n % 5), 0, n, n, n, 3, '{}', 1, 1,
        1000000 - n, 'ValueError: x', printf('%x', n % 50),
        json_array(json_object(
            'type', 'ValueError', 'message', 'x', 'version', '1.' || (n % 2),
            'traceback', hex(randomblob(128))
        )),
        CASE WHEN n % 2 = 0 THEN 'key-' || (n / 4) END
    FROM numbers
"""


@pytest.fixture
def rows(scale: int) -> int:
    """How many dead letters there are."""
    return 10_000 * scale


@pytest.fixture
async def in_sqlite(tmp_path: Path, rows: int) -> str:
    """A file with that many dead letters; its URL."""
    path = tmp_path / "dead.db"
    async with App(f"sqlite:///{path}") as app:
        with closing(sqlite3.connect(path)) as own:
            own.execute(_SQLITE, {"rows": rows})
            own.commit()
        return app.url


@pytest.fixture(params=["never counted", "counted"])
def in_postgres(
    request: pytest.FixtureRequest, each_postgres: Databases, rows: int
) -> Iterator[str]:
    """A database with that many dead letters, as the planner may find it."""
    url = each_postgres.clone()
    with psycopg.connect(url, autocommit=True) as admin:
        crowds.leave_unattended(admin)
        admin.execute(_POSTGRES, {"rows": rows})
        if request.param == "counted":
            admin.execute("VACUUM ANALYZE")
    yield url
    each_postgres.drop(url)


async def test_many_dead_letters_are_grouped_at_once_in_sqlite(
    in_sqlite: str, rows: int
) -> None:
    await look(in_sqlite, rows)


async def test_many_dead_letters_are_grouped_at_once_in_postgres(
    in_postgres: str, rows: int
) -> None:
    await look(in_postgres, rows)


async def look(url: str, rows: int) -> None:
    """Group them, and print how long that took; pytest shows it with -rP."""
    async with App(url) as app:
        began = time.perf_counter()
        found = await app.dead()
        took = time.perf_counter() - began
        some = await app.dead(task="task-0", queue="queue-0")
        newest = await app.get(found[0].newest)
        of_one = await app._store.search(
            Filter(task=found[0].task, fingerprint=found[0].fingerprint), limit=rows
        )

    assert len(found) == GROUPS
    assert sum(group.count for group in found) == rows
    assert found[0].newest == 1
    assert (found[0].version, found[0].error) == ("1.1", "ValueError: x")
    assert newest.finished_at == found[0].last_seen
    assert sum(group.count for group in some) == len(range(15, rows + 1, 15))
    assert len(of_one.ids) == found[0].count
    assert took < 1
    where = url.partition(":")[0]
    sys.stdout.write(f"{where}: {rows:,} dead letters grouped in {took:.3f} s\n")


async def test_grouping_reads_each_dead_letter_once_in_postgres(
    in_postgres: str, rows: int
) -> None:
    store = PostgresStore.from_url(in_postgres)
    await store.open()
    session = await store._database.connect()
    plans = await Plans.of(session, store._database.statements)
    await dead_letters.groups(session, task=None, queue=None, limit=10)
    began = time.perf_counter()
    await dead_letters.replayable(session, task="task-1", limit=10)
    took = time.perf_counter() - began
    await session.close()
    await store.close()

    (grouped,) = plans.named("dead_groups")
    # What a bitmap's index gives, its heap gives again.
    parts = [p for p in grouped.parts if p.is_of_jobs and "Bitmap Index" not in p.kind]
    assert "Seq Scan" not in {part.kind for part in parts}
    # And of each group one more, by its index and by its id.
    assert sum(part.given + part.left_out for part in parts) <= rows + 2 * 10
    (chosen,) = plans.named("replayable")
    assert "Seq Scan" not in {part.kind for part in chosen.parts if part.is_of_jobs}
    assert took < 1
