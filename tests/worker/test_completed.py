"""Attempts that complete themselves, as their worker sees them; on each store."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import psycopg
import pytest

from rowlock import App, Filter, Status, UsageError, current_attempt
from rowlock._events import Event
from rowlock._job import Ending
from rowlock.events import (
    AttemptFailed,
    AttemptRaisedLate,
    AttemptSucceeded,
    ClaimRefused,
    JobEnqueued,
    OutcomeDropped,
)
from rowlock.testing import drain
from tests.endings import ended, known, reached
from tests.eventually import eventually

Own: TypeAlias = "sqlite3.Connection | psycopg.Connection[tuple[int]]"
Connect: TypeAlias = Callable[[], Own]


@pytest.fixture
def app(database_url: str) -> App:
    """An app without tasks, whose time goes by."""
    return App(database_url, lease=2)


@pytest.fixture
def connect(database_url: str) -> Connect:
    """Make connections of a user's own, to a database with a table of their own."""

    def connect() -> Own:
        if database_url.startswith("sqlite"):
            path = database_url.removeprefix("sqlite:///")
            return sqlite3.connect(path, check_same_thread=False)
        return psycopg.connect(database_url)

    own = connect()
    own.execute("CREATE TABLE IF NOT EXISTS paid (n integer)")
    own.execute("DELETE FROM paid")
    own.commit()
    own.close()
    return connect


def paid(connect: Connect) -> int:
    own = connect()
    ((count,),) = own.execute("SELECT count(*) FROM paid").fetchall()
    own.close()
    return int(count)


def pay(own: Own) -> None:
    own.execute("INSERT INTO paid VALUES (1)")


def of(told: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in told if isinstance(event, kind)]


async def test_a_success_is_recorded_with_what_the_handler_wrote(
    app: App, told: list[Event], connect: Connect
) -> None:
    @app.task
    def order() -> str:
        own = connect()
        pay(own)
        current_attempt().progress(0.5, "nearly")
        current_attempt().spawn(other.job())
        current_attempt().complete_sync({"paid": 1}, connection=own)
        own.commit()
        own.close()
        return "is dropped"

    @app.task(queue="others")
    def other() -> None: ...

    def follow(ending: Ending) -> list[object]:
        return [other.job()] if ending.task == "order" else []

    app.follow(follow)  # type: ignore[arg-type]  # jobs they are
    async with app, app.worker(queues=["default"]):
        job = await reached(app, await order.enqueue(), Status.SUCCEEDED)
        await eventually(lambda: bool(of(told, AttemptSucceeded)))
        jobs = await app.list(Filter(task="other"))

    assert job.result == {"paid": 1}
    assert job.progress == {"fraction": 0.5, "note": "nearly"}
    assert paid(connect) == 1
    assert len(jobs.jobs) == 2
    enqueued = [event.job_id for event in told if isinstance(event, JobEnqueued)]
    assert {job.id for job in jobs.jobs} <= set(enqueued)


async def test_a_rollback_before_a_normal_return_is_a_failure(
    app: App, told: list[Event], connect: Connect
) -> None:
    @app.task(backoff=0)
    def order() -> None:
        attempt = current_attempt()
        own = connect()
        pay(own)
        attempt.complete_sync(connection=own)
        (own.rollback if attempt.number == 1 else own.commit)()
        own.close()

    async with app, app.worker():
        job = await reached(app, await order.enqueue(), Status.SUCCEEDED)

    assert (job.attempts, job.failures, job.losses) == (2, 1, 0)
    assert job.last_error is not None
    assert job.last_error == (
        "CompletionRolledBack: the handler returned, and the transaction in which it"
        " had called complete() was rolled back, as one is that isn't committed: commit"
        " before the handler returns, and call complete() outside of savepoints"
    )
    assert paid(connect) == 1
    (failed,) = of(told, AttemptFailed)
    assert isinstance(failed, AttemptFailed)
    assert failed.error_type == "CompletionRolledBack"


async def test_a_rollback_by_an_error_is_that_error(app: App, connect: Connect) -> None:
    @app.task(max_attempts=1)
    def order() -> None:
        own = connect()
        pay(own)
        current_attempt().complete_sync(connection=own)
        own.rollback()
        own.close()
        msg = "the till is stuck"
        raise OSError(msg)

    async with app, app.worker():
        job = await reached(app, await order.enqueue(), Status.FAILED)

    assert job.last_error == "OSError: the till is stuck"
    assert paid(connect) == 0


async def test_an_error_after_the_commit_leaves_the_success_and_is_told(
    app: App, told: list[Event], connect: Connect
) -> None:
    @app.task
    def order() -> None:
        own = connect()
        pay(own)
        current_attempt().complete_sync(connection=own)
        own.commit()
        own.close()
        msg = "the printer is out of paper"
        raise OSError(msg)

    async with app, app.worker():
        job = await reached(app, await order.enqueue(), Status.SUCCEEDED)
        await eventually(lambda: bool(of(told, AttemptRaisedLate)))

    (late,) = of(told, AttemptRaisedLate)
    assert isinstance(late, AttemptRaisedLate)
    assert late.error == "OSError: the printer is out of paper"
    assert late.traceback is not None
    assert "in order\n    raise OSError(msg)\n" in late.traceback
    assert (job.attempts, job.failures, job.last_error) == (1, 0, None)
    assert paid(connect) == 1


async def test_an_attempt_completes_once_and_last(app: App, connect: Connect) -> None:
    refusals: list[str] = []

    @app.task
    def order() -> None:
        attempt = current_attempt()
        own = connect()
        pay(own)
        attempt.complete_sync(connection=own)
        late: list[Callable[[], object]] = [
            lambda: attempt.complete_sync(connection=own),
            lambda: attempt.checkpoint_sync({"page": 1}),
            lambda: attempt.spawn(order.job()),
            lambda: attempt.hold_sync(connection=own),
        ]
        for call in late:
            try:
                call()
            except UsageError as error:
                refusals.append(str(error))
        own.commit()
        own.close()

    async with app, app.worker():
        job = await reached(app, await order.enqueue(), Status.SUCCEEDED)

    assert [each.split("()")[0] for each in refusals] == [
        "complete",
        "checkpoint",
        "spawn",
        "hold",
    ]
    (said,) = {each.partition("()")[2] for each in refusals}
    assert said == (
        f" comes too late: this attempt of job {job.id} has called complete(). Commit"
        " that transaction and return; where it was rolled back, raise, and the next"
        " attempt does all of it again."
    )
    assert paid(connect) == 1


async def test_a_connection_that_is_refused_completes_nothing(
    app: App, connect: Connect
) -> None:
    @app.task
    def order() -> str:
        with pytest.raises(UsageError):
            current_attempt().complete_sync(connection=object())
        return "as usual"

    async with app, app.worker():
        job = await reached(app, await order.enqueue(), Status.SUCCEEDED)

    assert job.result == "as usual"
    assert paid(connect) == 0


async def test_a_connection_in_autocommit_is_refused_outside_of_a_transaction(
    app: App, connect: Connect
) -> None:
    refusals: list[str] = []

    @app.task
    def order() -> None:
        own = connect()
        if isinstance(own, sqlite3.Connection):
            own.isolation_level = None
        else:
            own.autocommit = True
        try:
            current_attempt().complete_sync(connection=own)
        except UsageError as error:
            refusals.append(str(error))
        own.execute("BEGIN")
        pay(own)
        current_attempt().complete_sync(connection=own)
        own.execute("COMMIT")
        own.close()

    async with app, app.worker():
        await reached(app, await order.enqueue(), Status.SUCCEEDED)

    assert len(refusals) == 1
    assert "begin one" in refusals[0]
    assert paid(connect) == 1


async def test_a_cancel_is_too_late_for_a_completion(
    app: App, connect: Connect
) -> None:
    @app.task
    def order() -> None:
        current_attempt().cancelled.wait(10)
        own = connect()
        pay(own)
        current_attempt().complete_sync(connection=own)
        own.commit()
        own.close()

    async with app, app.worker():
        job_id = known(await order.enqueue())
        await reached(app, job_id, Status.RUNNING)
        await app.cancel(job_id)
        job = await ended(app, job_id)

    assert job.status is Status.SUCCEEDED
    assert paid(connect) == 1


async def test_a_timeout_after_the_commit_leaves_the_success(
    app: App, told: list[Event], connect: Connect
) -> None:
    free = threading.Event()

    @app.task(timeout=1)
    def order() -> None:
        own = connect()
        pay(own)
        current_attempt().complete_sync(connection=own)
        own.commit()
        own.close()
        free.wait(10)

    async with app, app.worker():
        job = await reached(app, await order.enqueue(), Status.SUCCEEDED)
        await eventually(lambda: bool(of(told, AttemptRaisedLate)))
        free.set()

    (late,) = of(told, AttemptRaisedLate)
    assert isinstance(late, AttemptRaisedLate)
    assert late.error_type == "TimeoutError"
    assert (job.attempts, job.failures) == (1, 0)
    assert (await app_job(app, job.id)) is Status.SUCCEEDED


@pytest.mark.parametrize("holds_s", [0.5, 3], ids=["briefly", "past_its_lease"])
async def test_a_handler_that_was_given_up_may_complete_all_the_same(
    app: App, told: list[Event], connect: Connect, holds_s: float
) -> None:
    if holds_s > 2 and app.url.startswith("sqlite"):
        pytest.skip("its transaction locks the worker out, which then gives up")

    @app.task(timeout=1)
    def order() -> None:
        own = connect()
        if isinstance(own, sqlite3.Connection):
            own.execute("BEGIN IMMEDIATE")
        else:
            current_attempt().hold_sync(connection=own)
        pay(own)
        current_attempt().cancelled.wait(10)
        time.sleep(holds_s)  # while its failure waits for this transaction
        current_attempt().complete_sync(connection=own)
        own.commit()
        own.close()

    async with app, app.worker():
        job = await reached(app, await order.enqueue(), Status.SUCCEEDED)
        await eventually(lambda: bool(of(told, AttemptSucceeded)))

    assert len(of(told, AttemptSucceeded)) == 1
    assert not of(told, ClaimRefused)
    assert not of(told, OutcomeDropped)
    (late,) = of(told, AttemptRaisedLate)
    assert isinstance(late, AttemptRaisedLate)
    assert late.error_type == "TimeoutError"
    assert (job.attempts, job.failures, job.losses) == (1, 0, 0)
    assert paid(connect) == 1


async def app_job(app: App, job_id: int) -> Status:
    async with app:
        return (await app.get(job_id)).status


async def test_a_handler_that_runs_on_after_its_commit_is_not_called_lost(
    app: App, told: list[Event], connect: Connect
) -> None:
    reasons: list[object] = []

    @app.task
    def order() -> None:
        own = connect()
        pay(own)
        current_attempt().complete_sync(connection=own)
        own.commit()
        own.close()
        # Longer than a lease, in which it would be renewed several times.
        current_attempt().cancelled.wait(3)
        reasons.append(current_attempt().cancelled.reason)

    async with app, app.worker():
        await reached(app, await order.enqueue(), Status.SUCCEEDED)
        await eventually(lambda: bool(of(told, AttemptSucceeded)))

    assert reasons == [None]
    assert not of(told, OutcomeDropped)


async def test_a_drain_tells_what_completes_itself_from_what_is_rolled_back(
    app: App, connect: Connect
) -> None:
    @app.task(max_attempts=1)
    def order(*, commits: bool) -> None:
        own = connect()
        pay(own)
        current_attempt().complete_sync(connection=own)
        (own.commit if commits else own.rollback)()
        own.close()

    async with app:
        await order.enqueue(commits=True)
        await order.enqueue(commits=False)
        drained = await drain(app, raises=False)

    assert (drained.succeeded, drained.failed) == (1, 1)
    assert paid(connect) == 1
