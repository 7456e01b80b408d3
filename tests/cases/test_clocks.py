"""Cases of the kind *clock skew*: machines whose clocks are wrong, on one Postgres."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from rowlock import App, Status
from rowlock._store import Demand
from tests.conformance.stores import CASES
from tests.endings import finished, known, reached
from tests.journal import Gate, Journal
from tests.off_clock import OffClock
from tests.programs import gated
from tests.workers import START_S, Workers

# On SQLite all processes are on one machine, whose clock is the store's.
ON_POSTGRES = pytest.mark.parametrize(
    "shared_case",
    [case for case in CASES if case.name == "postgres"],
    ids=lambda case: case.name,
    indirect=True,
)

LONG_LEASE_S = 30.0
# Others are busy on this machine, and a renewal that is late is no wrong clock.
SHORT_LEASE_S = 3.0
TEN_MINUTES_S = 600.0
DELAY_S = 3.0
SKEW = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


def left_of(leased_until: datetime | None) -> float:
    """Tell how much of a lease is left, by this machine's clock: the server's."""
    assert leased_until is not None
    return (leased_until - datetime.now(UTC)).total_seconds()


@ON_POSTGRES
@pytest.mark.timeout(120)
async def test_b105_workers_with_wrong_clocks_take_over_nothing_and_lose_nothing(
    app: App, journal: Journal, workers: Workers
) -> None:
    gated.register(app, journal)
    task = app.find_task("gated")
    await workers.start("gated", "right", queues=["of-right"], lease=LONG_LEASE_S)
    ids = [await task.options(queue="of-right").enqueue(gate="gate")]
    await workers.until("started", count=1)
    for label, off in (("ahead", TEN_MINUTES_S), ("ago", -TEN_MINUTES_S)):
        workers.launch(
            "gated",
            label,
            queues=[f"of-{label}"],
            lease=SHORT_LEASE_S,
            clock_off=off,
        )
        ids.append(await task.options(queue=f"of-{label}").enqueue(gate="gate"))
    await workers.until("started", count=3, within=START_S)

    # Until each has been connected for its lease, and has looked for what is lost.
    await asyncio.sleep(SHORT_LEASE_S * 1.3 + 1.5)
    held = [await reached(app, job_id, Status.RUNNING) for job_id in ids]
    lefts = [left_of(job.leased_until) for job in held]
    assert 0.6 * LONG_LEASE_S < lefts[0] <= LONG_LEASE_S
    assert all(0 < left <= SHORT_LEASE_S for left in lefts[1:])
    # They do look: what is lost by the database's clock is found.
    lost = known(await task.options(queue="of-nobody").enqueue(gate="gate"))
    demand = Demand(total=1, tasks=frozenset({"gated"}), queues={"of-nobody": 1})
    await app._store.claim(demand, worker="w-gone", lease=timedelta(seconds=0.1))
    (found,) = await workers.until("claim.recovered", job_id=lost)
    assert found.process.startswith(("ahead", "ago"))
    Gate(journal.folder, "gate").open()
    jobs = await finished(app, ids)

    assert {(job.status, job.claims, job.losses) for job in jobs} == {
        (Status.SUCCEEDED, 1, 0)
    }
    assert [job.result for job in jobs] == ["right", "ahead", "ago"]
    assert all(abs(job.created_at - datetime.now(UTC)) < 60 * SECOND for job in jobs)


@ON_POSTGRES
@pytest.mark.parametrize("off", [SKEW, -SKEW], ids=["ahead", "ago"])
async def test_b106_a_clients_clock_moves_neither_now_nor_a_delay(
    app: App, database_url: str, off: timedelta
) -> None:
    """
    What it computes from its own clock is off by as much: an instant is an instant.
    10 s in the case.
    """

    def note() -> None: ...

    app.task(note)
    clock, delay = OffClock(off), timedelta(seconds=DELAY_S)
    async with app.worker(), App(database_url, clock=clock) as client:
        task = client.task(note)
        ids = [await task.enqueue(), await task.options(delay=delay).enqueue()]
        at = await task.options(run_at=clock.now() + delay).enqueue()
        jobs = await finished(app, ids)
        planned = await app.get(at)

    waited = []
    for job in jobs:
        assert job.started_at is not None
        waited.append((job.started_at - job.created_at).total_seconds())
    assert waited[0] < 1
    assert DELAY_S <= waited[1] < DELAY_S + 1
    assert abs(planned.run_at - planned.created_at - off - delay) < SECOND
    assert planned.status is (Status.PENDING if off == SKEW else Status.SUCCEEDED)
