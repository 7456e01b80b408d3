"""The writer's thread: group commit, savepoints, any thread, and exit."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from rowlock._clock import SystemClock
from rowlock._errors import OutcomeUnknown, StoreError, StoreUnavailable
from rowlock._filter import Filter
from rowlock._job import NewJob
from rowlock.stores.sqlite import SQLiteStore
from rowlock.stores.sqlite import connection as connections
from rowlock.stores.sqlite.thread import Run, Thread, Work
from rowlock.stores.sqlite.url import Address
from tests.eventually import eventually

from .sqlite_given import a_users, claim, new_job, opened, run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that doesn't exist yet."""
    return tmp_path / "jobs.db"


class Bench:
    """A writer's thread on a table of numbers, and what its connection ran."""

    def __init__(self, path: Path, connect: type[sqlite3.Connection]) -> None:
        self.path = path
        self.statements: list[str] = []
        self._factory = connect
        self.thread = Thread("bench", str(path), self._connect, SystemClock())
        self.thread.start()
        self.thread.connected.result(10)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            isolation_level=None,
            check_same_thread=False,
            timeout=0,
            factory=self._factory,
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS numbers (n INTEGER UNIQUE)")
        connection.set_trace_callback(self.statements.append)
        return connection

    def together(self, *runs: Run[object]) -> list[Future[object]]:
        """Hand over so that all are in one batch."""
        gate = threading.Event()
        held = self.thread.submit(Work(None, peek=lambda _c, _n: gate.wait(10)))
        futures = [self.thread.submit(Work(run)) for run in runs]
        gate.set()
        assert held.result(10)
        return futures

    def numbers(self) -> list[int]:
        """Read what has been committed."""
        with a_users(self.path) as own:
            found = own.execute("SELECT n FROM numbers ORDER BY n").fetchall()
        return [n for (n,) in found]

    def close(self) -> None:
        self.thread.stop().result(10)


@pytest.fixture
def bench(path: Path) -> Iterator[Bench]:
    bench = Bench(path, sqlite3.Connection)
    yield bench
    bench.close()


def add(*numbers: int) -> Run[object]:
    def run(connection: sqlite3.Connection, _now: int) -> tuple[int, ...]:
        for number in numbers:
            connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        return numbers

    return run


def test_what_waits_goes_into_one_transaction(bench: Bench) -> None:
    answers = [each.result(10) for each in bench.together(*map(add, range(50)))]

    assert answers == [(n,) for n in range(50)]
    assert bench.numbers() == list(range(50))
    assert bench.statements.count("BEGIN IMMEDIATE") == 1
    # Of the two, the other is of the reading that held the thread up.
    assert bench.statements.count("COMMIT") == 2


def test_law_15_one_that_raises_changes_nothing_and_the_others_stand(
    bench: Bench,
) -> None:
    def breaks(connection: sqlite3.Connection, now: int) -> None:
        add(10, 11)(connection, now)
        raise ZeroDivisionError

    first, clash, broken, last = bench.together(add(1), add(2, 1), breaks, add(3))

    assert (first.result(10), last.result(10)) == ((1,), (3,))
    with pytest.raises(StoreError, match="UNIQUE") as error:
        clash.result(10)
    assert isinstance(error.value.__cause__, sqlite3.IntegrityError)
    with pytest.raises(ZeroDivisionError):
        broken.result(10)
    assert bench.numbers() == [1, 3]


def test_law_15_one_alone_that_raises_changes_nothing(bench: Bench) -> None:
    (clash,) = bench.together(add(1, 2, 1))

    with pytest.raises(StoreError, match="UNIQUE"):
        clash.result(10)

    assert bench.numbers() == []
    assert bench.thread.submit(Work(add(1))).result(10) == (1,)


def test_law_15_where_sqlite_rolls_everything_back_everybody_is_told(
    bench: Bench,
) -> None:
    def rolls_back(connection: sqlite3.Connection, now: int) -> None:
        add(7)(connection, now)
        connection.execute("INSERT OR ROLLBACK INTO numbers VALUES (7)")

    futures = bench.together(add(1), rolls_back, add(2))

    for each in futures:
        with pytest.raises(StoreError):
            each.result(10)
    assert bench.numbers() == []


def test_a_full_disk_is_said_and_writing_goes_on_when_there_is_room(
    bench: Bench,
) -> None:
    def fill(connection: sqlite3.Connection, _now: int) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    bench.thread.submit(Work(None, peek=fill)).result(10)
    few, many = bench.together(add(1), add(*range(10, 9000)))

    with pytest.raises(StoreUnavailable, match="disk is full"):
        many.result(10)
    if few.exception(10) is None:
        assert bench.numbers() == [1]
    bench.thread.submit(
        Work(None, peek=lambda c, _: c.execute("PRAGMA max_page_count = 100000"))
    ).result(10)
    assert bench.thread.submit(Work(add(*range(10, 9000)))).result(10)


class Failing(sqlite3.Connection):
    """A connection whose commit fails as a broken disk makes it."""

    code = 0

    def execute(self, sql: str, *args: object) -> sqlite3.Cursor:
        if sql == "COMMIT" and self.code:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self.code
            raise error
        return super().execute(sql, *args)  # type: ignore[arg-type]  # handed on


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_IOERR_FSYNC, OutcomeUnknown),
        (sqlite3.SQLITE_FULL, StoreUnavailable),
        (sqlite3.SQLITE_BUSY, StoreUnavailable),
    ],
)
def test_law_15_a_commit_that_failed_says_whether_it_may_stand(
    path: Path, code: int, kind: type[StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(path, Failing)
    monkeypatch.setattr(Failing, "code", code)
    futures = [bench.thread.submit(Work(add(1)))]
    with pytest.raises(StoreError) as error:
        futures[0].result(10)
    monkeypatch.setattr(Failing, "code", 0)

    assert type(error.value) is kind
    assert bench.thread.submit(Work(add(2))).result(10) == (2,)
    assert bench.numbers() == [2]
    bench.close()


def test_one_that_nobody_waits_for_any_more_is_not_begun(bench: Bench) -> None:
    begun, gate = threading.Event(), threading.Event()

    def hold(_c: object, _n: object) -> None:
        begun.set()
        gate.wait(10)

    bench.thread.submit(Work(None, peek=hold))
    assert begun.wait(10)  # or the others would be taken together with it
    given_up = bench.thread.submit(Work(add(1)))
    kept = bench.thread.submit(Work(add(2)))

    assert given_up.cancel()
    gate.set()

    assert kept.result(10) == (2,)
    assert bench.numbers() == [2]


def test_what_was_handed_over_before_the_end_is_done(bench: Bench) -> None:
    futures = bench.together(*map(add, range(600)))
    bench.thread.stop()

    with pytest.raises(StoreUnavailable):
        bench.thread.submit(Work(add(1000)))
    assert [each.result(10) for each in futures] == [(n,) for n in range(600)]
    bench.thread.ended.result(10)
    assert bench.numbers() == list(range(600))


async def test_b143_every_writing_transaction_begins_immediate(path: Path) -> None:
    statements: list[str] = []
    async with opened(path, trace=statements.append) as store:
        ids = await store.enqueue([new_job(), new_job(idempotency_key="k")])
        await claim(store)
        await store.cancel([1, 2], by="test")
        await store.get([job_id for job_id in ids if job_id])
        await store.stats()

    writing = ("INSERT", "UPDATE", "DELETE", "CREATE")
    begun = ""
    for statement in statements:
        if statement.startswith("BEGIN"):
            begun = statement
        elif statement in ("COMMIT", "ROLLBACK"):
            begun = ""
        elif statement.lstrip().startswith(writing):
            assert begun == "BEGIN IMMEDIATE", statement
    assert statements.count("BEGIN IMMEDIATE") == 4


def test_b145_twenty_threads_use_one_store(path: Path) -> None:
    async def one(store: SQLiteStore, number: int) -> None:
        (job_id,) = await store.enqueue([new_job(task=f"task-{number}")])
        (held,) = (await claim(store, 1, f"task-{number}", worker=f"w{number}")).claims
        assert held.job_id == job_id
        assert len(await store.get([job_id])) == 1
        await store.renew(
            [held.key], worker=f"w{number}", lease=held.leased_until - held.started_at
        )

    async def main() -> int:
        async with opened(path) as store:
            with ThreadPoolExecutor(20) as pool:
                # Each thread has a loop of its own.
                acts = [partial(asyncio.run, one(store, n)) for n in range(20)]
                loop = asyncio.get_running_loop()
                await asyncio.gather(*(loop.run_in_executor(pool, act) for act in acts))
            return len((await store.list(Filter())).jobs)

    assert asyncio.run(main()) == 20


def test_b145_a_store_is_used_in_an_exit_hook(path: Path) -> None:
    program = """
        import atexit
        store = SQLiteStore(Address(path=sys.argv[1]))
        def hook():
            asyncio.run(store.enqueue([new_job()]))
            print(len(asyncio.run(store.get([1]))))
        atexit.register(hook)
        asyncio.run(store.open())
    """

    assert run(program, path) == "1\n"


def test_a_write_handed_over_before_an_exit_is_not_lost(path: Path) -> None:
    program = """
        store = SQLiteStore(Address(path=sys.argv[1]))
        async def main():
            await store.open()
            for _ in range(200):
                asyncio.get_running_loop().create_task(store.enqueue([new_job()]))
            await asyncio.sleep(0)
            sys.exit(0)
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # of tasks that are never awaited
        loop.run_until_complete(main())
    """

    run(program, path, warnings=False)

    with a_users(path) as own:
        assert own.execute("SELECT count(*) FROM rowlock_rows").fetchone() == (200,)


async def test_where_there_is_no_thread_the_store_is_out_of_reach_for_a_while(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        msg = "can't start new thread"
        raise RuntimeError(msg)

    store = SQLiteStore(Address(path=str(path)))
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(StoreUnavailable, match="no thread to be had"):
            await store.open()
    await store.open()
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", no_thread)
        # The writer reads where there is no reader, and sleeps without hints.
        wakeups = store.wakeups()
        assert await store.enqueue([new_job()]) == (1,)
        assert len(await store.get([1])) == 1
        assert await wakeups.wait(timedelta(seconds=5))

    assert await store.enqueue([new_job()]) == (2,)
    await store.close()


def test_a_connection_that_breaks_fails_those_who_wait_and_is_made_anew(
    path: Path,
) -> None:
    async def main() -> None:
        async with opened(path) as store:
            writer = store._database._writer
            assert writer is not None

            def breaks(_connection: sqlite3.Connection, _now: int) -> None:
                raise SystemExit

            with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever it is
                await asyncio.wrap_future(writer.submit(Work(breaks)))
            await asyncio.wrap_future(writer.ended)

            assert None not in await store.enqueue([new_job()])

    asyncio.run(main())


async def test_an_idle_store_keeps_nothing_of_what_it_did_last(path: Path) -> None:
    class Weak(NewJob):
        """A job that tells when it is gone; slots of its own have no such place."""

    async with opened(path) as store:
        job = Weak(task="task", queue="default", payload="{}")
        gone = weakref.ref(job)
        await store.enqueue([job])
        del job

        await eventually(lambda: gone() is None, within=5)


def test_patience_is_for_locks_only() -> None:
    tries = []

    def fails() -> None:
        tries.append(1)
        error = sqlite3.OperationalError("no such table: numbers")
        error.sqlite_errorcode = sqlite3.SQLITE_ERROR
        raise error

    with pytest.raises(sqlite3.OperationalError):
        connections.patiently(fails)

    assert len(tries) == 1
