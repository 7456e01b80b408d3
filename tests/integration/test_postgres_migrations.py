"""Migrations on Postgres: what they make, and that nobody loses a job by them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from psycopg import sql

from rowlock import App, ConfigError, SchemaMismatch, StoreError, StoreUnavailable
from rowlock.stores import connect
from rowlock.stores.postgres.migrate import all_migrations, check
from rowlock.stores.postgres.store import PostgresStore
from tests.catalogue import CHECKSUMS, SNAPSHOT, checksums, dump, recorded
from tests.eventually import eventually
from tests.migrations import NEWEST, bring, later, with_later

from .command_line import SOURCES


def rows(url: str, query: str, *names: str) -> list[tuple[Any, ...]]:
    """Run a query, with names for its {}."""
    filled = sql.SQL(query).format(*map(sql.Identifier, names))
    with psycopg.connect(url) as own:
        return own.execute(filled).fetchall()


async def test_all_migrations_make_the_catalogue_of_the_snapshot(
    each_empty_url: str,
) -> None:
    await bring(each_empty_url, all_migrations())

    assert dump(each_empty_url) == SNAPSHOT.read_text(), (
        f"{SNAPSHOT.name} is another: where the change is meant, write it anew with"
        " python -m tests.catalogue"
    )


def test_a_recorded_migration_never_changes() -> None:
    now, then = checksums(), recorded()

    changed = {file for file in then if now.get(file) != then[file]}
    assert not changed, (
        f"{changed} were released, and stand in databases as they were: undo the"
        " change, and make it in a new file. Where it was in no release yet, take its"
        f" line off {CHECKSUMS.name} and run python -m tests.catalogue"
    )
    assert now.keys() == then.keys(), "record the new one: python -m tests.catalogue"


def test_migrations_are_numbered_without_a_gap() -> None:
    versions = [each.version for each in all_migrations()]

    assert versions == list(range(1, len(versions) + 1))


@pytest.mark.parametrize("many", [2, 8])
def test_processes_that_migrate_at_once_apply_each_step_once(
    each_empty_url: str, many: int
) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "rowlock", "migrate", "--json"],
            env=os.environ
            | {"PYTHONPATH": str(SOURCES), "ROWLOCK_DATABASE_URL": each_empty_url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(many)
    ]
    told = [process.communicate(timeout=60) for process in started]

    assert [
        (process.returncode, errors)
        for process, (_, errors) in zip(started, told, strict=True)
    ] == [(0, "")] * many
    applied = [json.loads(output)["applied"] for output, _ in told]
    assert sorted(map(len, applied)) == [0] * (many - 1) + [NEWEST]
    assert dump(each_empty_url) == SNAPSHOT.read_text()


@pytest.mark.parametrize(
    "schema", ['My "Schema"', "it's 100% {now} {ids}", "Ünïcode; DROP", "select"]
)
async def test_a_job_lives_its_whole_life_in_a_schema_of_any_name(
    each_empty_url: str, schema: str
) -> None:
    def ask(query: str) -> list[tuple[Any, ...]]:
        return rows(each_empty_url, query, schema)

    url = f"{each_empty_url}?schema={schema.replace('%', '%25')}"
    await connect(url).migrate()
    async with App(url) as app:

        @app.task(max_attempts=1)
        async def halve(n: int) -> float:
            return 1 / n

        async with app.worker():
            ids = [await halve.enqueue(n=2), await halve.enqueue(n=0)]
            # It wakes the worker, since its connection commits as it closes.
            ids += ask("SELECT {}.enqueue('halve', '{{\"n\": 4}}'::jsonb)")[0]

            async def are_done() -> bool:
                jobs = (await app.list()).jobs
                return len(jobs) == 3 and all(job.status.is_final for job in jobs)

            await eventually(are_done, within=10)
        found = ask("SELECT id, status, result FROM {}.jobs ORDER BY id")
        good, bad = ("succeeded", "failed")
        assert [status for _, status, _ in found] == [good, bad, good]
        assert [result for *_, result in found] == [0.5, None, 0.25]
        assert [job_id for job_id, *_ in found] == ids
        assert ask(f"SELECT {{}}.replay({ids[1]})") == [("done",)]
        assert [str(each) for each in await app.cancel(ids[1] or 0)] == ["done"]
        with pytest.raises(psycopg.Error, match="read-only"):
            ask("DELETE FROM {}.jobs RETURNING id")
    assert rows(each_empty_url, "SELECT to_regnamespace('rowlock')") == [(None,)]


@pytest.mark.parametrize("is_empty", [True, False])
async def test_a_migration_that_fails_midway_leaves_nothing(
    each_empty_url: str, *, is_empty: bool
) -> None:
    if not is_empty:
        await bring(each_empty_url, all_migrations())
    before = dump(each_empty_url)
    fails = later(
        "CREATE TABLE {schema}.half (id bigint);"
        "ALTER TABLE {schema}.live DROP COLUMN state CASCADE;"
        "SELECT 1 / 0;"
        "CREATE TABLE {schema}.whole (id bigint);"
    )

    with pytest.raises(StoreError, match="division by zero"):
        await bring(each_empty_url, with_later(fails))

    assert dump(each_empty_url) == before
    made = rows(each_empty_url, "SELECT to_regnamespace('rowlock')::text")
    assert made == [(None if is_empty else "rowlock",)]
    # And the next that is right is applied.
    assert (await bring(each_empty_url, with_later()))[-1].version == NEWEST + 1


async def test_a_migration_that_is_held_up_for_too_long_names_who_does(
    each_url: str,
) -> None:
    before = dump(each_url)
    with psycopg.connect(each_url, application_name="a report") as own:
        own.execute("SELECT count(*) FROM rowlock.jobs")
        who = f"session {own.info.backend_pid} of {own.info.user} (a report)"
        with pytest.raises(StoreUnavailable) as refusal:
            await bring(each_url, with_later(), tries=2)

    said = str(refusal.value)
    assert who in said
    assert "in a transaction since 20" in said
    assert dump(each_url) == before


@pytest.mark.parametrize(("ahead", "is_served"), [(1, True), (2, False)])
async def test_a_worker_serves_the_schema_of_the_next_version_and_no_later_one(
    each_url: str, *, ahead: int, is_served: bool
) -> None:
    steps = [later(ahead=1), later("SELECT;", ahead=2)][:ahead]
    await bring(each_url, with_later(*steps))
    app = App(each_url)

    @app.task
    async def mail() -> None: ...

    if is_served:
        assert await mail.enqueue() == 1
        assert await app._store.migrate() == ()
    else:
        for call in (mail.enqueue, app._store.migrate):
            with pytest.raises(SchemaMismatch, match=f"version {NEWEST + 2}.*upgrade"):
                await call()
    await app.close()


async def test_another_text_of_a_version_is_refused(each_url: str) -> None:
    with psycopg.connect(each_url) as own:
        own.execute("UPDATE rowlock.migrations SET checksum = 'x' WHERE version = 2")

    store = connect(each_url)
    for call in (store.open, store.migrate):
        with pytest.raises(SchemaMismatch, match=r"another text of schema version 2"):
            await call()
    await store.close()


async def test_a_table_of_somebody_elses_is_not_taken_for_ours(
    each_empty_url: str,
) -> None:
    with psycopg.connect(each_empty_url) as own:
        own.execute("CREATE TABLE public.migrations (id integer, batch integer)")
    store = connect(f"{each_empty_url}?schema=public")

    for call in (store.open, store.migrate):
        with pytest.raises((SchemaMismatch, ConfigError), match=r"\?schema="):
            await call()
    await store.close()


async def test_a_schema_that_was_made_for_us_is_used(each_empty_url: str) -> None:
    with psycopg.connect(each_empty_url) as own:
        own.execute("CREATE SCHEMA rowlock")

    store = PostgresStore.from_url(each_empty_url)
    assert len(await store.migrate()) == NEWEST
    async with store._apart() as session:
        await check(session, "rowlock", store.url)
