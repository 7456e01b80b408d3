"""The schema and the statements: what people query, and which index each one uses."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import takewhile
from pathlib import Path

import pytest

from rowlock import _outcome
from rowlock._filter import Filter
from rowlock.stores import _sql
from rowlock.stores.sqlite import connection as connections
from rowlock.stores.sqlite import migrate
from rowlock.stores.sqlite.statements import PACKAGE, SQL
from rowlock.testing import FakeClock

from .sqlite_given import a_users, claim, new_job, opened

SOURCE = resources.files(PACKAGE)
HEADERS = {
    name: "".join(takewhile(lambda line: line.startswith("--"), lines))
    for name in SQL
    if (lines := (SOURCE / "sql" / f"{name}.sql").read_text().splitlines(keepends=True))
}
NEEDS = {
    name: set(re.findall(r"\browlock_\w+", header))
    for name, header in HEADERS.items()
    if "Needs" in header or "Steps through" in header
}
FIRST = "fa2c8e318a0661cd8875b93039734963a4b431835acaf8c24539514b30eacc97"
# Design §5, the relation that people query.
COLUMNS = """
    id queue task payload status priority run_at expires_at claims attempts failures
    losses max_attempts timeout backoff idempotency_key leased_until worker
    cancel_requested_at last_error errors result state progress meta created_at
    started_at finished_at updated_at
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that doesn't exist yet."""
    return tmp_path / "jobs.db"


@pytest.fixture(scope="module", params=["empty", "crowded, and analyzed"])
def connection(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    """A database as the planner may find it."""
    with closing(
        connections.connect_writer(
            ":memory:", synchronous="full", autocheckpoint=True, trace=None
        )
    ) as made:
        migrate.migrate(made, 0, path=":memory:")
        if request.param != "empty":
            _crowd(made)
        yield made


def _crowd(connection: sqlite3.Connection) -> None:
    """Fill it with jobs that are nearly all alike, and have SQLite count them."""
    chance = random.Random(1)
    for n in range(5000):
        status = (
            "succeeded" if n % 50 else chance.choice(["pending", "running", "failed"])
        )
        connection.execute(
            "INSERT INTO rowlock_rows (status, queue, task, payload, priority, run_at,"
            " max_attempts, created_at, updated_at, leased_until, finished_at, worker,"
            " idempotency_key) VALUES (?, 'default', 'task', '{}', 0, ?, 3, 0, 0, ?, ?,"
            " 'w', ?)",
            (
                status,
                n,
                n if status == "running" else None,
                None if status in ("pending", "running") else n,
                f"key-{n}" if n % 10 == 0 else None,
            ),
        )
    connection.execute("ANALYZE")


def plan(connection: sqlite3.Connection, name: str) -> str:
    values = dict.fromkeys(re.findall(r":([a-z_]+)", SQL[name]), 1)
    found = connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", values).fetchall()
    return "\n".join(detail for *_, detail in found)


@pytest.mark.parametrize("name", NEEDS)
def test_a_statement_uses_the_index_that_its_header_names(
    connection: sqlite3.Connection, name: str
) -> None:
    used = set(re.findall(r"INDEX (rowlock_\w+)", plan(connection, name)))

    # An ON CONFLICT has no plan: without its index it wouldn't even be prepared.
    assert used == NEEDS[name] or name == "enqueue_keyed"


COPIES = {"census", "copy_jobs", "damaged"}


@pytest.mark.parametrize("name", sorted(SQL))
def test_no_statement_reads_the_whole_table(
    connection: sqlite3.Connection, name: str
) -> None:
    # What is copied is read whole.
    if SQL[name].startswith(("PRAGMA", "CREATE")) or name in COPIES:
        return

    assert not re.search(
        r"SCAN (rowlock_rows|line|other|later)(?! USING)", plan(connection, name)
    )


BY_ID = [
    name
    for name in SQL
    if re.search(r":ids?\b", SQL[name]) and name not in {*COPIES, "copy_job"}
    if "worker" not in name
]


@pytest.mark.parametrize("name", BY_ID)
def test_what_is_asked_by_id_is_found_by_id(
    connection: sqlite3.Connection, name: str
) -> None:
    first = plan(connection, name).removeprefix("MATERIALIZE job\n")

    assert first.startswith("SEARCH rowlock_rows USING INTEGER PRIMARY KEY (rowid=?)")


@pytest.mark.parametrize("name", ["counts", "dead_groups", "lines", "queues", "prune"])
def test_what_reads_many_rows_reads_their_index_alone(
    connection: sqlite3.Connection, name: str
) -> None:
    many = re.findall(
        r"USING (.*)INDEX rowlock_(?:pending|finished|dead)", plan(connection, name)
    )

    assert set(many) == {"COVERING "}


def test_every_statement_is_run_somewhere() -> None:
    code = "".join(
        file.read_text() for file in Path(str(SOURCE)).glob("*.py") if file.is_file()
    )

    assert not {name for name in SQL if f'"{name}"' not in code}


def test_the_first_migration_is_the_one_that_was_released() -> None:
    # Whoever has applied it keeps its checksum: a change is a migration of its own.
    (first, *_) = migrate.all_migrations()

    assert (first.version, first.name) == (1, "jobs")
    assert _sql.checksum(first) == FIRST


def test_migrations_are_numbered_without_a_gap() -> None:
    versions = [each.version for each in migrate.all_migrations()]

    assert versions == list(range(1, len(versions) + 1))


def test_a_script_is_cut_into_its_statements() -> None:
    script = """
-- a comment; with a semicolon
CREATE TABLE a (n); CREATE TABLE b (n);
CREATE TRIGGER t INSERT ON a
BEGIN
    INSERT INTO b VALUES (';');
    DELETE FROM b;
END;
"""

    first, trigger = migrate.split(script)

    assert "TABLE a" in first
    assert trigger.startswith("CREATE TRIGGER")
    assert trigger.endswith("END;")


async def test_the_view_has_every_column_people_query(path: Path) -> None:
    async with opened(path):
        pass
    with a_users(path) as own:
        found = own.execute("SELECT * FROM rowlock_jobs").description

    assert {name for name, *_ in found} >= set(COLUMNS.split())


async def test_the_promised_query_works_as_written(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job(max_attempts=1)] * 3)
        for held in (await claim(store, 2)).claims:
            error = {"type": "ValueError", "message": "no stock", "traceback": None}
            await store.finish([_outcome.failed(held, error, timedelta(0))])
    with a_users(path) as own:
        found = own.execute(
            "SELECT task, attempts, last_error, updated_at FROM rowlock_jobs"
            " WHERE status = 'failed' ORDER BY updated_at DESC"
        ).fetchall()

    assert [row[:3] for row in found] == [("task", 1, "ValueError: no stock")] * 2
    assert all(datetime.fromisoformat(row[3]).tzinfo for row in found)


INSTANTS = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(1001, 2, 3, 4, 5, 6, 7, tzinfo=UTC),
    datetime(2038, 1, 19, 3, 14, 8, 1, tzinfo=UTC),
    datetime(2100, 2, 28, 12, 0, 0, 500000, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]


async def test_instants_are_shown_as_they_are_kept_to_the_microsecond(
    path: Path, clock: FakeClock
) -> None:
    clock.advance(timedelta(microseconds=123))
    async with opened(path, clock=clock) as store:
        ids = await store.enqueue([new_job(run_at=each) for each in INSTANTS])
        jobs = await store.get([job_id for job_id in ids if job_id])
    with a_users(path) as own:
        shown = own.execute("SELECT run_at, created_at FROM rowlock_jobs").fetchall()

    assert [job.run_at for job in jobs] == INSTANTS
    assert [datetime.fromisoformat(run_at) for run_at, _ in shown] == INSTANTS
    assert {created_at for _, created_at in shown} == {"2026-01-01T00:00:00.000123Z"}


@pytest.mark.parametrize(
    ("statement", "verb"),
    [
        ("INSERT INTO rowlock_jobs (task) VALUES ('task')", "enqueue"),
        ("UPDATE rowlock_jobs SET status = 'pending'", "replay"),
        ("DELETE FROM rowlock_jobs", "delete"),
    ],
)
async def test_a_write_to_the_view_is_refused_and_names_the_verb(
    path: Path, statement: str, verb: str
) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
        with a_users(path) as own, pytest.raises(sqlite3.IntegrityError, match=verb):
            own.execute(statement)

        assert len((await store.list(Filter())).jobs) == 1


async def test_b53_ids_beyond_32_and_53_bits_are_kept_exactly(path: Path) -> None:
    async with opened(path) as store:
        await store.enqueue([new_job()])
        for start in (2**31 - 10, 2**53 - 10, 2**62):
            with a_users(path) as own:
                own.execute("UPDATE sqlite_sequence SET seq = ?", (start,))
                own.commit()
            ids = [job_id or 0 for job_id in await store.enqueue([new_job()] * 20)]
            assert ids == list(range(start + 1, start + 21))
            assert [job.id for job in await store.get(ids)] == ids
            page = await store.list(Filter(ids=tuple(ids)), limit=7)
            assert [job.id for job in page.jobs] == ids[:-8:-1]
            await store.move(ids, by="test", priority=1)
            held = (await claim(store, 20)).claims
            assert [each.job_id for each in held] == ids
            answers = await store.finish([_outcome.cancelled(h.key) for h in held])
            assert all(answer.accepted for answer in answers)
            assert all(answer.done for answer in await store.replay(ids, by="test"))
            await store.cancel(ids, by="test")
            assert all(answer.done for answer in await store.delete(ids))


async def test_b01_a_row_broken_by_hand_fails_nobody_elses_claim(path: Path) -> None:
    async with opened(path) as store:
        ids = [job_id or 0 for job_id in await store.enqueue([new_job()] * 3)]
        with a_users(path) as own:
            own.execute(
                "UPDATE rowlock_rows SET payload = '{', backoff = '{', state = '{',"
                " meta = '[', errors = '1', progress = 'x' WHERE id = ?",
                (ids[1],),
            )
            own.commit()

        assert [held.job_id for held in (await claim(store)).claims] == ids
        page = await store.list(Filter())
        assert [job.id for job in page.jobs] == ids[::-1]
        assert page.jobs[1].payload == {"unreadable": "{"}
        assert page.jobs[1].errors == ({"unreadable": "1"},)
