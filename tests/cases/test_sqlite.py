"""Cases of the kind *SQLite*: locks, the write-ahead log, threads, many processes."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from rowlock import App, Filter, Status
from rowlock._job import ClaimKey
from rowlock._store import Demand
from rowlock.stores.sqlite.connection import WAL_LIMIT
from tests.endings import all_over, finished, known, reached
from tests.eventually import eventually
from tests.journal import Gate, Journal
from tests.programs import gated
from tests.workers import ROOT, Workers


@pytest.mark.timeout(240)
async def test_b143_8_processes_at_everything_meet_no_lock_error(
    app: App, journal: Journal, workers: Workers, scale: int
) -> None:
    seconds = 5 if scale == 1 else 60
    processes = [workers.launch("rush", f"rush{n}") for n in range(8)]
    await workers.until("worker.started", count=8, within=60)
    await asyncio.sleep(seconds)  # for so long the case lets them
    Gate(journal.folder, "enough").open()
    rushed = await workers.until("rushed", count=8, within=30)
    await all_over(app)
    assert [process.stop() for process in processes] == [0] * 8

    assert all(record.of["writes"] > 10 for record in rushed)
    assert workers.records("error") == []
    assert workers.records("unannounced write") == []
    assert workers.records("store.unavailable") == []
    enqueued = {record.of["job_id"] for record in workers.records("job.enqueued")}
    ends = Counter(
        record.of["job_id"]
        for what in ("attempt.succeeded", "job.cancelled", "cancelled")
        for record in workers.records(what)
    )
    assert ends == dict.fromkeys(enqueued, 1)
    rate = len(workers.records("attempt.succeeded")) / seconds
    print(f"8 processes on one file: {rate:,.0f} jobs/s")  # noqa: T201 - the case's


MIB = 2**20


@contextmanager
def reading(path: Path, *, held_for: float) -> Iterator[None]:
    """Read all the time, as dashboards and exports do: one begins, another goes on."""
    is_over = threading.Event()

    def read() -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as own:
            while not is_over.is_set():
                own.execute("BEGIN")
                own.execute("SELECT count(*) FROM rowlock_jobs").fetchone()
                time.sleep(held_for)  # a reader that takes its time
                own.execute("COMMIT")

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
        time.sleep(held_for / 3)  # so that at each moment one of them reads
    yield
    is_over.set()
    for thread in threads:
        thread.join()


WRITES_PER_S = 500


async def write(
    app: App, held: Sequence[ClaimKey], *, seconds: float, size: int
) -> int:
    """Write each row again and again, 500 in a second; the log's largest size then."""
    largest = 0
    began = time.monotonic()
    for turn in range(int(WRITES_PER_S * seconds / len(held))):
        ahead = turn * len(held) / WRITES_PER_S - (time.monotonic() - began)
        await asyncio.sleep(max(0, ahead))  # the case's own pace
        # Another text each time, as SQLite skips the pages that stay as they are.
        state = f'"{"ab"[turn % 2] * size}"'
        kept = await asyncio.gather(*(app.store.save(key, state=state) for key in held))
        assert all(kept)
        largest = max(largest, log_of(app).stat().st_size)
    return largest


def file_of(app: App) -> Path:
    return Path(app.url.removeprefix("sqlite:///"))


def log_of(app: App) -> Path:
    return Path(f"{file_of(app)}-wal")


@pytest.fixture
async def held(app: App) -> Sequence[ClaimKey]:
    """Claims whose state is written again and again, so that the file won't grow."""

    @app.task
    async def step() -> None: ...

    await app.enqueue_many(step.job() for _ in range(25))
    claimed = await app.store.claim(
        Demand(total=25, tasks=frozenset({"step"})),
        worker="w1",
        lease=timedelta(hours=1),
    )
    return [claim.key for claim in claimed.claims]


@pytest.mark.timeout(480)
async def test_b144_the_log_stays_short_under_readers_that_overlap(
    app: App, held: Sequence[ClaimKey], scale: int
) -> None:
    # In short time as much as would be too much if the log were never begun anew.
    seconds, size = (3, 64 * 1024) if scale == 1 else (300, 16 * 1024)

    with reading(file_of(app), held_for=0.05):
        largest = await write(app, held, seconds=seconds, size=size)

    assert WRITES_PER_S * seconds * size > 64 * MIB > largest


@pytest.mark.timeout(480)
async def test_b144_the_log_shrinks_when_a_long_reader_has_ended(
    app: App, held: Sequence[ClaimKey], scale: int
) -> None:
    seconds = 1 if scale == 1 else 120

    with closing(sqlite3.connect(file_of(app), isolation_level=None)) as long:
        long.execute("BEGIN")
        long.execute("SELECT count(*) FROM rowlock_jobs").fetchone()
        largest = await write(app, held, seconds=seconds, size=32 * 1024)
        long.execute("COMMIT")

    async def is_short() -> bool:
        # Whoever writes next begins the log anew.
        await app.store.save(held[0], state="1")
        return log_of(app).stat().st_size <= WAL_LIMIT

    assert largest > 2 * WAL_LIMIT
    await eventually(is_short, within=30)


@pytest.mark.parametrize("ending", ["close", "no close"])
async def test_b145_jobs_are_written_and_read_from_everywhere(
    app: App, database_url: str, ending: str
) -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "dev", "-W", "error"),
        *("-m", "tests.programs.everywhere", database_url, ending),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        said, _ = await program.communicate()

    assert (program.returncode, said.decode()) == (0, "")
    jobs = (await app.list(Filter(queue="notes"), limit=1000)).jobs
    assert sorted(str(job.payload["who"]) for job in jobs) == sorted(
        [
            "the main thread",
            *(f"thread {n}" for n in range(20)),
            "a handler in a thread",
            "an async handler",
            "an exit hook",
        ]
    )
    handlers = (await app.list(Filter(queue="default"))).jobs
    assert [job.status for job in handlers] == [Status.SUCCEEDED] * 2


async def test_b146_after_a_lock_of_three_leases_everything_goes_on(
    app: App,
    journal: Journal,
    workers: Workers,
    hold_writes: Callable[[], AbstractContextManager[None]],
) -> None:
    lease = 1
    gated.register(app, journal)
    task = app.find_task("gated")
    processes = [await workers.start("gated", f"w{n}", lease=lease) for n in range(2)]
    ids = await app.enqueue_many(
        task.job(gate=gate) for gate in 3 * ["during", "after"]
    )
    await workers.until("started", count=6)

    with hold_writes():
        Gate(journal.folder, "during").open()
        await asyncio.sleep(3 * lease)  # the case's length
    Gate(journal.folder, "after").open()
    jobs = await finished(app, ids, within=30)

    # Kept, or begun once more; and each has one end that counted.
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert {job.attempts for job in jobs} <= {1, 2}
    for job_id in ids:
        ends = workers.records("settled", job_id=job_id, status="succeeded")
        assert [record.of["accepted"] for record in ends].count(True) == 1
    await check_all_loops(app, workers)
    assert [process.stop() for process in processes] == [0, 0]


async def check_all_loops(app: App, workers: Workers) -> None:
    """See both workers claim, finish and renew, and one of them recover."""
    task = app.find_task("gated")
    held = [await task.enqueue(gate="never") for _ in range(10)]
    for job_id in held:
        await reached(app, job_id, Status.RUNNING)
    # It reaches the handlers with a renewal only.
    await app.cancel([known(job_id) for job_id in held])
    cancelled = await finished(app, held)
    assert {job.status for job in cancelled} == {Status.CANCELLED}
    assert len({job.worker for job in cancelled}) == 2

    @app.task
    async def unknown() -> None: ...

    # Recovery needs no code of the task; and no worker claims it before we do.
    lost = await unknown.enqueue()
    only_it = Demand(total=1, tasks=frozenset({"unknown"}))
    await app.store.claim(only_it, worker="gone", lease=timedelta(seconds=0.1))
    await workers.until("claim.recovered", job_id=lost)
