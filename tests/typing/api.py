"""
The public API as a user types it: read by mypy and pyright, never run.

A line that must be refused says so to both, and either complains where it isn't.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_type

from rowlock import (
    Answer,
    App,
    Backoff,
    Filter,
    Job,
    NewJob,
    Page,
    Retry,
    Snooze,
    Stats,
    Unrecoverable,
    current_attempt,
)

app = App("sqlite:///shop.db", max_attempts=5, timeout=timedelta(minutes=5))


@app.task
async def greet(name: str, times: int = 1) -> None:
    attempt = current_attempt()
    if attempt.is_last:
        raise Unrecoverable(name)
    raise Snooze(60) if attempt.number > times else Retry(delay=timedelta(minutes=1))


@app.task(
    queue="mail",
    max_attempts=5,
    timeout=30,
    backoff=Backoff.exponential(2, factor=2, cap=300),
    dead_on=(ValueError,),
)
def total(order_id: int, prices: Sequence[float]) -> float:
    return sum(prices) + order_id


@app.task(backoff=lambda failures: timedelta(seconds=failures))
def callable_backoff() -> None: ...


async def a_task_is_called_and_enqueued_like_its_function() -> None:
    assert_type(total(1, [1.5]), float)
    await greet("Ada")

    assert_type(await greet.enqueue("Ada", times=2), int | None)
    assert_type(total.enqueue_sync(order_id=1, prices=[1.5]), int | None)
    assert_type(total.job(1, prices=[1.5]), NewJob)
    jobs = (greet.job(name) for name in ("Ada", "Bo"))
    assert_type(await app.enqueue_many(jobs), list[int | None])
    assert_type(app.enqueue_many_sync(jobs), list[int | None])


async def wrong_arguments_are_refused() -> None:
    await greet.enqueue(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await greet.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    total.job(order_id=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    total.enqueue_sync(1, [1.5], 2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def options_keep_the_signature(connection: sqlite3.Connection) -> None:
    later = greet.options(
        queue="mail",
        priority=5,
        delay=60,
        max_attempts=1,
        timeout=timedelta(seconds=30),
        backoff=[1, 5, timedelta(minutes=1)],
        idempotency_key="greet:Ada",
        connection=connection,
    )
    assert_type(await later.enqueue("Ada"), int | None)
    greet.options(run_at=datetime.now(UTC), expires_at=datetime.now(UTC))

    await later.enqueue(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    greet.options(delay="soon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    greet.options(dely=60)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def operators_get_values() -> None:
    job = await app.get(17)
    assert_type(job, Job)
    assert_type(job.run_at, datetime)
    assert_type(job.finished_at, datetime | None)
    assert_type(await app.list(Filter(task="greet")), Page)
    assert_type(await app.cancel(17), Sequence[Answer])
    assert_type(app.replay_sync(Filter(task="greet")), Sequence[Answer])
    assert_type(await app.stats(), Stats)


async def a_worker_runs_inside_a_program() -> None:
    async with app, app.worker(concurrency=5, queues=["mail"], lease=30):
        await greet.enqueue("Ada")
