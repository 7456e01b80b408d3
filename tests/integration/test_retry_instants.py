"""When a job is tried again: counted from the moment in which it failed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from rowlock import App, Backoff, Status, StoreUnavailable
from rowlock._job import Outcome
from rowlock._store import Settled
from rowlock.testing import FakeClock
from tests.endings import ended, rested

DELAYS = [timedelta(seconds=2), timedelta(seconds=4), timedelta(seconds=8)]
BACKOFF = Backoff.exponential(2, factor=2, jitter=0)
MICROSECOND = timedelta(microseconds=1)


async def test_a_job_is_due_2_then_4_then_8_seconds_after_each_of_its_failures(
    database_url: str, clock: FakeClock
) -> None:
    app = App(database_url, clock=clock)
    failed_at: list[datetime] = []

    @app.task(max_attempts=4, backoff=BACKOFF)
    async def fail() -> None:
        failed_at.append(clock.now())
        raise ValueError

    @app.task(priority=-1)
    async def look() -> None:
        """Come last: once this has run, everything else that is due has started."""

    start = clock.now()
    async with app, app.worker():
        job_id = await fail.enqueue()
        for failures, delay in enumerate(DELAYS, start=1):
            job = await rested(app, job_id, after=failures)
            assert (
                datetime.fromisoformat(str(job.errors[-1]["ended_at"])) == clock.now()
            )
            assert job.run_at == clock.now() + delay
            clock.advance(delay - MICROSECOND)
            await ended(app, await look.enqueue())
            assert len(failed_at) == failures
            clock.advance(MICROSECOND)
        job = await ended(app, job_id)

    assert (job.status, job.failures) == (Status.FAILED, 4)
    assert failed_at == list(accumulate(DELAYS, initial=start))


async def test_a_backoff_counts_from_the_failure_also_where_its_write_comes_later(
    database_url: str, clock: FakeClock
) -> None:
    app = App(database_url, clock=clock)
    finish = app._store.finish
    tries = 0

    async def finish_in_the_end(outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        nonlocal tries
        tries += 1
        if tries <= 3:
            clock.advance(0.5)
            msg = "The database is away."
            raise StoreUnavailable(msg)
        return await finish(outcomes)

    app._store.finish = finish_in_the_end  # type: ignore[method-assign]  # an outage

    @app.task(backoff=BACKOFF)
    async def fail() -> None:
        raise ValueError

    failed_at = clock.now()
    async with app, app.worker():
        job = await rested(app, await fail.enqueue())

    assert job.updated_at == failed_at + timedelta(seconds=1.5)
    assert job.run_at == failed_at + DELAYS[0]
