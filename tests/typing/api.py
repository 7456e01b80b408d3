"""
The public API as a user types it: read by mypy and pyright, never run.

A line that must be refused says so to both, and either complains where it isn't.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type, overload

from rowlock import (
    Answer,
    Answers,
    App,
    Attempt,
    Backoff,
    BackoffLike,
    BetweenLike,
    DeadGroup,
    Filter,
    Finding,
    Job,
    JobUnfinished,
    KeyedTask,
    NewJob,
    Page,
    Preview,
    Retention,
    Retry,
    Snooze,
    Stats,
    Status,
    StatusLike,
    Task,
    Unrecoverable,
    Where,
    Worker,
    current_attempt,
)
from rowlock.events import (
    Around,
    AttemptFailed,
    Ending,
    Event,
    Follower,
    JobEnqueued,
    Listener,
)
from rowlock.testing import (
    Drained,
    FakeClock,
    assert_enqueued,
    assert_enqueued_sync,
    drain,
    drain_sync,
    fresh_database,
    inline,
    isolated,
    refute_enqueued,
    refute_enqueued_sync,
)

app = App(
    "sqlite:///shop.db",
    max_attempts=5,
    timeout=timedelta(minutes=5),
    safety_interval=10,
    retention=Retention(failed=timedelta(days=90)),
    clock=FakeClock(),
)


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


@app.task()
async def count(lines: list[str]) -> int:
    return len(lines)


@app.task
def count_names(name: str) -> int:
    return len(name)


keyed_names = count_names.options(idempotency_key="names")


@dataclass
class Order:
    number: int


@app.task(name="ship_order")
async def ship(order: Order, *, express: bool = False) -> str | None:
    return f"{order.number}" if express else None


@overload
def widen(value: int) -> int: ...
@overload
def widen(value: str) -> str: ...
@app.task
def widen(value: int | str) -> int | str:
    return value


async def b136_a_task_keeps_its_functions_signature_in_either_form() -> None:
    assert_type(total(1, [1.5]), float)
    assert_type(total.function(order_id=1, prices=[2]), float)
    await greet("Ada")
    await greet(name="Ada", times=2)
    assert_type(await ship(Order(1), express=True), str | None)

    assert_type(await greet.enqueue("Ada", times=2), int)
    assert_type(await ship.enqueue(Order(1), express=True), int)
    assert_type(total.enqueue_sync(order_id=1, prices=[1.5]), int)
    assert_type(total.job(1, prices=[1.5]), NewJob)
    jobs = (greet.job(name) for name in ("Ada", "Bo"))
    assert_type(await app.enqueue_many(jobs), list[int | None])
    assert_type(app.enqueue_many_sync(jobs), list[int | None])
    assert_type(total.name, str)
    assert_type(total.__name__, str)
    assert_type(app.url, str)


async def b137_async_functions_decorate_cleanly() -> None:
    assert_type(await count(["a"]), int)
    called: Coroutine[Any, Any, int] = count(["a"])
    called.close()
    assert_type(await count.enqueue(["a"]), int)


async def an_enqueue_is_a_coroutine_like_any_other() -> None:
    assert_type(await asyncio.create_task(greet.enqueue("Ada")), int)
    first, second = await asyncio.gather(greet.enqueue("Ada"), count.enqueue([]))
    assert_type(first, int)
    assert_type(second, int)
    assert_type(await asyncio.wait_for(greet.enqueue("Ada"), 10), int)
    assert_type(asyncio.run(greet.enqueue("Ada")), int)

    greet.enqueue("Ada")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    app.enqueue_many([])  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    app.cancel(17)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    assert_enqueued(app, greet)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    drain(app)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


async def wrong_arguments_are_refused() -> None:
    await greet.enqueue(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await greet.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await ship.enqueue(Order(1), True)  # type: ignore[call-arg]  # noqa: FBT003  # pyright: ignore[reportCallIssue]
    await ship(Order("1"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    total.job(order_id=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    total.enqueue_sync(1, [1.5], 2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    total(1, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await app.enqueue_many([greet])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    app.task(queue=1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


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
    greet.options(delay="soon")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    greet.options(dely=60)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def enqueued(task: KeyedTask[..., Any]) -> int | None:
    return task.enqueue_sync()


async def only_a_key_makes_a_duplicate_possible(key: str | None) -> None:
    assert_type(await greet.options(delay=60, queue="mail").enqueue("Ada"), int)
    assert_type(greet.options(delay=60).enqueue_sync("Ada", times=2), int)
    keyed = greet.options(idempotency_key="greet:Ada", delay=60)
    assert_type(await keyed.enqueue("Ada"), int | None)
    assert_type(keyed.enqueue_sync("Ada"), int | None)
    assert_type(await keyed.options(delay=60).enqueue("Ada"), int | None)
    assert_type(greet.options(idempotency_key=key).enqueue_sync("Ada"), int | None)
    assert_type(keyed.job("Ada"), NewJob)
    kept = greet.options(
        idempotency_key=key, idempotency_for=timedelta(days=30), on_conflict="raise"
    )
    assert_type(await kept.enqueue("Ada"), int | None)
    await keyed("Ada")
    assert_type([enqueued(each) for each in (total, keyed_names)], list[int | None])

    await app.wait(await keyed.enqueue("Ada"), 30)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.wait_sync(keyed.enqueue_sync("Ada"), 30)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    unkeyed: Task[..., int] = keyed_names  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    assert_type(unkeyed.enqueue_sync("Ada"), int)
    keyed.enqueue_sync(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    greet.options(on_conflict="raise")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    greet.options(idempotency_for=60)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    greet.options(idempotency_key="k", on_conflict="ignore")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    keyed.options(idempotency_key=1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


async def operators_get_values() -> None:
    job = await app.get(17)
    assert_type(job, Job)
    assert_type(job.run_at, datetime)
    assert_type(job.finished_at, datetime | None)
    assert_type(await app.list(Filter(task="greet")), Page)
    assert_type(await app.find(greet, "greet:Ada"), Job | None)
    assert_type(await app.once("evt_7", connection=object()), bool)
    assert_type(app.once_sync("evt_7", connection=object()), bool)
    assert_type(app.find_sync("greet", "greet:Ada"), Job | None)
    assert_type(await app.cancel(17), Answers)
    assert_type(app.replay_sync(Filter(task="greet")), Answers)
    assert_type(await app.move([17], queue="mail", priority=5, delay=0), Answers)
    old = Filter(status=Status.FAILED, older_than=timedelta(days=1))
    assert_type(old.status, Status | None)
    assert_type(Filter(status="failed", older_than=3600).older_than, timedelta | None)
    assert_type(Filter(ids=[1, 2]).ids, tuple[int, ...] | None)
    assert_type(Retention(failed=3600).failed, timedelta)
    assert_type(app.delete_sync(old, by="ada"), Answers)
    assert_type(app.delete_sync(old)[0], Answer)
    assert_type(await app.preview("replay", old), Preview)
    assert_type(await app.resume(queue="mail"), bool)
    await app.pause(task=greet, for_=timedelta(hours=1), reason="the provider is down")
    assert_type(await app.stats(), Stats)
    assert_type(app.doctor_sync(), Sequence[Finding])
    assert_type(await app.dead(task=greet), Sequence[DeadGroup])
    assert_type(app.dead_sync(queue="mail"), Sequence[DeadGroup])

    await app.once("evt_7")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await app.find(greet)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await app.move(17, "mail")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await app.pause("mail")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Filter(state="failed")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Filter(status="dead")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Filter(older_than="1d")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Retention(failed="30d")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def a_job_is_waited_for() -> None:
    job_id = await greet.enqueue("Ada")
    try:
        assert_type(await app.wait(job_id, timeout=30), Job)
    except JobUnfinished as error:
        assert_type(error.job_id, int)
    assert_type(app.wait_sync(greet.enqueue_sync("Bo"), 30), Job)

    await app.wait(job_id)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def a_handler_asks_and_tells() -> None:
    attempt = current_attempt()
    assert_type(attempt, Attempt)
    assert_type(attempt.deadline, datetime | None)
    assert_type(attempt.scheduled_for, datetime | None)
    page: int = attempt.state["page"] if attempt.state else 0
    await attempt.checkpoint({"page": page, "seen": [1, 2]})
    attempt.checkpoint_sync(["a"])
    attempt.progress(0.5, "half of it")
    await attempt.hold(connection=object())
    attempt.hold_sync(connection=object())
    await attempt.complete(connection=object())
    await attempt.complete({"page": page}, connection=object())
    attempt.complete_sync([page], connection=object())
    attempt.spawn(greet.job("Ada"), *(greet.job(name) for name in ("Bo", "Cy")))
    await attempt.cancelled
    attempt.cancelled.raise_if_set()
    if attempt.cancelled or attempt.cancelled.wait(1):
        return

    attempt.checkpoint({})  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    attempt.hold(connection=object())  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    attempt.complete_sync()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    attempt.progress("half")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    attempt.spawn()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    attempt.spawn(greet.enqueue("Ada"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    attempt.state = 1  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def hear(event: Event) -> None:
    if isinstance(event, JobEnqueued):
        assert_type(event.job_id, int)
    if isinstance(event, AttemptFailed):
        assert_type(event.retry_at, datetime | None)
        event.failures = 0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


@asynccontextmanager
async def traced(attempt: Attempt) -> AsyncGenerator[None, None]:
    assert_type(attempt.job_id, int)
    yield


def followed(ending: Ending) -> Iterator[NewJob]:
    if ending.status is Status.FAILED:
        yield greet.job(ending.error or "")


async def is_up() -> bool:
    return True


def an_app_is_extended_in_three_ways() -> None:
    assert_type(app.listen(hear), Callable[[], None])
    assert_type(app.around(traced), Callable[[], None])
    assert_type(app.follow(followed), Callable[[], None])

    app.replay_when(greet, lambda: True, every=timedelta(minutes=5))
    app.replay_when("greet", probe=is_up, rate=0.5)

    app.replay_when(greet)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    app.listen(traced)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.around(hear)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.follow(hear)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def what_users_write_can_be_imported(
    where: Where, status: StatusLike, number: BetweenLike, backoff: BackoffLike
) -> tuple[Listener, Around, Follower]:
    app.task(backoff=backoff)
    app.cancel_sync(where)
    app.list_sync(Filter(status=status, attempts=number))
    with app as opened:
        assert_type(opened, App)
    return hear, traced, followed


async def a_worker_has_a_type(worker: Worker) -> None:
    async with worker as running:
        assert_type(running, Worker)
        running.stop()


async def a_worker_runs_inside_a_program() -> None:
    assert_type(app.worker(), Worker)
    async with app, app.worker(concurrency=5, queues=["mail"], lease=30):
        await greet.enqueue("Ada")


async def tested(rowlock_app: App, rowlock_clock: FakeClock) -> None:
    rowlock_clock.advance(timedelta(hours=1))
    with inline(rowlock_app) as inlined:
        assert_type(inlined, App)
    with fresh_database() as url, isolated(app, url, clock=rowlock_clock) as put:
        assert_type(put, App)
    async with isolated(app) as put:
        assert_type(put, App)
    drained = await drain(app, queues=["mail"], advance=60, limit=10, raises=False)
    assert_type(drained, Drained)
    assert_type(drained.errors, tuple[BaseException, ...])
    drain_sync(app, advance=timedelta(days=1))
    jobs = await assert_enqueued(
        app, greet, args={"name": "Ada"}, count=1, queue="mail"
    )
    assert_type(jobs, Sequence[Job])
    assert_enqueued_sync(app, "greet", status="pending", delay=60, within=1)
    await refute_enqueued(app, greet, priority=3, status=Status.FAILED)
    refute_enqueued_sync(app, greet, run_at=datetime.now(UTC))
    await refute_enqueued(app, greet, status="dead")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await refute_enqueued(app, greet, colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
