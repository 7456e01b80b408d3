"""Workers that are killed with SIGKILL, again and again, and what the jobs say then."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from rowlock import App, Status
from tests.endings import finished
from tests.integration import ledger
from tests.journal import Journal
from tests.programs import chance
from tests.workers import START_S, Workers

LABELS = ("one", "two", "three")


@pytest.mark.timeout(400)  # --slow kills for half a minute
async def test_killed_workers_lose_no_job_and_write_no_outcome_of_a_lost_claim(
    app: App, journal: Journal, workers: Workers, scale: int
) -> None:
    """
    The killed are late with nothing. So a fourth worker is frozen all the while, and
    goes on when the others have recovered what it held.
    """
    jobs, deaths, concurrency = (100, 6, 2) if scale == 1 else (2000, 30, 10)
    chance.register(app, journal)
    tasks = [app.find_task(name) for name in ("gamble", "gamble_in_thread")]
    start = partial(workers.launch, "chance", concurrency=concurrency, lease=2)
    frozen, *processes = [start(label) for label in ("frozen", *LABELS)]
    await workers.until("worker.started", count=4, within=START_S)
    ids = await app.enqueue_many(tasks[n % 2].job() for n in range(jobs))

    choose = random.Random(jobs)
    await workers.until("started", process=frozen.name)
    await frozen.freeze(app)
    for _ in range(deaths):
        await asyncio.sleep(1)  # the rhythm of this test: a death a second
        n = choose.randrange(len(processes))
        processes[n].kill()
        processes[n] = start(LABELS[n])
    (late,) = workers.records("worker.started", process=frozen.name)
    await workers.until("claim.recovered", lost_worker=late.of["worker"], within=20)
    frozen.thaw()
    over = await finished(app, ids, within=200)

    accounts = ledger.accounts_of(workers.records())
    for job in over:
        ledger.check(job, accounts)
    assert {key.job_id for key in accounts} == set(ids)
    assert {job.status for job in over} <= {Status.SUCCEEDED, Status.FAILED}
    # It has tested something: there were losses, failures of both kinds of handler, and
    # outcomes that came too late.
    assert sum(job.losses for job in over) >= deaths
    assert {job.task for job in over if job.failures} == {"gamble", "gamble_in_thread"}
    assert any(account.refused for account in accounts.values())
