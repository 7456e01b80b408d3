"""
Copying everything out of a schema, and into one: `Copying` on Postgres.

Each transaction here takes its time, and so has a connection of its own.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, date

from rowlock._copying import (
    COLUMNS,
    PART_BYTES,
    PART_JOBS,
    PART_KEYS,
    SPAN,
    STATUS,
    Damage,
    Once,
    Row,
    Survey,
    size_of,
)
from rowlock._errors import ConfigError, SchemaMismatch
from rowlock._job import Status
from rowlock._store import Pause, TaskInfo
from rowlock.stores._json import read_json
from rowlock.stores.postgres import migrate, rows
from rowlock.stores.postgres.database import Database
from rowlock.stores.postgres.errors import Forbidden
from rowlock.stores.postgres.sessions import Session

# Each is a partition with its indexes, which the transaction has to lock: the server
# has room for some thousand locks.
MOST_DAYS = 500

_FINISHED_AT = COLUMNS.index("finished_at")
_KEPT_FOR, _IS_FREED = COLUMNS.index(SPAN), COLUMNS.index("key_freed")
_IN_HISTORY = (Status.SUCCEEDED, Status.CANCELLED)
# What only people read may have in another store what no text of Postgres can; it is
# written here as it would have been.
_TOLD = [COLUMNS.index(name) for name in ("last_error", "meta", "errors")]


class PostgresCopying:
    """A `Copying` for one schema."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def most_days(self) -> int:
        """On how many days jobs may have ended that are copied here."""
        return MOST_DAYS

    async def survey(self) -> Survey:
        """
        Tell what stands here now; see `Copying.survey`.

        Raises:
            SchemaMismatch: it is newer, and may have columns that aren't known here.
        """
        async with self._transaction() as session:
            ours = migrate.all_migrations()[-1].version
            newest = max(row[0] for row in await session.run("applied_migrations"))
            if newest > ours:
                msg = (
                    f"The database {self._database.shown} has schema version {newest},"
                    f" and this Rowlock copies {ours}: upgrade Rowlock."
                )
                raise SchemaMismatch(msg)
            return await self._survey(session)

    async def damaged(self, limit: int) -> Sequence[Damage]:
        """Name nothing: a hand can write only what a column's type lets pass."""
        del limit
        return ()

    async def jobs(self) -> AsyncGenerator[Sequence[Row]]:
        """Give all jobs of one snapshot; see `Copying.jobs`."""
        async with self._transaction() as session:
            await session.run("copy_jobs")
            part: list[Row] = []
            size = 0
            while found := await session.run("copy_next"):
                part += found
                size += sum(map(size_of, found))
                if size >= PART_BYTES or len(part) >= PART_JOBS:
                    yield part
                    part, size = [], 0
            if part:
                yield part

    async def once(self) -> AsyncGenerator[Sequence[Once]]:
        """Give all keys of `once`; see `Copying.once`."""
        async with self._transaction() as session:
            after, limit = "", str(PART_KEYS)
            while part := await session.run("copy_once", after=after, limit=limit):
                yield [(key, at) for key, at in part]
                after = part[-1][0]

    @asynccontextmanager
    async def at_rest(self) -> AsyncIterator[Survey]:
        """Lock it against change, and tell what stands here; see `Copying.at_rest`."""
        async with self._transaction() as session:
            await session.run("lock_source")
            yield await self._survey(session)

    @asynccontextmanager
    async def receiving(self) -> AsyncIterator[PostgresReceiving]:
        """Take jobs in, nobody else writing; see `Copying.receiving`."""
        async with self._transaction() as session:
            with _as_the_owner():
                await session.run("lock_target")
            yield PostgresReceiving(session, self._survey)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Session]:
        """Connect, and begin a transaction that may take its time."""
        session = await self._database.connect()
        session.patience = None
        try:
            async with session.transaction():
                await session.run("copying")
                await session.run("reading")
                yield session
        finally:
            session.drop()

    async def _survey(self, session: Session) -> Survey:
        ((*counts, greatest_id, updated_at, days, once),) = await session.run("census")
        ((last_id,),) = await session.run("last_given_id")
        workers = await session.run("live_workers")
        return Survey(
            place=("postgres", self._database.identity, self._database.schema),
            counts=dict(zip(Status, counts, strict=True)),
            greatest_id=greatest_id,
            last_id=max(last_id, greatest_id),
            updated_at=updated_at,
            days=days,
            once=once,
            workers=tuple(rows.worker(row) for row in workers if row[1] is not None),
            pauses=tuple(map(rows.pause, await session.run("pausing"))),
            tasks=tuple(
                TaskInfo(
                    name=name,
                    queue=queue,
                    defaults=read_json(defaults),
                    seen_at=seen_at,
                )
                for name, queue, defaults, seen_at in await session.run("registered")
            ),
        )


class PostgresReceiving:
    """A `Receiving`: one transaction, under locks on all tables."""

    def __init__(
        self, session: Session, survey: Callable[[Session], Awaitable[Survey]]
    ) -> None:
        self._session = session
        self._survey = survey
        self._days: set[date] = set()

    async def survey(self) -> Survey:
        """Tell what will stand here; see `Receiving.survey`."""
        return await self._survey(self._session)

    async def prepare(self, arriving: Survey) -> None:
        """Take pauses and tasks, and go on behind its ids; see `Receiving.prepare`."""
        session = self._session
        ((last_id,),) = await session.run("last_given_id")
        first = max(arriving.last_id, last_id) + 1
        restart = session.text("give_ids_from").replace("{first}", str(first))
        with _as_the_owner():
            # Given values, though none, psycopg reads a % that is written twice as one.
            await session.execute(restart.encode(), {})
        # One that has ended is no pause, and would keep out the one that arrives.
        await session.run("forget_pauses")
        await self._add_pauses(arriving.pauses)
        await self._add_tasks(arriving.tasks)

    async def add(self, jobs: Sequence[Row]) -> None:
        """Insert these jobs where they belong; see `Receiving.add`."""
        over = list(filter(_is_in_history, jobs))
        for day in sorted({_day(job) for job in over} - self._days):
            await self._session.run("make_partition", day=day.isoformat())
            self._days.add(day)
        if over:
            await self._session.load("copy_history", map(_clean, over))
        if live := [job for job in jobs if not _is_in_history(job)]:
            await self._session.load("copy_live", map(_clean, live))

    async def remember(self, keys: Sequence[Once]) -> None:
        """Take these keys of `once`; see `Receiving.remember`."""
        await self._session.run(
            "copy_once_keys",
            keys=rows.texts([key for key, _ in keys]),
            ats=rows.instants([at for _, at in keys]),
        )

    async def _add_pauses(self, pauses: Sequence[Pause]) -> None:
        await self._session.run(
            "copy_pauses",
            queues=rows.texts([pause.queue for pause in pauses]),
            tasks=rows.texts([pause.task for pause in pauses]),
            untils=rows.instants([pause.until for pause in pauses]),
            reasons=rows.texts([_told(pause.reason) for pause in pauses]),
            bys=rows.texts([_told(pause.by) for pause in pauses]),
            ats=rows.instants([pause.at for pause in pauses]),
        )

    async def _add_tasks(self, tasks: Sequence[TaskInfo]) -> None:
        await self._session.run(
            "copy_tasks",
            names=rows.texts([task.name for task in tasks]),
            queues=rows.texts([task.queue for task in tasks]),
            defaults=rows.texts([rows.to_json(task.defaults) for task in tasks]),
            seen_ats=rows.instants([task.seen_at for task in tasks]),
        )


@contextmanager
def _as_the_owner() -> Iterator[None]:
    try:
        yield
    except Forbidden as error:
        msg = (
            "Jobs are copied into a schema by its owner, as `rowlock migrate` is run:"
            f" name the owner in the URL. ({error})"
        )
        raise ConfigError(msg) from error


def _day(job: Row) -> date:
    day: date = job[_FINISHED_AT].astimezone(UTC).date()
    return day


def _is_in_history(job: Row) -> bool:
    keeps_key = job[_KEPT_FOR] is not None and not job[_IS_FREED]
    return job[STATUS] in _IN_HISTORY and not keeps_key


def _clean(job: Row) -> Row:
    if not any(job[at] and ("\0" in job[at] or "\\u0000" in job[at]) for at in _TOLD):
        return job
    values = list(job)
    for at in _TOLD:
        values[at] = _told(values[at])
    return tuple(values)


def _told(text: str | None) -> str | None:
    return None if text is None else rows.clean(text.replace("\\u0000", "\\ufffd"))
