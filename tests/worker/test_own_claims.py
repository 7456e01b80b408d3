"""A worker is never lost to itself: it keeps what it runs, and gives back the rest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from rowlock import App, OutcomeUnknown, Status
from rowlock._store import Demand
from rowlock.events import ClaimRecovered, Event
from rowlock.testing import FakeClock
from tests.endings import ended, known, once
from tests.eventually import eventually

if TYPE_CHECKING:
    from datetime import datetime

    from rowlock._job import Claim, Outcome
    from rowlock._store import Claimed, Renewal, Settled, Store

LEASE_S = 1.0


class Hindered:
    """The store of an app, some of whose calls a test holds up, loses, or refuses."""

    def __init__(self, app: App) -> None:
        self._store = app._store
        self.renewal_hangs = threading.Event()
        self.claim_takes_s = 0.0
        self.loses_claim = False
        self.delays_claim = False
        self._delayed: Callable[[], Awaitable[Claimed]] | None = None
        self.renews_late: list[Claim] = []
        # A set: the fetch loop and the watch may both give one back; one counts.
        self.released: set[int] = set()
        self.over: list[int] = []
        app._access.store = cast("Store", self)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def renew(self, *args: Any, **options: Any) -> Renewal:  # noqa: ANN401 - as they come
        """Renew; in the thread that is there for it, only when it may go on."""
        while (  # noqa: ASYNC110 - in another thread, whom nobody wakes
            self.renewal_hangs.is_set()
            and threading.current_thread().name == "rowlock-watch"
        ):
            await asyncio.sleep(0.02)
        return await self._store.renew(*args, **options)

    async def claim(self, *args: Any, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
        """Claim; one that has something to tell takes its time, or loses it."""
        if self.delays_claim:
            self.delays_claim = False
            self.delays(*args, **options)
            raise OutcomeUnknown
        claimed = await self._store.claim(*args, **options)
        if claimed.claims:
            takes_s, self.claim_takes_s = self.claim_takes_s, 0.0
            await asyncio.sleep(takes_s)  # a lease is counted by the machine's clock
            if self.loses_claim:
                self.loses_claim = False
                raise OutcomeUnknown
        return claimed

    def delays(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as they come
        """Have a claim made after the next look at what its worker holds."""
        self._delayed = partial(self._store.claim, *args, **options)

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        """Finish; note what goes back unstarted."""
        self.released |= {each.key.job_id for each in outcomes if each.unstarted}
        return await self._store.finish(outcomes)

    async def lost(self, limit: int, *, worker: str | None = None) -> Sequence[Claim]:
        """Look, and note what is over; a claim that is delayed comes only then."""
        if worker is None:
            await self._renew_late()
        claims = await self._store.lost(limit, worker=worker)
        if self._delayed is not None and worker is not None:
            delayed, self._delayed = self._delayed, None
            assert (await delayed()).claims
        if worker is None:
            self.over += [claim.job_id for claim in claims]
        return claims

    async def _renew_late(self) -> None:
        """Renew, for its own worker, what was seen as over once."""
        for claim in self.renews_late:
            if claim.job_id in self.over:
                await self._store.renew(
                    [claim.key],
                    worker=str(claim.worker),
                    lease=timedelta(seconds=LEASE_S),
                )


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    """An app on the machine's own clock, as leases must run out."""
    async with App(database_url) as app:
        yield app


@pytest.fixture
def hindered(app: App) -> Hindered:
    """The store of that app, as it hinders its worker."""
    return Hindered(app)


@asynccontextmanager
async def writing(app: App) -> AsyncIterator[None]:
    """Have this process write all the while, so that its grace is over (law 17)."""

    @app.task(queue="nobody's")
    async def note() -> None: ...

    async def write() -> None:
        while True:
            await note.options(delay=3600).enqueue()
            await asyncio.sleep(LEASE_S / 10)  # grace is a time

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_worker_whose_renewal_hangs_extends_what_it_runs_and_loses_nothing(
    app: App, hindered: Hindered, told: list[Event]
) -> None:
    starts, gate = 0, asyncio.Event()

    @app.task
    async def wait() -> None:
        nonlocal starts
        starts += 1
        await gate.wait()

    leases: set[datetime | None] = set()

    async def is_kept() -> bool:
        leases.add((await app.get(job_id)).leased_until)
        return hindered.over.count(job_id) >= 2

    hindered.renewal_hangs.set()
    async with app.worker(queues=["default"], lease=LEASE_S), writing(app):
        job_id = known(await wait.enqueue())
        try:
            await eventually(is_kept)
        finally:
            hindered.renewal_hangs.clear()
        gate.set()
        job = await ended(app, job_id)

    assert (job.status, job.attempts, job.losses) == (Status.SUCCEEDED, 1, 0)
    assert starts == 1
    assert not [event for event in told if isinstance(event, ClaimRecovered)]
    # Extended each time that it was found over, so that nobody else takes it.
    assert len(leases) > 1


async def test_a_claim_whose_answer_takes_longer_than_its_lease_is_no_loss(
    app: App, hindered: Hindered, told: list[Event]
) -> None:
    numbers: list[int] = []

    @app.task(max_attempts=1)
    async def note_number(number: int) -> None:
        numbers.append(number)

    async with app.worker(queues=["default"], lease=LEASE_S), writing(app):
        await asyncio.sleep(LEASE_S)  # its grace, which is a time
        hindered.claim_takes_s = 2.5 * LEASE_S
        job_id = known(await note_number.enqueue(number=1))
        job = await ended(app, job_id)

    assert job_id in hindered.over
    assert (job.status, job.claims, job.attempts, job.losses) == (
        Status.SUCCEEDED,
        2,
        1,
        0,
    )
    assert numbers == [1]
    assert not [event for event in told if isinstance(event, ClaimRecovered)]


async def test_a_claim_that_is_made_when_nobody_waits_for_it_goes_back(
    app: App, hindered: Hindered
) -> None:
    """The connection broke, and its server went on: the look that follows is early."""

    @app.task(max_attempts=1)
    async def greet() -> None: ...

    job_id = known(await greet.enqueue())
    hindered.delays_claim = True
    async with app.worker(queues=["default"], lease=LEASE_S), writing(app):
        job = await ended(app, job_id)

    assert hindered.released == {job_id}
    assert (job.status, job.claims, job.attempts, job.losses) == (
        Status.SUCCEEDED,
        2,
        1,
        0,
    )


async def test_an_unknown_claim_goes_back_though_the_stores_clock_was_set_back(
    database_url: str, clock: FakeClock
) -> None:
    """It is known by what was started here, and by no instant."""
    async with App(database_url, clock=clock) as app:
        hindered = Hindered(app)

        @app.task(max_attempts=1)
        async def greet() -> None: ...

        async with app.worker():
            await ended(app, await greet.enqueue())
            clock.jump(-8)
            hindered.loses_claim = True
            job_id = await greet.enqueue()
            job = await once(app, job_id, lambda job: job.status.is_final)

    assert (job.status, job.claims, job.attempts, job.losses) == (
        Status.SUCCEEDED,
        2,
        1,
        0,
    )
    assert hindered.released == {job_id}


async def test_a_claim_that_a_dead_worker_made_with_its_last_words_is_recovered_too(
    app: App, hindered: Hindered
) -> None:
    """Its server went on when it was dead, and had been looked at."""

    @app.task
    async def greet() -> None: ...

    job_id = known(await greet.options(queue="mail").enqueue())
    demand = Demand(total=1, tasks=frozenset({"greet"}))
    lease = timedelta(seconds=300)
    async with app.worker(queues=["default"]) as worker:
        hindered.delays(demand, worker="w-dead", lease=lease)
        assert await worker._recover("w-dead") == 1

    job = await app.get(job_id)
    assert (job.status, job.claims, job.losses) == (Status.PENDING, 1, 1)


async def test_a_claim_that_its_worker_renews_a_moment_after_its_lease_isnt_lost(
    app: App, hindered: Hindered
) -> None:
    """Its handler had the row in a transaction, which is over, as all can see."""

    @app.task
    async def order() -> None: ...

    kept, lost = [
        known(await order.options(queue=queue).enqueue()) for queue in ("mail", "dead")
    ]
    demand = Demand(total=2, tasks=frozenset({"order"}))
    lease = timedelta(seconds=LEASE_S / 2)
    claimed = await app._store.claim(demand, worker="w-other", lease=lease)
    hindered.renews_late = [each for each in claimed.claims if each.job_id == kept]
    async with app.worker(queues=["default"], lease=LEASE_S), writing(app):
        # Both are seen as over at the same look, and the other one has nobody.
        await once(app, lost, lambda job: job.losses == 1)
        job = await app.get(kept)

    assert kept in hindered.over
    assert (job.status, job.claims, job.losses) == (Status.RUNNING, 1, 0)
