"""Cases of the kind *uniqueness*: a key, and the job that holds it."""

from __future__ import annotations

from rowlock import App, Filter, Status
from tests.endings import finished
from tests.journal import Journal
from tests.programs import gated
from tests.workers import Workers


async def test_b31_the_key_of_a_killed_worker_is_free_after_its_lease(
    app: App, journal: Journal, workers: Workers
) -> None:
    """A duplicate is answered with None; who holds the key is found by the key."""
    gated.register(app, journal)
    task = app.find_task("gated").options(max_attempts=1, idempotency_key="order:1")
    first = await workers.start("gated", "first")
    await workers.start("gated", "second", queues=["other"])
    job_id = await task.enqueue(gate="gate")
    await workers.until("started")
    first.kill()

    assert await task.enqueue(gate="gate") is None
    (holder,) = (await app.list(Filter(task="gated", idempotency_key="order:1"))).jobs
    assert (holder.id, holder.status) == (job_id, Status.RUNNING)
    await finished(app, [job_id])
    assert await task.enqueue(gate="gate") not in (None, job_id)
