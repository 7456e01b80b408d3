"""Workers that are stopped with SIGTERM, one after the other, while jobs run."""

from __future__ import annotations

from functools import partial

from rowlock import App, Status
from tests.endings import finished
from tests.integration import ledger
from tests.journal import Journal
from tests.programs import chance
from tests.workers import Workers


async def test_a_rolling_restart_costs_no_job_an_attempt_that_counts(
    app: App, journal: Journal, workers: Workers
) -> None:
    """
    The time to stop is shorter than most handlers take. Async ones are given back;
    threads can't be stopped, and are abandoned: recovered without a loss.
    """
    chance.register(app, journal)
    start = partial(workers.start, "chance", concurrency=4, shutdown_timeout=0.3)
    tasks = [app.find_task(name) for name in ("gamble", "gamble_in_thread")]
    ids: list[int | None] = []
    exit_codes = []
    process = await start("worker-0")
    for n in range(1, 5):
        following = await start(f"worker-{n}")
        started = len(workers.records("started", process=process.name))
        ids += await app.enqueue_many(tasks[n % 2].job() for n in range(20))
        await workers.until("started", process=process.name, count=started + 2)
        exit_codes.append(process.stop())
        process = following
    over = await finished(app, ids, within=60)

    accounts = ledger.accounts_of(workers.records())
    for job in over:
        ledger.check(job, accounts)
    assert set(exit_codes) <= {0, 1}
    assert {job.losses for job in over} == {0}
    assert {job.status for job in over} <= {Status.SUCCEEDED, Status.FAILED}
    # It has tested something: there were attempts that counted for nothing.
    released = workers.records("attempt.released", reason="shutdown")
    recovered = workers.records("claim.recovered", losses=0)
    assert released
    assert 1 in exit_codes or not recovered
    succeeded = [job for job in over if job.status is Status.SUCCEEDED]
    back = ledger.uncounted(accounts)
    assert sum(job.attempts - job.failures for job in over) == (
        len(succeeded) + len(back)
    )
    # Fewer, where a process had to stop before it told of what it had written.
    assert len(released) + len(recovered) <= len(back)
