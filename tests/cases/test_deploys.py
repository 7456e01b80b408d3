"""Cases of the kind *unknown tasks and version mix*: old code beside new."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rowlock import App, Filter, Status
from rowlock._answers import TaskStats
from rowlock._errors import StoreUnavailable
from rowlock._worker import presence
from rowlock.events import Event, TasksUnserved
from tests.endings import ended, finished, known
from tests.eventually import eventually


async def test_b103_jobs_of_a_new_task_wait_for_the_worker_that_has_it(
    database_url: str, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim takes only what its worker has handlers for (law 16)."""

    @app.task
    async def old() -> None: ...

    deployed = App(database_url)

    @deployed.task(max_attempts=1)
    async def new(n: int) -> int:
        return n

    claims: Counter[str] = Counter()
    claim = app._store.claim

    async def counted(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - as they come
        claims["old worker"] += 1
        return await claim(*args, **options)

    monkeypatch.setattr(app._store, "claim", counted)
    async with app.worker(), deployed, deployed.worker(concurrency=20):
        ids = await deployed.enqueue_many(new.job(n) for n in range(200))
        jobs = await finished(app, ids, within=30)

    assert {(job.status, job.attempts, job.failures) for job in jobs} == {
        (Status.SUCCEEDED, 1, 0)
    }
    # It may look at each wake-up, of which there are some a batch, not some a job.
    assert claims["old worker"] < 200


async def test_b103_due_jobs_that_no_live_worker_runs_are_warned_of_once(
    database_url: str,
    app: App,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(presence, "SETTLE_S", 0.0)

    @app.task
    async def old() -> None: ...

    deployed = App(database_url)

    @deployed.task(max_attempts=1)
    async def new(n: int) -> None: ...

    told: list[Event] = []
    app.listen(told.append)
    async with deployed:
        ids = await deployed.enqueue_many(new.job(n) for n in range(3))
    assert (await app.stats()).unserved == {"new": 3}
    async with app.worker() as worker:
        await eventually(lambda: any(isinstance(e, TasksUnserved) for e in told))
        await ended(app, await old.enqueue())
        assert (await app.stats()).unserved == {"new": 3}

    expected = TasksUnserved(worker=worker.id, tasks=("new",), due=3)
    assert [event for event in told if isinstance(event, TasksUnserved)] == [expected]
    (line,) = [r for r in caplog.records if r.message.startswith("tasks.unserved")]
    assert line.levelno == logging.WARNING
    assert "tasks=new due=3" in line.message
    waiting = (await app.list(Filter(task="new"))).jobs
    assert {(job.id, job.status, job.attempts) for job in waiting} == {
        (known(job_id), Status.PENDING, 0) for job_id in ids
    }


async def test_counting_the_due_jobs_in_vain_is_no_outage_and_done_once(
    app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "SETTLE_S", 0.0)
    counted = []

    async def too_many() -> Sequence[TaskStats]:
        counted.append(1)
        msg = "The server has cancelled it: it took longer than statement_timeout."
        raise StoreUnavailable(msg)

    monkeypatch.setattr(app._store.figures, "due", too_many)

    @app.task
    async def note() -> None: ...

    async with app.worker():
        await eventually(lambda: counted != [])
        await ended(app, await note.enqueue())
        await asyncio.sleep(0.2)  # in which it would have been tried again

    assert counted == [1]
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


async def test_b104_what_newer_code_wrote_fails_that_job_alone_and_says_why(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(max_attempts=1)
    async def send(order_id: int, copies: int = 1) -> int:
        return order_id * copies

    job = send.job(order_id=17)
    as_it_came = [
        job,
        replace(job, payload=json.dumps({"order_id": 17, "colour": "red"})),
        replace(job, payload=json.dumps({"order": 17})),
        replace(job, payload="[]"),
        replace(job, meta={"envelope": 7, "trace": "00-ab"}),
        replace(job, payload='{"order_id": "x"}', backoff={"kind": "lunar", "of": 3}),
    ]
    async with app.worker():
        ids = await app._store.enqueue(as_it_came)
        fine, gained, lost, no_object, with_meta, odd = await finished(app, ids)
        again = await ended(app, await send.enqueue(order_id=2))

    assert [job.result for job in (fine, with_meta, again)] == [17, 17, 2]
    for job_, why in (
        (gained, "`$.colour`"),
        (lost, "`$.order"),
        (no_object, "PayloadError"),
        (odd, "`$.order_id`"),
    ):
        assert job_.status is Status.FAILED
        assert why in str(job_.last_error), job_.last_error
    assert "The backoff of task 'send' can't be used" in caplog.text
