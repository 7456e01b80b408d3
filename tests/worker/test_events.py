"""What a worker tells of what it does: which events, in which order, with what."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict, fields

import pytest

from rowlock import App, Snooze, current_attempt
from rowlock.events import (
    AttemptSnoozed,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    JobDeadLettered,
    JobDuplicate,
    JobEnqueued,
    JobEvent,
    WorkerDraining,
    WorkerStarted,
    WorkerStopped,
)
from rowlock.testing import FakeClock
from tests.endings import ended, known, rested
from tests.eventually import eventually


async def test_a_worker_tells_of_its_start_and_of_its_end(
    app: App, told: list[Event]
) -> None:
    @app.task
    async def greet() -> None: ...

    worker = app.worker(concurrency=2, queues={"q": 1}, weights={"q": 3}, lease=60)
    async with worker:
        pass

    story = [event for event in told if event.name.startswith("worker.")]
    draining, stopped = story[1:]
    assert isinstance(draining, WorkerDraining)
    assert (draining.worker, draining.running) == (worker.id, 0)
    assert 9 < draining.wait_s <= 10
    assert isinstance(stopped, WorkerStopped)
    assert (stopped.worker, stopped.abandoned) == (worker.id, 0)
    assert 0 < stopped.took_s < stopped.ran_s < 10
    assert story[:1] == [
        WorkerStarted(
            worker=worker.id,
            store=app.url,
            tasks=("greet",),
            queues=("q",),
            limits={"q": 1},
            weights={"q": 3},
            concurrency=2,
            lease_s=60.0,
            timeout_s=900.0,
        ),
    ]


async def test_the_events_of_a_job_come_in_order_with_their_fields(
    app: App, clock: FakeClock, told: list[Event]
) -> None:
    @app.task(max_attempts=2, backoff=0, queue="q")
    async def fail() -> None:
        msg = "no\nreally not"
        raise ValueError(msg)

    job_id = known(await fail.options(idempotency_key="k").enqueue())
    assert await fail.options(idempotency_key="k").enqueue() is None
    clock.advance(10)
    async with app.worker():
        await ended(app, job_id)
        await eventually(lambda: JobDeadLettered in map(type, told))

    of = {"job_id": job_id, "task": "fail", "queue": "q"}
    why = {"error_type": "ValueError", "error": "ValueError: no"}
    again, over = {"retry_at": clock.now()}, {"retry_at": None}
    story = [told_of(e) for e in told if isinstance(e, JobEvent | JobDuplicate)]
    assert story == [
        ("job.enqueued", of),
        ("job.duplicate", {"task": "fail", "queue": "q", "idempotency_key": "k"}),
        ("attempt.started", {**of, "attempt": 1, "waited_s": 10}),
        ("attempt.failed", {**of, **why, **again, "attempt": 1, "failures": 1}),
        ("attempt.started", {**of, "attempt": 2, "waited_s": 0}),
        ("attempt.failed", {**of, **why, **over, "attempt": 2, "failures": 2}),
        ("job.dead_lettered", {**of, **why, "failures": 2, "losses": 0}),
    ]


def told_of(event: Event) -> tuple[str, dict[str, object]]:
    """Name an event and its fields, without how long its handler ran."""
    told = asdict(event)
    assert 0 <= told.pop("ran_s", 0) < 5
    return event.name, told


async def test_a_success_and_a_snooze_are_told(
    app: App, clock: FakeClock, told: list[Event]
) -> None:
    @app.task
    async def nap() -> None:
        if current_attempt().number == 1:
            raise Snooze(60)

    async with app.worker():
        job_id = known(await nap.enqueue())
        job = await rested(app, job_id)
        await eventually(lambda: AttemptSnoozed in map(type, told))
        snoozed = AttemptSnoozed(
            job_id=job_id, task="nap", queue="default", attempt=1, run_at=job.run_at
        )
        assert snoozed in told
        clock.advance(60)
        await ended(app, job_id)
        await eventually(lambda: AttemptSucceeded in map(type, told))

    kinds = [type(event) for event in told if isinstance(event, JobEvent)]
    assert kinds == [
        JobEnqueued,
        AttemptStarted,
        AttemptSnoozed,
        AttemptStarted,
        AttemptSucceeded,
    ]


async def test_listeners_that_raise_disturb_nobody(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def broken(event: Event) -> None:
        raise ZeroDivisionError(event.name)

    app.listen(broken)
    app.listen(lambda event: heard.append(event.name))

    @app.task
    async def greet() -> None: ...

    async with app.worker():
        await ended(app, await greet.enqueue())

    assert "attempt.started" in heard
    assert heard[-1] == "worker.stopped"
    assert "failed on attempt.started" in caplog.text


async def test_a_listener_may_end_its_own_listening_and_nobody_misses_an_event(
    app: App,
) -> None:
    heard: list[str] = []
    once: list[str] = []

    def hear_once(event: Event) -> None:
        once.append(event.name)
        stop()

    stop = app.listen(hear_once)
    app.listen(lambda event: heard.append(event.name))

    @app.task
    async def greet() -> None: ...

    await greet.enqueue()
    await greet.enqueue()

    assert once == ["job.enqueued"]
    assert heard == ["job.enqueued", "job.enqueued"]
    stop()


async def test_the_log_names_each_event_and_never_a_payload(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="rowlock")

    @app.task(max_attempts=1)
    async def send(secret: str) -> str:
        await asyncio.sleep(0)
        return secret

    async with app.worker():
        await ended(app, await send.enqueue(secret="hunter2"))  # noqa: S106 - no secret

    records = {
        record.getMessage().split(" ")[0]: record
        for record in caplog.records
        if record.name.startswith("rowlock")
    }
    assert {
        "job.enqueued",
        "worker.started",
        "attempt.started",
        "attempt.succeeded",
        "worker.stopped",
    } <= records.keys()
    told = vars(records["attempt.succeeded"])["rowlock"]
    assert told["event"] == "attempt.succeeded"
    assert told.keys() - {"event"} == {field.name for field in fields(AttemptSucceeded)}
    assert "hunter2" not in caplog.text
