"""Handlers that fork the worker, and come out of both processes."""

from __future__ import annotations

import os

import pytest

from rowlock import App, Status
from rowlock.events import ClaimRefused, Event
from tests.endings import ended


def come_out_twice() -> str:
    fork = os.fork()
    if fork == 0:
        return "the fork's"
    _, status = os.waitpid(fork, 0)
    return f"exit code {os.waitstatus_to_exitcode(status)}"


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_fork_of_the_worker_ends_where_its_handler_does(
    app: App, told: list[Event], kind: str
) -> None:
    @app.task(max_attempts=1)
    def plain() -> str:
        return come_out_twice()

    @app.task(name="async", max_attempts=1)
    async def on_the_loop() -> str:
        return come_out_twice()

    task = plain if kind == "plain" else on_the_loop
    async with app.worker(concurrency=1):
        job = await ended(app, await task.enqueue())

    assert (job.status, job.result) == (Status.SUCCEEDED, "exit code 0")
    assert not [event for event in told if isinstance(event, ClaimRefused)]
