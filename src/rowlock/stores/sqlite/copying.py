"""
Copying everything out of a file, and into one: `Copying` on SQLite.

Each transaction here takes its time, and so has a connection and a thread of its own.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rowlock._copying import (
    COLUMNS,
    FLAGS,
    INSTANTS,
    PART_BYTES,
    PART_JOBS,
    PART_KEYS,
    SPAN,
    Damage,
    Once,
    Row,
    Survey,
    size_of,
)
from rowlock._errors import ConfigError
from rowlock._job import Status
from rowlock._store import Pause, TaskInfo
from rowlock.stores._json import read_json, write_json
from rowlock.stores.sqlite import connection as connections
from rowlock.stores.sqlite import errors, rows
from rowlock.stores.sqlite.connection import MEMORY
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    from rowlock._clock import Clock
    from rowlock.stores.sqlite.database import Database

R = TypeVar("R")

# Where the columns are that a row has in another form.
_FROM = 1
_INSTANTS_TO = _FROM + len(INSTANTS)
_FLAGS_TO = _INSTANTS_TO + len(FLAGS)
_SPAN = COLUMNS.index(SPAN)


class SQLiteCopying:
    """A `Copying` for one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @property
    def most_days(self) -> None:
        """On how many days jobs may have ended that are copied here: on any."""
        return

    async def survey(self) -> Survey:
        """Tell what stands here now; see `Copying.survey`."""
        async with self._apart() as apart:
            await apart.run(_begin_reading)
            return await apart.run(self._survey)

    async def damaged(self, limit: int) -> Sequence[Damage]:
        """Name what a hand has written that SQLite let pass; see `Copying.damaged`."""
        async with self._apart() as apart:
            return await apart.run(
                lambda connection: [
                    Damage(*row)
                    for row in connection.execute(SQL["damaged"], {"limit": limit})
                ]
            )

    async def jobs(self) -> AsyncGenerator[Sequence[Row]]:
        """Give all jobs of one snapshot, by id; see `Copying.jobs`."""
        async with self._apart() as apart:
            cursor = await apart.run(lambda own: own.execute(SQL["copy_jobs"]))
            while part := await apart.run(lambda _: _read_part(cursor)):
                yield part

    async def once(self) -> AsyncGenerator[Sequence[Once]]:
        """Give all keys of `once`; see `Copying.once`."""
        async with self._apart() as apart:
            after = ""
            while part := await apart.run(partial(_read_keys, after=after)):
                yield part
                after = part[-1][0]

    @asynccontextmanager
    async def at_rest(self) -> AsyncIterator[Survey]:
        """Hold the write lock, and tell what stands here; see `Copying.at_rest`."""
        async with self._apart() as apart:
            await apart.run(connections.begin)
            yield await apart.run(self._survey)

    @asynccontextmanager
    async def receiving(self) -> AsyncIterator[SQLiteReceiving]:
        """Take jobs in under the write lock; see `Copying.receiving`."""
        async with self._apart() as apart:
            await apart.run(connections.begin)
            yield SQLiteReceiving(apart, self._survey, self._clock)
            await apart.commit()

    @asynccontextmanager
    async def _apart(self) -> AsyncIterator[_Apart]:
        """Connect, in a thread of its own; what isn't committed is rolled back."""
        path = self._database.path
        if path == MEMORY:
            msg = (
                "A database in memory is its own process's, and can't be copied: use"
                " a file."
            )
            raise ConfigError(msg)
        with ThreadPoolExecutor(1, "rowlock-sqlite-copying") as thread:
            apart = _Apart(thread, path)
            await apart.connect(self._database.connect)
            try:
                yield apart
            except BaseException:
                # Nobody wants the rest of what is under way.
                apart.connection.interrupt()
                raise
            finally:
                thread.submit(apart.connection.close)

    def _survey(self, connection: sqlite3.Connection) -> Survey:
        now = {"now": rows.to_micros(self._clock.now())}
        census = connection.execute(SQL["census"]).fetchone()
        given = connection.execute(SQL["last_given_id"]).fetchone()
        return Survey(
            place=("sqlite", connections.file_of(self._database.path)),
            counts=dict(zip(Status, census[:5], strict=True)),
            greatest_id=census[5],
            last_id=max(census[5], 0 if given is None else given[0]),
            updated_at=rows.maybe_instant(census[6]),
            days=census[7],
            once=census[8],
            workers=tuple(
                map(rows.worker, connection.execute(SQL["live_workers"], now))
            ),
            pauses=tuple(map(rows.pause, connection.execute(SQL["pausing"], now))),
            tasks=tuple(map(_task, connection.execute(SQL["registered"]))),
        )


class SQLiteReceiving:
    """A `Receiving`: one transaction under the write lock."""

    def __init__(
        self,
        apart: _Apart,
        survey: Callable[[sqlite3.Connection], Survey],
        clock: Clock,
    ) -> None:
        self._apart = apart
        self._survey = survey
        self._clock = clock

    async def survey(self) -> Survey:
        """Tell what will stand here; see `Receiving.survey`."""
        return await self._apart.run(self._survey)

    async def prepare(self, arriving: Survey) -> None:
        """Take pauses and tasks, and go on behind its ids; see `Receiving.prepare`."""

        def prepare(connection: sqlite3.Connection) -> None:
            given = connection.execute(SQL["last_given_id"]).fetchone()
            last_id = max(arriving.last_id, 0 if given is None else given[0])
            connection.execute(SQL["forget_last_id"])
            connection.execute(SQL["give_ids_above"], {"last_id": last_id})
            # One that has ended is no pause, and would keep out the one that arrives.
            now = {"now": rows.to_micros(self._clock.now())}
            connection.execute(SQL["forget_pauses"], now)
            connection.executemany(SQL["copy_pause"], map(_of_pause, arriving.pauses))
            connection.executemany(SQL["copy_task"], map(_of_task, arriving.tasks))

        await self._apart.run(prepare)

    async def add(self, jobs: Sequence[Row]) -> None:
        """Insert these jobs as they are; see `Receiving.add`."""
        await self._apart.run(
            lambda own: own.executemany(SQL["copy_job"], map(_of_row, jobs))
        )

    async def remember(self, keys: Sequence[Once]) -> None:
        """Take these keys of `once`; see `Receiving.remember`."""
        arriving = [{"key": key, "at": rows.to_micros(at)} for key, at in keys]
        await self._apart.run(
            lambda own: own.executemany(SQL["copy_once_key"], arriving)
        )


class _Apart:
    """A connection and the one thread that uses it, whose work is done in order."""

    def __init__(self, thread: ThreadPoolExecutor, path: str) -> None:
        self._thread = thread
        self._path = path
        self.connection: sqlite3.Connection

    async def connect(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Connect."""

        def keep() -> None:
            self.connection = connect()

        with self._translated():
            await asyncio.get_running_loop().run_in_executor(self._thread, keep)

    async def run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Run something on the connection."""
        with self._translated():
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, work, self.connection
            )

    async def commit(self) -> None:
        """Commit; it goes on where its caller is cancelled."""
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._thread, self.connection.execute, "COMMIT"
            )
        except sqlite3.Error as error:
            raise errors.translate_commit(error, self._path) from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise errors.translate(error, self._path) from error


def _begin_reading(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")


def _read_part(cursor: sqlite3.Cursor) -> list[Row]:
    part: list[Row] = []
    size = 0
    while size < PART_BYTES and len(part) < PART_JOBS:
        found = cursor.fetchone()
        if found is None:
            break
        part.append(_to_row(found))
        size += size_of(found)
    return part


def _read_keys(connection: sqlite3.Connection, *, after: str) -> list[Once]:
    found = connection.execute(
        SQL["copy_once"], {"after": after, "limit": PART_KEYS}
    ).fetchall()
    return [(key, rows.instant(at)) for key, at in found]


def _to_row(found: rows.Row) -> Row:
    return (
        found[0],
        *map(rows.maybe_instant, found[_FROM:_INSTANTS_TO]),
        *map(bool, found[_INSTANTS_TO:_FLAGS_TO]),
        *found[_FLAGS_TO:_SPAN],
        None if found[_SPAN] is None else timedelta(microseconds=found[_SPAN]),
        *found[_SPAN + 1 :],
    )


def _of_row(job: Row) -> dict[str, object]:
    values = (
        job[0],
        *(at and rows.to_micros(at) for at in job[_FROM:_INSTANTS_TO]),
        *job[_INSTANTS_TO:_SPAN],
        None if job[_SPAN] is None else rows.to_span(job[_SPAN]),
        *job[_SPAN + 1 :],
    )
    return dict(zip(COLUMNS, values, strict=True))


def _task(found: rows.Row) -> TaskInfo:
    name, queue, defaults, seen_at = found
    return TaskInfo(
        name=name,
        queue=queue,
        defaults=read_json(defaults),
        seen_at=rows.instant(seen_at),
    )


def _of_task(task: TaskInfo) -> dict[str, object]:
    return {
        "name": task.name,
        "queue": task.queue,
        "defaults": write_json(task.defaults),
        "seen_at": 0 if task.seen_at is None else rows.to_micros(task.seen_at),
    }


def _of_pause(pause: Pause) -> dict[str, object]:
    return {
        "queue": pause.queue,
        "task": pause.task,
        "until": None if pause.until is None else rows.to_micros(pause.until),
        "reason": pause.reason,
        "by": pause.by,
        "at": 0 if pause.at is None else rows.to_micros(pause.at),
    }
