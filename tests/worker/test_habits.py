"""What handlers do to the child process they have, and to the job after theirs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rowlock import App, Status, Task
from rowlock.testing import isolated
from tests.endings import ended

from . import habits


@pytest.fixture
async def app(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    # Where the app in the child finds its database.
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", database_url)
    async with isolated(habits.app, database_url) as app:
        yield app


@pytest.mark.parametrize(
    ("task", "arguments", "result"),
    [
        (habits.come_out_twice, ("return",), "exit code 0"),
        (habits.come_out_twice, ("raise",), "exit code 1"),
        (habits.come_out_twice_async, (), "exit code 0"),
        (habits.terminate_fork, (), -15),
        (habits.interrupt_program, (), -2),
        (habits.log_what_is_picky, (), 42),
        (habits.log_at_any_moment, (), 42),
        (habits.log_from_forks, (), 42),
    ],
    ids=str,
)
async def test_a_child_bears_it_and_so_does_the_next_job(
    app: App,
    caplog: pytest.LogCaptureFixture,
    task: Task[..., Any],
    arguments: tuple[object, ...],
    result: object,
) -> None:
    caplog.set_level(logging.INFO)
    async with app.worker(concurrency=1):
        job = await ended(app, await task.enqueue(*arguments))
        after = await ended(app, await habits.answer.enqueue())

    assert (job.status, job.result) == (Status.SUCCEEDED, result), job.last_error
    assert (after.status, after.result) == (Status.SUCCEEDED, 42)


async def test_a_record_has_what_was_given_it_in_words(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with app.worker(concurrency=1):
        await ended(app, await habits.log_what_is_picky.enqueue())

    (record,) = [r for r in caplog.records if r.name == "habits"]
    assert vars(record)["error"].startswith("Picky(")
    assert vars(record)["sizes"] == {"all": [1, 2.5]}


async def test_no_record_is_lost_that_comes_amid_another(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with app.worker(concurrency=1):
        await ended(app, await habits.log_at_any_moment.enqueue())

    told = [r.getMessage()[:9] for r in caplog.records if r.name == "habits"]
    assert told.count("x" * 9) == 500
    assert "heard" in told


async def test_the_next_job_of_a_child_has_its_signals_as_they_were(app: App) -> None:
    async with app.worker(concurrency=1):
        left = await ended(app, await habits.leave_signals.enqueue())
        after = await ended(app, await habits.outlast_alarm.enqueue())

    assert after.status is Status.SUCCEEDED, after.last_error
    assert after.result == left.result != 0


async def test_a_child_that_was_killed_for_garbage_didnt_want_for_memory(
    app: App,
) -> None:
    async with app.worker(concurrency=1):
        job = await ended(app, await habits.send_garbage.enqueue())

    assert "what it sent is garbled" in str(job.last_error)
