"""A handler has ended, and its outcome can't be written: once, or for a whole lease."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from rowlock import App, OutcomeUnknown, Status, StoreUnavailable
from rowlock.events import ClaimRecovered, Event, OutcomeDropped
from tests.endings import ended, known

if TYPE_CHECKING:
    from rowlock._job import ClaimKey, Outcome
    from rowlock._store import Renewal, Settled, Store

LEASE_S = 1.0
BUSY_CORES_S = 0.2


class Unwritten:
    """The store of an app, where successes can't be written; all else goes well."""

    def __init__(self, app: App, errors: Sequence[Exception]) -> None:
        self._store = app._store
        # The last one goes on.
        self.errors = list(errors)
        self.goes_on = False
        self.is_written_first = False
        self.tried_at: list[float] = []
        self.renewed_at: list[float] = []
        app._access.store = cast("Store", self)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        """Finish, unless a success is among them that can't be written."""
        if all(each.status is not Status.SUCCEEDED for each in outcomes):
            return await self._store.finish(outcomes)
        self.tried_at.append(time.monotonic())
        if not self.errors:
            return await self._store.finish(outcomes)
        error = self.errors[0] if self.goes_on else self.errors.pop(0)
        if self.is_written_first:
            await self._store.finish(outcomes)
        raise error

    async def renew(self, keys: Collection[ClaimKey], **options: Any) -> Renewal:  # noqa: ANN401 - as they come
        """Renew, and note when something was."""
        if keys:
            self.renewed_at.append(time.monotonic())
        return await self._store.renew(keys, **options)


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    """An app on the machine's own clock, as leases must run out."""
    async with App(database_url) as app:
        yield app


@pytest.mark.parametrize("is_written", [False, True], ids=["not done", "unanswered"])
async def test_b11_a_success_whose_first_write_fails_is_written_by_the_next(
    app: App, told: list[Event], *, is_written: bool
) -> None:
    runs = 0

    @app.task
    async def count() -> str:
        nonlocal runs
        runs += 1
        return "counted"

    broken = OutcomeUnknown if is_written else StoreUnavailable
    store = Unwritten(app, [broken("The connection broke.")])
    store.is_written_first = is_written
    async with app.worker():
        job = await ended(app, await count.enqueue())

    assert (job.status, job.result, job.attempts) == (Status.SUCCEEDED, "counted", 1)
    assert runs == 1
    assert len(store.tried_at) == 2
    assert not [event for event in told if isinstance(event, OutcomeDropped)]


async def test_b11_a_success_that_cant_be_written_for_a_lease_is_left_to_recovery(
    app: App, told: list[Event]
) -> None:
    """All else of this worker goes well, so that only it can know to let go of it."""
    ended_at: list[float] = []

    @app.task
    async def count() -> int:
        ended_at.append(time.monotonic())
        if len(ended_at) == 2:
            store.goes_on = False
            store.errors.clear()
        return len(ended_at)

    store = Unwritten(app, [StoreUnavailable("The connection broke.")])
    store.goes_on = True
    async with app.worker(lease=LEASE_S):
        job_id = known(await count.enqueue())
        job = await ended(app, job_id)

    assert (job.status, job.result) == (Status.SUCCEEDED, 2)
    assert (job.claims, job.attempts, job.losses) == (2, 2, 1)
    kinds = [type(event) for event in told]
    assert kinds.count(OutcomeDropped) == kinds.count(ClaimRecovered) == 1
    # Extended for as long as it was tried, which is a lease, and never again.
    first, second = ended_at
    before = [at for at in store.renewed_at if at < second]
    assert max(before) < first + LEASE_S + BUSY_CORES_S
    assert second >= max(before) + LEASE_S
