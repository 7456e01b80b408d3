"""When a job is tried again: counted from the moment in which it failed."""

from __future__ import annotations

from datetime import datetime, timedelta

from rowlock import App, Backoff, Job, Status
from rowlock.testing import FakeClock
from tests.endings import finished, jobs_of
from tests.eventually import eventually

FIRST, SECOND, THIRD = timedelta(seconds=2), timedelta(seconds=4), timedelta(seconds=8)
MICROSECOND = timedelta(microseconds=1)


async def test_a_job_is_due_2_then_4_then_8_seconds_after_each_of_its_failures(
    database_url: str, clock: FakeClock
) -> None:
    app = App(database_url, clock=clock)
    failed_at: list[datetime] = []

    @app.task(max_attempts=4, backoff=Backoff.exponential(2, factor=2, jitter=0))
    async def fail() -> None:
        failed_at.append(clock.now())
        raise ValueError

    @app.task(priority=-1)
    async def look() -> None:
        """Come last: once this has run, everything else that is due has started."""

    async with app, app.worker():
        job_id = await fail.enqueue()
        for failures, delay in enumerate((FIRST, SECOND, THIRD), start=1):

            async def failed(failures: int = failures) -> Job | None:
                (job,) = await jobs_of(app, [job_id])
                return job if job.failures == failures else None

            job = await eventually(failed)
            ended_at = datetime.fromisoformat(str(job.errors[-1]["ended_at"]))
            assert ended_at == clock.now()
            assert job.run_at == ended_at + delay
            clock.advance(delay - MICROSECOND)
            await finished(app, [await look.enqueue()])
            assert len(failed_at) == failures
            clock.advance(MICROSECOND)
        (job,) = await finished(app, [job_id])

    assert job.status is Status.FAILED
    start = failed_at[0]
    assert failed_at == [
        start,
        start + FIRST,
        start + FIRST + SECOND,
        start + FIRST + SECOND + THIRD,
    ]
