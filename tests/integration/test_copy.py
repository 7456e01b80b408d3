"""Copying everything from one store to another, in all four directions."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest

from rowlock import Retention, StoreUnavailable, stores
from rowlock._copy import COLUMNS, CopyRefused, copy, preview
from rowlock._errors import ConfigError, SchemaMismatch, UsageError
from rowlock._job import Status
from rowlock._store import Demand, Pause, Store, WorkerInfo
from rowlock.stores import connect
from rowlock.stores.postgres.copying import MOST_DAYS
from rowlock.testing import FakeClock

from .copied import LEASE, elsewhere, ended, fill, job, rows_of
from .roles import cast

STATEMENTS = sorted(Path(stores.__file__).parent.glob("*/sql/copy_*.sql"))
STATEMENTS = [path for path in STATEMENTS if "payload" in path.read_text()]
KINDS = ("sqlite", "postgres")
Make: TypeAlias = Callable[[str], str]
Open: TypeAlias = Callable[[str], Awaitable[Store]]
WORKER = WorkerInfo(
    id="w-17",
    host="here",
    pid=17,
    version="1",
    tasks=("pay",),
    queues=None,
    concurrency=1,
    lease=LEASE,
)


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Make databases of either kind; their URLs."""

    def make(kind: str) -> str:
        if kind == "postgres":
            url: str = request.getfixturevalue("fresh_database")()
            return url
        return f"sqlite:///{tmp_path}/{len(list(tmp_path.iterdir()))}.db"

    return make


@pytest.fixture
async def opened(clock: FakeClock) -> AsyncIterator[Open]:
    """Open stores on URLs, at a time that stands still."""
    made: list[Store] = []

    async def open_(url: str) -> Store:
        store = connect(url, clock=clock)
        await store.open()
        made.append(store)
        return store

    yield open_
    for store in made:
        await store.close()


@pytest.fixture(params=KINDS)
def source_url(request: pytest.FixtureRequest, make: Make) -> str:
    """The URL of a database to copy."""
    return make(request.param)


@pytest.fixture(params=KINDS)
def target_url(request: pytest.FixtureRequest, make: Make) -> str:
    """The URL of a database to copy to."""
    return make(request.param)


@pytest.fixture
async def source(source_url: str, opened: Open) -> Store:
    """An open store to copy."""
    return await opened(source_url)


@pytest.fixture
async def target(target_url: str, opened: Open) -> Store:
    """An open store to copy to."""
    return await opened(target_url)


@pytest.fixture
async def other(make: Make, opened: Open) -> Store:
    """An open store of which the kind doesn't matter."""
    return await opened(make("sqlite"))


def quietly(_done: int, _total: int) -> None:
    """Show no progress."""


async def test_everything_arrives_as_it_was_and_nothing_changes_where_it_was(
    source: Store, target: Store, clock: FakeClock
) -> None:
    await fill(source, clock)
    before = await rows_of(source)
    ids = sorted(before)
    # It has tested something: a job of every kind is there.
    assert {row["status"] for row in before.values()} == set(Status) - {"running"}
    while_running = {"leased_until", "alone", "abandoned"}
    for name in set(COLUMNS) - while_running:
        assert any(row[name] for row in before.values()), name

    copied = await copy(source, target, quietly)

    assert await rows_of(target) == await rows_of(source) == before
    assert await target.get(ids) == await source.get(ids)
    assert copied.counts == Counter(
        Status(row["status"]) for row in before.values()
    ) | {Status.RUNNING: 0}
    here, there = await source.stats(), await target.stats()
    assert set(there.pauses) == set(here.pauses)
    assert there.queues == here.queues
    surveys = [await store.copying.survey() for store in (source, target)]
    assert surveys[0].tasks == surveys[1].tasks
    assert len(surveys[0].tasks) == len(here.pauses) == 2


async def test_the_copy_goes_on_where_the_original_stood(
    source: Store, target: Store, clock: FakeClock
) -> None:
    await fill(source, clock)
    last_id = (await source.copying.survey()).last_id
    await copy(source, target, quietly)

    (new,) = await target.enqueue([job(task="new")])
    (held,) = await target.enqueue([job(task="later", idempotency_key="later:\\1")])
    assert new == last_id + 1
    assert held is None
    assert await ended(target, "new", status=Status.SUCCEEDED) == new
    (dead,) = [j for j in await everything(target) if j.status == Status.FAILED]
    (answer,) = await target.replay([dead.id], by="bo")
    assert answer.done
    (replayed,) = await target.get([dead.id])
    assert [e["event"] for e in replayed.errors] == ["failed", "failed", "replay"]
    paused = Demand(total=9, tasks=frozenset({"pay"}))
    assert not (await target.claim(paused, worker="w", lease=LEASE)).claims
    clock.advance(timedelta(days=2))
    retention = Retention(succeeded=timedelta(days=3), cancelled=timedelta(days=3))
    while True:
        pruned = await target.prune(retention, limit=100)
        if not (pruned.expired or pruned.deleted):
            break
    kept = [j.finished_at for j in await everything(target) if j.status == "succeeded"]
    assert all(at and at > clock.now() - timedelta(days=4) for at in kept)
    assert 0 < len(kept) < 4


async def everything(store: Store) -> Any:  # noqa: ANN401 - jobs
    return await store.get(sorted(await rows_of(store)))


async def test_an_empty_store_is_copied_too(source: Store, target: Store) -> None:
    copied = await copy(source, target, quietly)

    assert copied.total == 0
    assert await target.enqueue([job()]) == (1,)


async def test_no_id_of_the_target_is_given_again(other: Store, target: Store) -> None:
    await other.enqueue([job()])
    tried = [job_id for job_id in await target.enqueue([job()] * 7) if job_id]
    await target.cancel(tried, by="ada")
    await target.delete(tried)

    await copy(other, target, quietly)

    assert await target.enqueue([job()]) == (8,)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_only_people_read_is_cleaned_where_postgres_cant_hold_it(
    kind: str, opened: Open, make: Make
) -> None:
    source, target = await opened(make("sqlite")), await opened(make(kind))
    await source.enqueue([job(meta={"by": "a\0b"})])
    error = {"type": "ValueError", "message": "a\0b", "traceback": "\0"}
    job_id = await ended(source, "pay", status=Status.FAILED, failed=True, error=error)

    await copy(source, target, quietly)

    (arrived,) = await target.get([job_id])
    mark = "a\0b" if kind == "sqlite" else "a\ufffdb"
    assert mark in (arrived.last_error or "")
    assert arrived.errors[0]["message"] == arrived.meta["by"] == mark


async def test_a_dry_run_sees_what_would_be_copied_and_writes_nothing(
    source: Store, target: Store, clock: FakeClock
) -> None:
    await fill(source, clock)

    seen = await preview(source, target)

    assert seen.total == len(await rows_of(source))
    assert not await rows_of(target)
    assert await preview(source, None) == seen


# Refusals


async def refused(source: Store, target: Store) -> str:
    """Try in both ways; the sentence, which is the same."""
    said = []
    for attempt in (preview(source, target), copy(source, target, quietly)):
        with pytest.raises(CopyRefused) as caught:
            await attempt
        said.append(str(caught.value))
    assert said[0] == said[1]
    return said[0]


async def test_a_source_with_a_live_worker_is_refused_until_its_lease_is_over(
    source: Store, other: Store, clock: FakeClock
) -> None:
    await source.register(WORKER, ())

    said = await refused(source, other)

    assert "w-17 (process 17 on here, seen at 2026-01-01T00:00:00.000000Z)" in said
    clock.advance(61)
    await copy(source, other, quietly)


async def test_a_source_with_a_running_job_is_refused(
    source: Store, other: Store
) -> None:
    await source.enqueue([job(), job()])
    demand = Demand(total=1, tasks=frozenset({"pay"}))
    await source.claim(demand, worker="w", lease=LEASE)

    assert "1 job is still running" in await refused(source, other)
    await source.claim(demand, worker="w", lease=LEASE)
    assert "2 jobs are still running" in await refused(source, other)


async def test_a_target_with_a_live_worker_is_refused(
    other: Store, target: Store
) -> None:
    await target.register(WORKER, ())

    assert f"{target.url} has live workers: w-17" in await refused(other, target)


async def test_a_target_with_jobs_is_refused(other: Store, target: Store) -> None:
    await target.enqueue([job()])

    assert f"{target.url} holds 1 job already" in await refused(other, target)
    assert len(await rows_of(target)) == 1


async def test_a_store_isnt_copied_to_itself(
    source: Store, source_url: str, opened: Open
) -> None:
    another = await opened(source_url)

    with pytest.raises(UsageError, match="are the same database"):
        await copy(source, another, quietly)


async def test_a_schema_that_is_ahead_is_refused_on_either_side(
    url: str, make: Make, opened: Open
) -> None:
    ahead, other = await opened(url), await opened(make("sqlite"))
    with psycopg.connect(url) as own:
        own.execute(
            "INSERT INTO rowlock.migrations (version, name, checksum, applied_at)"
            " SELECT max(version) + 1, 'later', '', now() FROM rowlock.migrations"
        )

    for source, target in ((ahead, other), (other, ahead)):
        with pytest.raises(SchemaMismatch, match="upgrade Rowlock"):
            await copy(source, target, quietly)


async def test_more_days_than_there_is_room_for_are_refused(
    url: str, make: Make, opened: Open, scale: int
) -> None:
    path = make("sqlite")
    source, target = await opened(path), await opened(url)
    with closing(sqlite3.connect(path.removeprefix("sqlite:///"))) as own:
        own.executemany(
            "INSERT INTO rowlock_rows (status, queue, task, payload, priority, run_at,"
            " max_attempts, created_at, updated_at, finished_at)"
            " VALUES ('succeeded', 'q', 't', '{}', 0, 0, 1, 0, 0, ?)",
            [(86_400_000_000 * (20_000 + day),) for day in range(MOST_DAYS + 1)],
        )
        own.commit()
        assert f"ended on {MOST_DAYS + 1} days" in await refused(source, target)

        own.execute("DELETE FROM rowlock_rows WHERE id = 1")
        own.commit()
    if scale > 1:
        # As many as are let in do go in: the server has locks for them all.
        await copy(source, target, quietly)
        assert len(await rows_of(target)) == MOST_DAYS


BY_HAND: dict[str, object] = {
    "run_at": "soon",
    "expires_at": 2**62,
    "created_at": -1,
    "updated_at": 1.5,
    "started_at": "x",
    "cancel_requested_at": b"",
    "timeout": "long",
    "priority": 2**40,
    "max_attempts": "three",
    "claims": 10**9,
    "attempts": 10**9,
    "failures": -1,
    "losses": "x",
    "queue": "a\0b",
    "task": b"a",
    "worker": "\0",
    "idempotency_key": "a\0",
    "last_error": b"x",
    "backoff": "1,",
    "progress": "half",
    "state": "{",
    "result": "NaN",
    "payload": "",
    "meta": "[]",
    "errors": "{}",
}


@pytest.mark.parametrize("column", BY_HAND)
async def test_what_a_hand_has_written_is_named_before_anything_is_copied(
    column: str, make: Make, opened: Open
) -> None:
    path = make("sqlite")
    source, target = await opened(path), await opened(make("sqlite"))
    await source.enqueue([job(), job()])
    with closing(sqlite3.connect(path.removeprefix("sqlite:///"))) as own:
        statement = f"UPDATE rowlock_rows SET {column} = ? WHERE id = 2"  # noqa: S608 - a column of ours
        own.execute(statement, (BY_HAND[column],))
        own.commit()

    assert f"can't be copied: {column} of job 2." in await refused(source, target)


async def test_a_database_in_memory_isnt_copied(opened: Open) -> None:
    memory = await opened("sqlite://")

    with pytest.raises(ConfigError, match="in memory"):
        await copy(memory, memory, quietly)


async def test_only_the_owner_copies_into_a_schema(
    each_empty_url: str, make: Make, opened: Open, other: Store
) -> None:
    source = await opened(make("sqlite"))
    await source.enqueue([job()])
    with cast(each_empty_url) as them:
        owned = connect(them.owner.url)
        await owned.migrate(worker_role=them.worker.name)  # type: ignore[call-arg]
        as_worker = await opened(them.worker.url)
        with pytest.raises(ConfigError, match="by its owner"):
            await copy(source, as_worker, quietly)
        await copy(source, owned, quietly)
        assert len(await rows_of(as_worker)) == 1
        assert await as_worker.enqueue([job()]) == (2,)
        # To read it is a worker's right.
        assert (await copy(as_worker, other, quietly)).total == 2
        await owned.close()
        await as_worker.close()


# Meanwhile


@pytest.mark.parametrize(
    ("verb", "values", "said"),
    [
        ("register", (WORKER, ()), r"a worker started \(w-17"),
        (
            "enqueue",
            ([job()],),
            r"jobs were changed \(pending 1, then 2, greatest id 2, then 3",
        ),
        ("move", ([1],), r"jobs were changed \(last change"),
        ("delete", ([2],), r"jobs were changed \(cancelled 1, then 0"),
        ("pause", (Pause(queue="mail"),), "a queue or a task was paused"),
    ],
)
async def test_what_happens_to_the_source_meanwhile_undoes_the_copy(
    verb: str,
    values: tuple[object, ...],
    said: str,
    source: Store,
    source_url: str,
    other: Store,
) -> None:
    await source.enqueue([job(), job()])
    await source.cancel([2], by="ada")
    options = {"by": "bo", "priority": 5} if verb == "move" else {}

    def interfere(_done: int, _total: int) -> None:
        elsewhere(source_url, verb, *values, **options)

    with pytest.raises(CopyRefused, match=f"Nothing was copied: while .*{said}"):
        await copy(source, other, interfere)

    found = await other.copying.survey()
    assert not found.total
    assert not found.pauses
    assert not await rows_of(other)


async def test_nobody_gets_into_the_target_meanwhile(
    other: Store, target: Store, target_url: str
) -> None:
    await other.enqueue([job(), job()])
    tried: list[tuple[str, Any]] = [("enqueue", ([job()],)), ("register", (WORKER, ()))]

    def interfere(_done: int, _total: int) -> None:
        for verb, values in tried:
            with pytest.raises(StoreUnavailable):
                elsewhere(target_url, verb, *values)

    await copy(other, target, interfere)

    assert len(await rows_of(target)) == 2


async def test_what_fails_on_the_way_leaves_the_target_as_it_was(
    source: Store, target: Store, target_url: str
) -> None:
    (first, *_) = await source.enqueue([job()] * 1200)
    assert first == 1
    await ended(source, "pay", status=Status.SUCCEEDED)
    days = partitions(target_url)

    def fail(done: int, total: int) -> None:
        assert total == 1200
        if done > 500:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await copy(source, target, fail)

    assert not await rows_of(target)
    assert partitions(target_url) == days
    await copy(source, target, quietly)
    assert await rows_of(target) == await rows_of(source)
    assert await target.enqueue([job()]) == (1201,)


def partitions(url: str) -> list[Any]:
    """The days that the history has partitions of; none on SQLite."""
    if url.startswith("sqlite"):
        return []
    with psycopg.connect(url) as own:
        return own.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits"
            " WHERE inhparent = 'rowlock.history'::regclass ORDER BY 1"
        ).fetchall()


# Nothing is forgotten


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_of_a_job_is_copied(kind: str, make: Make) -> None:
    url = make(kind)
    elsewhere(url, "open")
    found = columns(url)

    assert len(found) == (1 if kind == "sqlite" else 2)
    for names in found:
        assert sorted(names) == sorted(COLUMNS)


def columns(url: str) -> list[list[str]]:
    """The columns of each table that has jobs."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as own:
            table = own.execute("PRAGMA table_info(rowlock_rows)").fetchall()
            return [[name for _, name, *_ in table]]
    with psycopg.connect(url) as own:
        return [
            names
            for (names,) in own.execute(
                "SELECT array_agg(column_name::text) FROM information_schema.columns"
                " WHERE table_schema = 'rowlock' AND table_name IN ('live', 'history')"
                " GROUP BY table_name"
            )
        ]


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.parts[-3])
def test_every_list_of_columns_has_them_in_their_order(path: Path) -> None:
    lists = re.findall(r"\bid,[\w\s,]+\bpayload\b", path.read_text())

    assert lists
    for listed in lists:
        assert re.split(r",\s+", listed) == list(COLUMNS)
