"""A store that has done what it was asked, and whose answer doesn't arrive."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from rowlock import App, OutcomeUnknown, Status, StoreError
from rowlock._worker import buffer, room
from rowlock.events import (
    AttemptSucceeded,
    ClaimRefused,
    Event,
    JobCancelled,
    OutcomeDropped,
)
from rowlock.testing import FakeClock
from tests.endings import all_over, ended, known, reached
from tests.eventually import eventually

if TYPE_CHECKING:
    from rowlock._job import Outcome
    from rowlock._store import Claimed, Settled, Store
    from rowlock._worker.worker import Worker


class Flaky:
    """The store of an app, some of whose answers are lost on their way."""

    def __init__(self, app: App) -> None:
        self._store = app._store
        self.to_lose: Counter[str] = Counter()
        self.refused: set[int] = set()
        self.late_s = 0.0
        app._access.store = cast("Store", self)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def claim(self, *args: Any, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
        """Claim; the answer is only lost where it has something to tell."""
        claimed = await self._store.claim(*args, **options)
        if claimed.claims:
            late_s, self.late_s = self.late_s, 0.0
            await asyncio.sleep(late_s)  # a lease is counted by the machine's clock
            self._lose("claim")
        return claimed

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        """Finish, unless one of them can't be written at all."""
        if self.refused & {outcome.key.job_id for outcome in outcomes}:
            msg = "this outcome can't be written"
            raise StoreError(msg)
        settled = await self._store.finish(outcomes)
        self._lose("finish")
        return settled

    def _lose(self, verb: str) -> None:
        if self.to_lose[verb]:
            self.to_lose[verb] -= 1
            raise OutcomeUnknown(verb)


@pytest.fixture
def flaky(app: App) -> Flaky:
    """The store of that app, as flaky as the test wants it."""
    return Flaky(app)


async def see_jobs_given_back(app: App, make: Callable[[], Worker]) -> None:
    """See that jobs run once each, and in their second claim."""
    numbers: list[int] = []

    @app.task
    async def note(number: int) -> None:
        numbers.append(number)

    ids = await app.enqueue_many(note.job(number=n) for n in range(3))
    async with make():
        jobs = [await ended(app, job_id) for job_id in ids]

    assert sorted(numbers) == [0, 1, 2]
    assert {(job.status, job.claims, job.attempts) for job in jobs} == {
        (Status.SUCCEEDED, 2, 1)
    }


async def test_jobs_of_a_claim_whose_answer_was_lost_are_given_back_unstarted(
    app: App, flaky: Flaky
) -> None:
    flaky.to_lose["claim"] = 1
    await see_jobs_given_back(app, app.worker)

    assert flaky.to_lose["claim"] == 0


async def test_jobs_of_a_claim_whose_answer_took_a_lease_are_given_back_unstarted(
    app: App, flaky: Flaky
) -> None:
    flaky.late_s = 1.1
    await see_jobs_given_back(app, partial(app.worker, lease=1))


async def test_an_outcome_whose_answer_was_lost_is_told_as_written(
    app: App, flaky: Flaky, told: list[Event]
) -> None:
    @app.task
    async def greet() -> None: ...

    flaky.to_lose["finish"] = 2
    async with app.worker():
        job = await ended(app, await greet.enqueue())
        await eventually(lambda: kinds(told, AttemptSucceeded) == 1)

    assert (job.status, job.attempts) == (Status.SUCCEEDED, 1)
    assert kinds(told, ClaimRefused) == 0


async def test_law_21_a_cancel_written_by_an_unanswered_outcome_is_told_as_one(
    app: App, flaky: Flaky, told: list[Event]
) -> None:
    gate = asyncio.Event()

    @app.task
    async def fail() -> None:
        await gate.wait()
        raise ValueError

    flaky.to_lose["finish"] = 1
    async with app.worker():
        job_id = known(await fail.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        gate.set()
        await ended(app, job_id)
        await eventually(lambda: kinds(told, JobCancelled) == 1)

    assert flaky.to_lose["finish"] == 0
    assert kinds(told, ClaimRefused) == 0


async def test_a_worker_that_holds_more_than_one_claims_worth_finds_the_unknown(
    app: App, flaky: Flaky, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LARGEST_CLAIM", 2)
    monkeypatch.setattr(buffer, "LARGEST_CLAIM", 2)
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        await gate.wait()

    async with app.worker(concurrency=9):
        for job_id in await app.enqueue_many([wait.job()] * 6):
            await reached(app, job_id, Status.RUNNING)
        clock.advance(1)
        flaky.to_lose["claim"] = 1
        job_id = await wait.enqueue()
        await eventually(claimed_twice(app, known(job_id)))
        gate.set()
        await all_over(app)

    job = await app.get(known(job_id))
    assert (job.attempts, job.losses) == (1, 0)


async def test_b19_a_run_whose_outcome_was_dropped_is_no_claim_to_give_back(
    app: App, flaky: Flaky, clock: FakeClock, told: list[Event]
) -> None:
    runs: list[str] = []

    @app.task(max_attempts=1)
    async def once() -> None:
        runs.append("once")

    @app.task
    async def greet() -> None: ...

    async with app.worker():
        job_id = known(await once.enqueue())
        flaky.refused = {job_id}
        await eventually(lambda: kinds(told, OutcomeDropped) == 1)
        clock.advance(1)
        flaky.to_lose["claim"] = 1
        await ended(app, await greet.enqueue())

    assert runs == ["once"]
    assert (await app.get(job_id)).status is Status.RUNNING  # for its lease to end


def claimed_twice(app: App, job_id: int) -> Callable[[], Any]:
    async def is_so() -> bool:
        job = await app.get(job_id)
        return (job.status, job.claims) == (Status.RUNNING, 2)

    return is_so


def kinds(told: list[Event], kind: type[Event]) -> int:
    return sum(isinstance(event, kind) for event in told)
