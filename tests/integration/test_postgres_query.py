"""What people ask a Postgres themselves, word for word as the documents say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from rowlock import App
from tests.cluster.databases import Databases
from tests.cluster_fixtures import FreshDatabase
from tests.endings import finished

DEAD_LETTERS = (
    "SELECT task, attempts, last_error, updated_at FROM rowlock.jobs"
    " WHERE status = 'failed' ORDER BY updated_at DESC;"
)


def ask(databases: Databases, url: str, query: str) -> list[list[str]]:
    """Run a query in psql, or by the driver where there is none; rows of text."""
    beside = databases.cluster and databases.cluster.programs / "psql"
    program = beside if beside and beside.exists() else shutil.which("psql")
    if program is None:
        with psycopg.connect(url) as own:
            return [list(map(str, row)) for row in own.execute(query.encode())]
    told = subprocess.run(
        [Path(program), "--no-psqlrc", "--csv", "--tuples-only", url, "-c", query],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [line.split(",") for line in told.splitlines()]


async def test_the_query_for_dead_letters_works_as_it_is_written(
    fresh_database: FreshDatabase, databases: Databases
) -> None:
    url = fresh_database()
    app = App(url)

    @app.task(max_attempts=1)
    async def fail(number: int) -> None:
        raise ValueError(number)

    @app.task
    async def succeed() -> None: ...

    async with app, app.worker(concurrency=1):
        for number in range(3):
            await finished(app, [await fail.enqueue(number=number)])
        await finished(app, [await succeed.enqueue()])

    rows = ask(databases, url, DEAD_LETTERS)

    assert [row[:3] for row in rows] == [
        ["fail", "1", f"ValueError: {number}"] for number in (2, 1, 0)
    ]


async def test_who_may_read_the_view_needs_no_right_to_its_tables(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database()
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("DROP ROLE IF EXISTS analyst")
        own.execute("CREATE ROLE analyst")
        own.execute("GRANT USAGE ON SCHEMA rowlock TO analyst")
        own.execute("GRANT SELECT ON rowlock.jobs TO analyst")
        own.execute("SET ROLE analyst")
        assert own.execute(DEAD_LETTERS.encode()).fetchall() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            own.execute("SELECT FROM rowlock.live")
