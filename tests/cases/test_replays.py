"""Cases of the kind *dead letter and replay*: very many, at a pace, by several."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from bisect import bisect_left
from collections.abc import Sequence

import pytest

from rowlock import App, Filter, Status
from rowlock._job import Outcome
from rowlock._store import Demand
from tests.endings import all_over, ended, known
from tests.eventually import eventually
from tests.workers import Workers

STEP = 1000
# What a job of another queue may take while the replayed ones run, on busy cores.
PICKUP_S = 2.5


async def bury(app: App, count: int) -> list[int]:
    """Make so many dead letters of the task `step`, the oldest first."""
    step = app.find_task("step")
    ids: list[int] = []
    store = app._store
    for start in range(0, count, STEP):
        ids += map(
            known,
            await app.enqueue_many(step.job(n=n) for n in range(start, start + STEP)),
        )
        demand = Demand(total=STEP, tasks=frozenset({"step"}))
        claimed = await store.claim(demand, worker="w-gone", lease=app.lease)
        error = {"type": "ConnectionError", "message": "away", "traceback": None}
        await store.finish(
            [
                Outcome(key=each.key, status=Status.FAILED, failed=True, error=error)
                for each in claimed.claims
            ]
        )
    return ids


async def counted(app: App) -> dict[Status, int]:
    stats = await app.stats()
    return {
        status: sum(queue.counts[status] for queue in stats.queues) for status in Status
    }


async def replaying(url: str, *options: str) -> asyncio.subprocess.Process:
    """Start `rowlock jobs replay` in a process of its own."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rowlock", "jobs", "replay", "--task", "step"),
        *(*options, "--yes", "--database", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.fixture
def steps(app: App) -> App:
    """The app with the tasks of the program `steps`."""

    @app.task(max_attempts=1)
    async def step(n: int) -> int:
        return n

    @app.task(max_attempts=1, queue="others")
    async def tick() -> None: ...

    return app


async def waits(app: App, until: asyncio.Event) -> Sequence[float]:
    """Enqueue jobs of another queue one by one; tell how long each took, in seconds."""
    took = []
    tick = app.find_task("tick")
    while not until.is_set():
        began = time.monotonic()
        await ended(app, await tick.enqueue(), within=30)
        took.append(time.monotonic() - began)
        await asyncio.sleep(0.1)  # somebody who enqueues now and then
    return took


async def stop_half_way(app: App, url: str, ids: Sequence[int]) -> set[int]:
    """Press Ctrl-C while `rowlock jobs replay` runs; tell which jobs it has left."""
    stopped = await replaying(url, "--rate", "1000/s")

    async def is_under_way() -> bool:
        return (await counted(app))[Status.FAILED] < len(ids)

    await eventually(is_under_way, within=30)
    stopped.send_signal(signal.SIGINT)
    _, told = await stopped.communicate()
    jobs = await app._store.get(ids)
    left = {job.id for job in jobs if job.status is Status.FAILED}
    assert stopped.returncode == 130, told.decode()
    assert b"The same command goes on with the others" in told
    assert 0 < len(left) < len(ids)
    return left


def most_in_a_second(due: Sequence[float]) -> int:
    """Tell how many of these instants, the first one first, share a second at most.

    Of the seconds that begin at every fiftieth of them.
    """
    starts = enumerate(due[::50])
    return max(bisect_left(due, start + 1) - place * 50 for place, start in starts)


@pytest.mark.parametrize("rate", [1000, 200])
async def test_b149_a_rate_is_kept_however_long_the_handing_over_takes(
    steps: App, rate: int, scale: int
) -> None:
    """A replay of 100,000 (with `--slow`) takes seconds, in which slots pass."""
    count = 5_000 if scale == 1 else 100_000
    ids = await bury(steps, count)

    await steps.replay(Filter(task="step"), rate=rate)

    due = sorted(job.run_at.timestamp() for job in await steps._store.get(ids))
    assert most_in_a_second(due) <= rate * 1.02 + 1
    assert due[-1] - due[0] < count / rate * 1.1 + 30


@pytest.mark.timeout(900)
async def test_b149_very_many_are_replayed_at_a_rate_and_nobody_waits(
    steps: App, database_url: str, workers: Workers, scale: int
) -> None:
    """Of 100,000 with `--slow`; stopped half way it goes on when it is repeated."""
    app, count = steps, 4_000 if scale == 1 else 100_000
    ids = await bury(app, count)
    for label in ("first", "second"):
        await workers.start("steps", label, concurrency=50, lease=30)
    over = asyncio.Event()
    ticking = asyncio.create_task(waits(app, over))

    left = await stop_half_way(app, database_url, ids)
    began = time.monotonic()
    again = await replaying(database_url, "--rate", "1000/s")
    said, _ = await again.communicate()
    assert again.returncode == 0
    assert said.decode() == f"{len(left):,} jobs: done\n"
    # It plans them, and is done: nothing has to keep running.
    planned_s = time.monotonic() - began

    await all_over(app, within=60 + count / 200)
    took_s = time.monotonic() - began
    over.set()
    pickups = sorted(await ticking)
    jobs = await app._store.get(ids)
    assert {(job.status, job.claims, job.failures) for job in jobs} == {
        (Status.SUCCEEDED, 2, 0)
    }
    assert {job.result for job in jobs} == set(range(count))
    assert pickups[len(pickups) // 2] < PICKUP_S / 5
    assert pickups[-1] < PICKUP_S
    assert planned_s < took_s + 1
    # Each call keeps the rate; where the second plans into what the first has planned,
    # as it can't know of it, both do at once.
    for call in (left, set(ids) - left):
        due = sorted(job.run_at.timestamp() for job in jobs if job.id in call)
        assert most_in_a_second(due) <= 1000 * 1.02 + 1


async def test_b149_a_replay_by_filter_starts_within_a_second(
    steps: App, workers: Workers
) -> None:
    ids = await bury(steps, STEP)
    await workers.start("steps", concurrency=50, lease=30)

    answers = await steps.replay(Filter(error_type="ConnectionError"))
    job = await ended(steps, ids[0])

    assert sum(answer.done for answer in answers) == STEP
    assert job.started_at is not None
    assert (job.started_at - job.run_at).total_seconds() < 1


async def test_b150_many_operators_replay_the_same_at_once_and_each_runs_once(
    steps: App, database_url: str, workers: Workers
) -> None:
    ids = await bury(steps, STEP)
    operators = [App(database_url) for _ in range(4)]

    async def replay(app: App, order: int) -> int:
        answers = await app.replay(ids[::order], rate=2000)
        return sum(answer.done for answer in answers)

    done = await asyncio.gather(
        *(replay(app, -1 if n % 2 else 1) for n, app in enumerate(operators))
    )
    for app in operators:
        await app.close()
    await workers.start("steps", concurrency=50, lease=30)
    await all_over(steps)

    assert sum(done) == STEP
    jobs = await steps._store.get(ids)
    assert {(job.claims, job.status) for job in jobs} == {(2, Status.SUCCEEDED)}
    assert {sum(e.get("event") == "replay" for e in job.errors) for job in jobs} == {1}
