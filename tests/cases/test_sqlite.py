"""Cases of the kind *SQLite*, by whole apps and workers: locks, threads, processes."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from datetime import timedelta

import pytest

from rowlock import App, Filter, Status
from rowlock._store import Demand
from tests.conformance.stores import CASES
from tests.endings import all_over, finished, known, reached
from tests.holding import Hold
from tests.journal import Gate, Journal
from tests.programs import gated
from tests.workers import ROOT, Workers

# What only SQLite's own kind of lock can show.
ON_A_FILE = pytest.mark.parametrize(
    "shared_case",
    [case for case in CASES if case.name == "sqlite-file"],
    ids=lambda case: case.name,
    indirect=True,
)


@pytest.mark.timeout(240)
@ON_A_FILE
async def test_b143_8_processes_at_everything_meet_no_lock_error(
    app: App, journal: Journal, workers: Workers, scale: int
) -> None:
    seconds = 3 if scale == 1 else 60
    # Renewed several times a run, and longer than a busy machine holds up anybody.
    processes = [workers.launch("rush", f"rush{n}", lease=5) for n in range(8)]
    await workers.until("worker.started", count=8, within=60)
    await asyncio.sleep(seconds)  # for so long the case lets them
    Gate(journal.folder, "enough").open()
    rushed = await workers.until("rushed", count=8, within=30)
    await all_over(app)
    stops = [asyncio.to_thread(process.stop) for process in processes]
    assert await asyncio.gather(*stops) == [0] * 8

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


@pytest.mark.parametrize("ending", ["close", "no close"])
async def test_b145_jobs_are_written_and_read_from_everywhere(
    app: App, database_url: str, ending: str
) -> None:
    program = await asyncio.create_subprocess_exec(
        # Whatever is left open makes a ResourceWarning.
        *(sys.executable, "-W", "error"),
        *("-m", "tests.programs.everywhere", database_url, ending),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        said, _ = await program.communicate()

    assert (program.returncode, said.decode()) == (0, "")
    jobs = (await app.list(Filter(task="now"), limit=1000)).jobs
    assert sorted(str(job.payload["who"]) for job in jobs) == sorted(
        [
            "the main thread",
            *(f"thread {n}" for n in range(20)),
            "a handler in a thread",
            "an async handler",
            "an exit hook",
        ]
    )
    handlers = (await app.list(Filter(status=Status.SUCCEEDED))).jobs
    assert [job.status for job in handlers] == [Status.SUCCEEDED] * 2


async def test_b146_after_a_lock_of_three_leases_everything_goes_on(
    app: App,
    journal: Journal,
    workers: Workers,
    hold_writes: Hold,
) -> None:
    lease = 1
    gated.register(app, journal)
    task = app.find_task("gated")
    processes = [await workers.start("gated", f"w{n}", lease=lease) for n in range(2)]
    ids = await app.enqueue_many(
        task.job(gate=gate) for gate in 3 * ["during", "after"]
    )
    await workers.until("started", count=6)

    async with hold_writes():
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
    await app._store.claim(only_it, worker="gone", lease=timedelta(seconds=0.1))
    await workers.until("claim.recovered", job_id=lost)


@ON_A_FILE
async def test_b143_who_meets_a_crowd_gets_its_turn(
    app: App, database_url: str
) -> None:
    @app.task
    async def step() -> None: ...

    await app.open()
    is_over = threading.Event()

    def crowd() -> None:
        # As many others do that commit one after the other: the lock is never free
        # for longer than a moment.
        path = database_url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as own:
            own.execute("CREATE TABLE own (n)")
            while not is_over.is_set():
                own.execute("BEGIN IMMEDIATE")
                own.execute("INSERT INTO own VALUES (1)")
                time.sleep(0.03)  # a write that takes its time
                own.execute("COMMIT")

    thread = threading.Thread(target=crowd)
    thread.start()
    waiting = asyncio.create_task(step.enqueue())
    await asyncio.wait({waiting}, timeout=2)  # twice what a lock is waited for
    is_over.set()
    thread.join()

    assert await waiting is not None
