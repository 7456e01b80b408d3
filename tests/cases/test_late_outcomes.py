"""Cases of the kind *late result overwriting*: an outcome that comes after another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from rowlock import App, Status
from tests.conformance.stores import StoreCase
from tests.endings import finished, jobs_of, reached
from tests.eventually import eventually
from tests.journal import Gate, Journal
from tests.programs import gated
from tests.workers import Workers


async def test_b16_a_worker_that_was_stopped_past_its_lease_overwrites_nothing(
    app: App, journal: Journal, workers: Workers
) -> None:
    gated.register(app, journal)
    frozen = await workers.start("gated", "frozen")
    job_id = await app.find_task("gated_in_thread").enqueue(gate="gate")
    await workers.until("started", process=frozen.name)
    await frozen.freeze(app)
    other = await workers.start("gated", "other")
    await workers.until("started", process=other.name)
    Gate(journal.folder, "gate").open()
    (before,) = await finished(app, [job_id])

    frozen.thaw()
    (refused,) = await workers.until("claim.refused", process=frozen.name)
    (after,) = await jobs_of(app, [job_id])

    assert (before.status, before.result) == (Status.SUCCEEDED, "other")
    assert after == before
    assert (refused.of["claim"], refused.of["found_claims"]) == (1, 2)
    (success,) = await workers.until("attempt.succeeded")
    assert success.process == other.name
    # It was late, not broken: it goes on, and stops as it should.
    other.stop()
    await finished(app, [await app.find_task("nap").enqueue(seconds=0)])
    assert frozen.stop() == 0


async def test_b17_jobs_deleted_while_they_run_end_in_one_log_line_each(
    app: App, shared_case: StoreCase, caplog: pytest.LogCaptureFixture
) -> None:
    """`delete` refuses what runs, so somebody deletes the rows by SQL."""
    deleted = asyncio.Event()

    @app.task
    async def step(end: str) -> str:
        if end == "times out":
            await asyncio.Event().wait()
        await deleted.wait()
        if end == "raises":
            raise ValueError(end)
        return end

    ends = ("returns", "raises", "times out")
    async with app.worker(concurrency=13):
        gone = [await step.options(timeout=0.5).enqueue(end=end) for end in ends]
        others = await app.enqueue_many(step.job(end="returns") for _ in range(10))
        for job_id in (*gone, *others):
            await reached(app, job_id, Status.RUNNING)
        delete_rows(shared_case, app.url, gone)
        deleted.set()
        jobs = await finished(app, others)
        await eventually(lambda: len(warnings(caplog)) >= len(ends))

    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert sorted(warnings(caplog)) == [
        f"claim.refused job_id={job_id} claim=1" for job_id in gone
    ]
    assert {job.id for job in (await app.list()).jobs} == set(others)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Read the lines that tell of something out of the ordinary."""
    return [line.message for line in caplog.records if line.levelno >= logging.WARNING]


def delete_rows(case: StoreCase, url: str, ids: Sequence[int]) -> None:
    """Delete rows behind the store's back."""
    assert case.delete_rows is not None
    case.delete_rows(url, ids)
