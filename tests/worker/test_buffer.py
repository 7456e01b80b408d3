"""What a worker has at hand beyond what runs: when that is, and when it goes back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from rowlock import App, Job, OutcomeUnknown, Status
from rowlock._job import Outcome
from rowlock._store import Claimed, Demand, Settled
from rowlock._worker.buffer import Buffer
from rowlock._worker.runs import Runs
from rowlock._worker.throughput import STALE_S
from rowlock.events import Event, JobCancelled
from tests.endings import finished, known
from tests.eventually import eventually

Finish = Callable[[Sequence[Outcome]], Coroutine[Any, Any, Sequence[Settled]]]

FAST, BEHIND = 1_200, 40
# Given back within a second; the rest is for what was to be done before it was seen.
BACK_S = 1.0


class Crowd:
    """Many short jobs, then two that take both places, then some behind them."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.gate = asyncio.Event()
        self.blocked_at: list[float] = []
        self.behind: list[int] = []
        self.demands: list[Demand] = []
        claim = app._store.claim

        async def noted(demand: Demand, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
            self.demands.append(demand)
            return await claim(demand, **options)

        app._store.claim = noted  # type: ignore[method-assign]  # it only notes

        @app.task(max_attempts=1)
        async def pass_by() -> None: ...

        @app.task
        async def block() -> None:
            self.blocked_at.append(time.monotonic())
            await self.gate.wait()

        self.pass_by, self.block = pass_by, block

    async def gather(self) -> None:
        await self.app.enqueue_many(self.pass_by.job() for _ in range(FAST))
        await self.app.enqueue_many(self.block.job() for _ in range(2))
        ids = await self.app.enqueue_many(self.pass_by.job() for _ in range(BEHIND))
        self.behind = list(map(known, ids))

    async def stand_still(self) -> None:
        """Wait until both places are taken."""
        await eventually(lambda: len(self.blocked_at) == 2, within=60)

    async def jobs_behind(self) -> Sequence[Job]:
        return [await self.app.get(job_id) for job_id in self.behind]

    async def are_back(self, *, but: int = 0) -> bool:
        # Unstarted, which is no attempt; at most once is kept, and nothing charged.
        back = (Status.PENDING, 0, 0)
        jobs = await self.jobs_behind()
        waiting = [(job.status, job.attempts, job.losses) == back for job in jobs]
        return waiting.count(False) <= but


@pytest.fixture
def crowd(app: App) -> Crowd:
    return Crowd(app)


async def test_short_jobs_are_claimed_ahead_and_go_back_when_long_ones_hold_them_up(
    app: App, crowd: Crowd
) -> None:
    await crowd.gather()
    async with app.worker(concurrency=2):
        await crowd.stand_still()
        assert max(demand.total for demand in crowd.demands) > 2
        # In a sequence that no job of theirs was behind in.
        claimed = [job for job in await crowd.jobs_behind() if job.claims]
        assert claimed

        await eventually(crowd.are_back)
        waited = time.monotonic() - max(crowd.blocked_at)
        assert waited < BACK_S + 0.5  # reading forty jobs, beside other tests

        crowd.gate.set()
        jobs = await finished(app, crowd.behind)

    assert {(job.status, job.attempts) for job in jobs} == {(Status.SUCCEEDED, 1)}


async def test_another_worker_takes_what_one_has_given_back(
    app: App, crowd: Crowd
) -> None:
    await crowd.gather()
    async with app.worker(concurrency=2):
        await crowd.stand_still()
        async with app.worker(concurrency=2):
            await finished(app, crowd.behind)
        crowd.gate.set()


async def test_a_shutdown_gives_back_at_once_what_is_at_hand(
    app: App, crowd: Crowd
) -> None:
    await crowd.gather()
    async with app.worker(concurrency=2) as worker:
        await crowd.stand_still()
        worker.stop()
        await eventually(crowd.are_back, within=BACK_S)
        crowd.gate.set()
    assert await crowd.are_back()


async def test_what_is_at_hand_goes_back_while_a_handler_blocks_the_loop(
    app: App, database_url: str
) -> None:
    other = App(database_url)
    blocked, seen = threading.Event(), list[bool]()
    crowd = Crowd(app)

    @app.task
    async def freeze() -> None:
        blocked.set()
        # The loop stands still, which is what this is about.
        looking.join()

    def look() -> None:
        async def are_back() -> None:
            async with other:
                crowd.app = other
                # One may have the other place, and can't come to its end.
                await eventually(lambda: crowd.are_back(but=1), within=BACK_S + 5)
                claims = [job.claims for job in await crowd.jobs_behind()]
                seen.append(sum(claims) > 1)

        blocked.wait(60)
        asyncio.run(are_back())

    looking = threading.Thread(target=look)
    await app.enqueue_many(crowd.pass_by.job() for _ in range(FAST))
    await freeze.enqueue()
    ids = await app.enqueue_many(crowd.pass_by.job() for _ in range(BEHIND))
    crowd.behind = list(map(known, ids))
    looking.start()
    async with app.worker(concurrency=2):
        await eventually(lambda: bool(seen), within=60)
        await finished(app, crowd.behind)
    assert seen == [True]


async def test_a_worker_of_one_at_a_time_has_nothing_at_hand(
    app: App, crowd: Crowd
) -> None:
    """Its claims are alone, which what is at hand would make untrue."""
    ids = await app.enqueue_many(crowd.pass_by.job() for _ in range(300))
    async with app.worker(concurrency=1):
        await finished(app, list(map(known, ids)))

    assert {demand.total for demand in crowd.demands} == {1}


async def test_who_is_idle_has_nothing_at_hand(app: App, crowd: Crowd) -> None:
    ids = await app.enqueue_many(crowd.pass_by.job() for _ in range(FAST))
    async with app.worker(concurrency=2):
        await finished(app, list(map(known, ids)))
        await asyncio.sleep(2 * STALE_S)  # until its pace says nothing any more
        crowd.demands.clear()
        await finished(app, [await crowd.pass_by.enqueue()])
    assert crowd.demands[0].total == 2


@pytest.mark.parametrize("answer", ["heard", "lost", "unwritten"])
async def test_a_job_that_is_cancelled_as_its_claim_goes_back_is_told_of_once(
    app: App, told: list[Event], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """Law 21, where no handler has begun; also if the store's answer was lost."""

    @app.task
    async def pass_by() -> None: ...

    job_id = known(await pass_by.enqueue())
    kept = await pass_by.enqueue()
    settings = app.worker()._settings
    runs = Runs(on_room=lambda _: None, on_stuck=lambda: None, max_stuck=1)
    buffer = Buffer(settings, runs, blocked_s=lambda: 0)
    claimed = await app._store.claim(
        Demand(total=2, tasks=frozenset({"pass_by"})),
        worker=settings.worker,
        lease=app.lease,
    )
    (asked,) = await app.cancel(job_id)
    assert asked.status is Status.RUNNING
    buffer.add(claimed)
    buffer.give_up()
    if answer != "heard":
        losing = _loses(app._store.finish, writes=answer == "lost")
        with monkeypatch.context() as patched:
            patched.setattr(app._store, "finish", losing)
            with pytest.raises(OutcomeUnknown):
                await buffer.give_back()
    await buffer.give_back()
    await buffer.give_back()

    ended = [event for event in told if isinstance(event, JobCancelled)]
    assert [event.job_id for event in ended] == [job_id]
    assert (await app.get(job_id)).status is Status.CANCELLED
    assert (await app.get(known(kept))).status is Status.PENDING
    assert not buffer.held()


def _loses(finish: Finish, *, writes: bool) -> Finish:
    """Lose the answer, whether it was written or not."""

    async def lose(outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        if writes:
            await finish(outcomes)
        raise OutcomeUnknown

    return lose
