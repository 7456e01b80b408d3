"""What a timeout comes to, where the handler takes its time to stop."""

from __future__ import annotations

import asyncio

from rowlock import App, Status
from rowlock._events import AttemptStuck, Event
from tests.eventually import finished
from tests.workers import LEASE_S


async def test_a_handler_that_outlives_timeout_and_lease_has_failed_not_been_lost(
    app: App,
) -> None:
    events: list[Event] = []
    app.listen(events.append)
    may_end = asyncio.Event()

    @app.task(max_attempts=2, backoff=0, timeout=0.1)
    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()

    async with app.worker(lease=LEASE_S):
        (job,) = await finished(app, [await clean_up.enqueue()])
        may_end.set()

    assert (job.status, job.failures, job.losses) == (Status.FAILED, 2, 0)
    assert (job.last_error or "").startswith("TimeoutError")
    assert sum(isinstance(event, AttemptStuck) for event in events) == 2
