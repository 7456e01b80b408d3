"""Cases of the kind *cancellation*: a cancel that meets whatever else happens."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from rowlock import App, Status, Task, Unrecoverable, current_attempt
from rowlock._job import Outcome
from rowlock._store import Claimed, Settled
from tests.endings import ended, known, reached, rested
from tests.journal import Journal
from tests.programs import killed_by_cancel
from tests.workers import LEASE_S, RECOVERED_S, Workers

STAGES = ["pending", "waiting for a retry", "claimed", "running", "finishing"]
DOINGS = ["returns", "raises", "gives up", "ignores", "times out"]
# A second attempt, were there one, would be seen.
HOUR = 3600


def cancel_in_the_store(app: App, stage: str) -> None:
    """Ask for the cancel between the claim and its start, or before the outcome."""
    claim, finish = app._store.claim, app._store.finish

    async def claim_then_cancel(*args: Any, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
        claimed = await claim(*args, **options)
        for each in claimed.claims:
            if each.task == "work":
                await app.cancel(each.job_id)
        return claimed

    async def cancel_then_finish(outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        await app.cancel([outcome.key.job_id for outcome in outcomes])
        return await finish(outcomes)

    if stage == "claimed":
        app._store.claim = claim_then_cancel  # type: ignore[method-assign]  # asks there
    elif stage == "finishing":
        app._store.finish = cancel_then_finish  # type: ignore[method-assign]  # or there


class Work:
    """A task that does what it is told, and a gate before it."""

    def __init__(self, app: App, *, does: str) -> None:
        self.gate = asyncio.Event()
        self.is_over = asyncio.Event()
        self.starts = 0

        @app.task(timeout=0.2 if does == "times out" else HOUR, backoff=HOUR)
        async def work(*, fails_first: bool) -> str:
            self.starts += 1
            if fails_first and current_attempt().number == 1:
                raise ValueError
            await self.gate.wait()
            if does == "raises":
                raise ValueError
            if does == "gives up":
                raise Unrecoverable
            while does in {"ignores", "times out"} and not self.is_over.is_set():
                try:
                    await self.is_over.wait()
                except asyncio.CancelledError:
                    if does == "times out":
                        raise
            return "done"

        self.task: Task[..., Any] = work


@pytest.mark.parametrize("does", DOINGS)
@pytest.mark.parametrize("stage", STAGES)
async def test_b72_a_cancel_ends_the_job_whenever_it_comes_whatever_the_handler_does(
    app: App, stage: str, does: str
) -> None:
    work = Work(app, does=does)
    cancel_in_the_store(app, stage)

    @app.task
    async def greet() -> None: ...

    late = stage == "waiting for a retry"
    if stage != "running":
        work.gate.set()
    if stage == "finishing" and does == "ignores":
        work.is_over.set()  # it returns, and then the cancel comes
    if stage == "pending":
        job_id = known(await work.task.enqueue(fails_first=False))
        assert (await app.cancel(job_id))[0].done
    async with app.worker(lease=LEASE_S):
        if stage != "pending":
            job_id = known(await work.task.enqueue(fails_first=late))
        if late:
            await rested(app, job_id)
            assert (await app.cancel(job_id))[0].done
        if stage == "running":
            await reached(app, job_id, Status.RUNNING)
            await app.cancel(job_id)
            work.gate.set()
        job = await ended(app, job_id, within=10)
        work.is_over.set()
        assert (await ended(app, await greet.enqueue())).status is Status.SUCCEEDED

    # A handler that ends well before it hears of the cancel has succeeded.
    has_time = does == "returns" and stage in {"claimed", "running", "finishing"}
    has_time |= does == "ignores" and stage == "finishing"
    assert job.status is (Status.SUCCEEDED if has_time else Status.CANCELLED)
    assert work.starts == job.attempts == (0 if stage == "pending" else 1)
    assert await app.get(job_id) == job


@pytest.mark.parametrize("stage", STAGES)
async def test_b72_a_cancel_ends_the_job_though_its_worker_is_killed(
    app: App, workers: Workers, journal: Journal, stage: str
) -> None:
    dying = App(app.url)
    killed_by_cancel.register(dying, journal)
    job = dying.find_task("work").job(stage=stage)
    waits = stage in {"pending", "waiting for a retry"}
    (job_id,) = await app.enqueue_many([job])
    if waits:
        await app.cancel(known(job_id))
    worker = await workers.start("killed_by_cancel")
    if not waits:
        while not worker.has_died():  # noqa: ASYNC110 - a process tells nobody
            await asyncio.sleep(0.02)  # of its end
    else:
        worker.kill()

    @app.task(name="work")
    async def other(stage: str) -> None: ...

    # A worker that has just begun recovers nothing in its first lease (law 17).
    async with app.worker(lease=LEASE_S):
        ended_job = await ended(app, job_id, within=LEASE_S + RECOVERED_S)

    assert ended_job.status is Status.CANCELLED
    assert ended_job.attempts == (0 if waits else 1)
    await dying.close()


async def test_b77_a_cancel_that_was_told_done_is_never_followed_by_an_attempt(
    app: App, scale: int
) -> None:
    """Its key is free again, so each round takes the same one."""
    rounds, chance = 50 * scale, random.Random(77)
    starts: list[int] = []
    gates: dict[int, asyncio.Event] = {}

    @app.task(backoff=0)
    async def fail(number: int) -> None:
        starts.append(number)
        if current_attempt().number == 1:
            await gates[number].wait()
        raise ValueError

    async with app.worker():
        for number in range(rounds):
            gates[number] = asyncio.Event()
            keyed = fail.options(idempotency_key="the same")
            job_id = known(await keyed.enqueue(number=number))
            await reached(app, job_id, Status.RUNNING)
            asyncio.get_running_loop().call_later(
                chance.uniform(0, 0.01), gates[number].set
            )
            await asyncio.sleep(0.005)  # the case's own: up to 5 ms before or after
            (answer,) = await app.cancel(job_id)
            job = await ended(app, job_id)
            if answer.done:
                before = starts.count(number)
                assert (job.status, job.attempts) == (Status.CANCELLED, before)
                assert await app.get(job_id) == job
