"""Worker processes that are told to stop, whatever runs in them and wherever."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rowlock import App, Status
from tests.endings import ended, jobs_of, known, reached
from tests.eventually import eventually
from tests.holding import Hold

from .command_line import Command
from .proxy import between

SHOP = '''
import asyncio
import os
import sqlite3
import threading
import time

from rowlock import App, current_attempt

app = App()


def started(kind: str) -> None:
    attempt = current_attempt()
    print(f"began {kind} {attempt.job_id}/{attempt.number}", flush=True)


@app.task(max_attempts=1)
async def last(seconds: float = 600.0) -> str:
    started("last")
    await asyncio.sleep(seconds)
    return "done"


@app.task
async def nap(seconds: float = 600.0) -> str:
    started("nap")
    await asyncio.sleep(seconds)
    return "done"


@app.task
def nap_in_thread(seconds: float = 600.0) -> str:
    started("nap_in_thread")
    cancelled = current_attempt().cancelled
    cancelled.wait(seconds)
    cancelled.raise_if_set()
    return "done"


@app.task
async def block() -> None:
    started("block")
    time.sleep(600)


@app.task
async def block_in_c() -> None:
    """Block where Python calls no handler of signals."""
    started("block_in_c")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    sqlite3.connect(":memory:").execute(f"{endless} SELECT max(i) FROM n").fetchone()


@app.task
def fork() -> int:
    """End a child of the worker's, as multiprocessing does, by a SIGTERM."""
    started("fork")
    child = os.fork()
    if not child:
        time.sleep(600)
    time.sleep(0.2)
    os.kill(child, 15)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
'''


@pytest.fixture
def goodbyes(folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A working folder with that app, on each store; its URL."""
    (folder / "shop.py").write_text(SHOP)
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", database_url)
    return database_url


@pytest.fixture
async def shop(goodbyes: str) -> AsyncIterator[App]:
    """The same app in this process, whose tasks can be enqueued."""
    namespace: dict[str, App] = {}
    exec(SHOP, namespace)  # noqa: S102 - the very text that the worker imports
    async with namespace["app"] as app:
        assert app.url.rpartition("/")[2] in goodbyes
        yield app


async def test_b82_before_a_stopped_worker_ends_its_jobs_are_pending_again(
    shop: App, start: type[Command]
) -> None:
    """A release takes no failure; attempts count starts, so that one stays."""
    ids = [known(await shop.tasks["last"].enqueue()) for _ in range(3)]
    worker = start("worker", "shop:app", "--shutdown-timeout", "1.5")
    await began(worker, 3)
    quick = [await shop.tasks["nap"].enqueue(seconds=0.3) for _ in range(2)]
    await began(worker, 5)
    worker.signal(signal.SIGTERM)

    assert await ends(worker, within=5) == 0
    for job in await jobs_of(shop, ids):
        assert (job.status, job.failures, job.losses) == (Status.PENDING, 0, 0)
        assert (job.leased_until, job.worker, job.attempts) == (None, None, 1)
    assert {job.result for job in await jobs_of(shop, quick)} == {"done"}

    successor = start("worker", "shop:app", "--shutdown-timeout", "0.3")
    await prints(successor, "worker.started")
    began_at = time.monotonic()
    await began(successor, 3)
    assert time.monotonic() - began_at < 1


@pytest.mark.parametrize("doing", ["idle", "running", "finishing"])
async def test_b83_a_worker_whose_postgres_is_a_black_hole_ends_in_its_time(
    each_url: str,
    folder: Path,
    start: type[Command],
    monkeypatch: pytest.MonkeyPatch,
    doing: str,
) -> None:
    (folder / "shop.py").write_text(SHOP)

    async with between(each_url) as proxy:
        monkeypatch.setenv("ROWLOCK_DATABASE_URL", proxy.url)
        worker = start("worker", "shop:app", "--shutdown-timeout", "2")
        await prints(worker, "worker.started")
        await busy(App(each_url), worker, doing)
        proxy.fall_silent()
        await goes_in_time(worker, doing)


@pytest.mark.parametrize("doing", ["idle", "running", "finishing"])
async def test_b83_a_worker_whose_file_is_locked_ends_in_its_time(
    shop: App,
    start: type[Command],
    hold_writes: Hold,
    doing: str,
) -> None:
    worker = start("worker", "shop:app", "--shutdown-timeout", "2")
    await prints(worker, "worker.started")
    await busy(shop, worker, doing)
    async with hold_writes():
        await goes_in_time(worker, doing)


async def test_b83_a_second_signal_ends_it_while_the_store_is_away(
    shop: App,
    start: type[Command],
    hold_writes: Hold,
) -> None:
    worker = start("worker", "shop:app")
    await prints(worker, "worker.started")
    await busy(shop, worker, "running")
    async with hold_writes():
        worker.signal(signal.SIGTERM)
        await asyncio.sleep(0.6)  # the process tells two signals apart by real time
        worker.signal(signal.SIGTERM)
        assert await ends(worker, within=3) == 130


async def test_b84_any_number_of_deploys_fails_no_job(
    shop: App, start: type[Command], scale: int
) -> None:
    """Its attempts count the starts, so that who looks sees how often it was begun."""
    deploys = 3 if scale == 1 else 20
    job_id = known(await shop.tasks["last"].enqueue())
    for number in range(1, deploys + 1):
        worker = start("worker", "shop:app", "--shutdown-timeout", "0.3")
        await prints(worker, f"began last {job_id}/{number}")
        worker.signal(signal.SIGTERM)
        assert await ends(worker, within=5) == 0
        job = await shop.get(job_id)
        assert (job.status, job.attempts) == (Status.PENDING, number)
        assert (job.failures, job.losses, job.errors) == (0, 0, ())
        # No backoff: it is due at once.
        assert job.run_at <= job.updated_at


async def test_b85_a_graceful_stop_waits_and_claims_nothing_more(
    shop: App, start: type[Command]
) -> None:
    running = await shop.tasks["nap"].enqueue(seconds=1)
    worker = start("worker", "shop:app", "--concurrency", "5")
    await began(worker, 1)
    worker.signal(signal.SIGTERM)
    await prints(worker, "worker.draining")
    later = await shop.tasks["nap"].enqueue(seconds=0)

    assert await ends(worker) == 0
    done, waits = await jobs_of(shop, [running, later])
    assert (done.status, done.attempts) == (Status.SUCCEEDED, 1)
    assert (waits.status, waits.claims) == (Status.PENDING, 0)


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
async def test_b86_a_second_signal_ends_at_once_and_leaves_jobs_to_their_leases(
    shop: App, start: type[Command], second: signal.Signals
) -> None:
    """The report asks for a release and a third signal; here the second is the last."""
    job_id = await shop.tasks["nap"].enqueue()
    worker = start("worker", "shop:app", "--lease", "1")
    await began(worker, 1)
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGINT)  # a terminal and a wrapper, together: one
    await prints(worker, "worker.draining")
    await asyncio.sleep(1)  # the process tells two signals apart by real time
    assert worker.process.poll() is None
    worker.signal(second)

    assert await ends(worker, within=3) == 130
    job = await shop.get(known(job_id))
    assert (job.status, job.attempts) == (Status.RUNNING, 1)
    assert job.leased_until is not None
    successor = start("worker", "shop:app", "--lease", "1", "--shutdown-timeout", "0.3")
    await prints(successor, f"began nap {job_id}/2", within=20)


@pytest.mark.parametrize("task", ["block", "block_in_c"])
async def test_a_handler_that_blocks_the_loop_holds_up_no_end(
    shop: App, start: type[Command], task: str
) -> None:
    """Its claims are marked by the renewal's thread: their recovery is no loss."""
    job_id = await shop.tasks[task].enqueue()
    worker = start("worker", "shop:app", "--shutdown-timeout", "1", "--lease", "1")
    await began(worker, 1)
    told_at = time.monotonic()
    worker.signal(signal.SIGTERM)

    assert await ends(worker, within=1 + 5) == 1
    assert time.monotonic() - told_at >= 1
    assert "a handler blocks the event loop" in worker.output
    shop.tasks.clear()

    @shop.task(name=task)
    async def harmless() -> None: ...

    async with shop.worker(lease=1):
        job = await ended(shop, job_id)
    assert (job.status, job.losses, job.attempts) == (Status.SUCCEEDED, 0, 2)


async def test_a_forked_child_that_is_ended_ends_no_worker(
    shop: App, start: type[Command]
) -> None:
    job_id = await shop.tasks["fork"].enqueue()
    worker = start("worker", "shop:app")
    job = await ended(shop, job_id)
    assert job.result == -signal.SIGTERM
    assert (await ended(shop, await shop.tasks["nap"].enqueue(seconds=0))).attempts == 1
    worker.signal(signal.SIGTERM)

    assert await ends(worker) == 0


async def test_50_running_jobs_are_lost_by_no_sigterm_and_the_log_says_it_all(
    shop: App, start: type[Command]
) -> None:
    """Of each kind some end within the wait of 4 s, and the others are given back."""
    tasks = [shop.tasks["nap"], shop.tasks["nap_in_thread"]]
    brief = [await tasks[n % 2].enqueue(seconds=1.5) for n in range(30)]
    long = [await tasks[n % 2].enqueue() for n in range(20)]
    worker = start(
        *("worker", "shop:app", "--concurrency", "50", "--shutdown-timeout", "6")
    )
    await began(worker, 50)
    worker.signal(signal.SIGTERM)

    assert await ends(worker, within=6 + 5) == 0
    for job in await jobs_of(shop, brief):
        assert (job.status, job.attempts) == (Status.SUCCEEDED, 1)
    for job in await jobs_of(shop, long):
        assert (job.status, job.attempts, job.failures) == (Status.PENDING, 1, 0)
        assert (job.losses, job.worker) == (0, None)
    starts = Counter(re.findall(r"began \w+ (\d+)/", worker.output))
    assert set(starts.values()) == {1}
    assert len(starts) == 50

    told = worker.output[worker.output.index("SIGTERM: claiming no more") :]
    names = re.findall(r"(?:worker|attempt)\.\w+", told)
    story = list(Counter(names))
    ends_first = story.index("attempt.succeeded")
    assert [*story[:ends_first], *story[ends_first + 1 :]] == [
        "worker.draining",
        "worker.cancelling",
        "attempt.released",
        "worker.stopped",
    ]
    counts = Counter(names)
    assert counts["attempt.released"] == 20
    draining = field(told, "worker.draining", "running")
    assert draining == 20 + counts["attempt.succeeded"]
    assert field(told, "worker.cancelling", "handlers") == 20
    assert field(told, "worker.cancelling", "ended") == draining - 20
    assert field(told, "worker.stopped", "abandoned") == 0


def field(told: str, event: str, name: str) -> int:
    """Read a whole number out of an event's line."""
    found = re.search(rf"{re.escape(event)} .*\b{name}=(\d+)", told)
    assert found, told
    return int(found[1])


def test_a_worker_whose_child_never_comes_up_is_stopped_in_time(
    goodbyes: str, folder: Path, start: type[Command]
) -> None:
    assert goodbyes
    slow = """
import multiprocessing

if multiprocessing.parent_process():
    print("coming up", flush=True)
    time.sleep(600)

@app.task(executor="process")
def apart() -> None: ...
"""
    (folder / "slow.py").write_text(SHOP + slow)
    worker = start("worker", "slow:app", "--shutdown-timeout", "0.5")
    worker.prints("coming up")
    worker.signal(signal.SIGTERM)

    # It holds nothing yet, so nothing was left behind.
    assert worker.ends(within=0.5 + 5) == 0


async def busy(app: App, worker: Command, doing: str) -> None:
    """Have a worker do something, to be met by the end of its store."""
    if doing == "idle":
        return
    app.tasks.pop("nap", None)

    @app.task
    async def nap(seconds: float) -> str:
        return str(seconds)

    async with app:
        seconds = 600 if doing == "running" else 0.8
        job_id = await nap.enqueue(seconds=seconds)
        await reached(app, job_id, Status.RUNNING)
        await began(worker, 1)


async def goes_in_time(worker: Command, doing: str) -> None:
    """Tell it to stop, and see that it keeps to its time, and tells what is left."""
    worker.signal(signal.SIGTERM)
    code = await ends(worker, within=2 + 5)
    # A handler may just have ended before the store was gone.
    assert code in {"idle": {0}, "running": {1}, "finishing": {0, 1}}[doing]
    if code:
        assert "outcome.dropped" in worker.output


async def began(worker: Command, count: int) -> None:
    """Wait until so many handlers have begun."""
    await eventually(
        lambda: worker.output.count("began ") == count,
        within=20,
        what=f"{count} handlers began",
    )


async def prints(worker: Command, text: str, within: float = 20) -> None:
    """Wait, beside what else runs here, until it has printed a text."""
    await asyncio.to_thread(worker.prints, text, within)


async def ends(worker: Command, within: float = 20) -> int:
    """Wait, beside what else runs here, until it has ended; give the exit code."""
    return await asyncio.to_thread(worker.ends, within)
