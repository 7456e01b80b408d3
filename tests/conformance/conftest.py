"""
The fixtures of the suite: `store` on each `StoreCase`, and short ways to act on it.

A test that asks for a fixture which a store can't give (`open_another`, `poison` ...)
is skipped there by the hook below, and by nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rowlock import _outcome
from rowlock._job import JSON, Claim, Job, Outcome, Status
from rowlock._store import Claimed, Settled, Store
from rowlock.stores import connect
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    ClaimOne,
    ClaimSome,
    Die,
    Elapse,
    Enqueue,
    FinishOne,
    JobIn,
    OpenAnother,
    Read,
    dead,
    demand,
    new_job,
)
from .stores import CASES, Connection, StoreCase

# Fixtures that not every store can give, each with the field that says whether.
NEEDS = {
    "processes": "processes",
    "migrates_itself": "migrates_itself",
    "open_another": "processes",
    "poison": "poison",
    "hold_writes": "hold_writes",
    "lend": "lend",
    "ids_above": "ids_above",
    "from_the_future": "from_the_future",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as unsupported, and skip, what a store can't give."""
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        case = item.callspec.params.get("store_case")
        if not isinstance(case, StoreCase):
            continue
        missing = [
            fixture
            for fixture, field in NEEDS.items()
            if fixture in item.fixturenames and not getattr(case, field)
        ]
        if missing:
            reason = f"{case.name} can't give {', '.join(missing)}"
            item.add_marker(pytest.mark.unsupported)
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark that `test_suite.py` counts."""
    config.addinivalue_line(
        "markers", "unsupported: the store can't do what this needs"
    )


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def store_case(request: pytest.FixtureRequest) -> StoreCase:
    """The store to prove."""
    case: StoreCase = request.param
    if case.server is not None:
        request.getfixturevalue(case.server)
    return case


@pytest.fixture
def new_database(store_case: StoreCase, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Make an empty database; its URL."""
    with ExitStack() as made:

        def new_database() -> str:
            folder = tmp_path / f"database-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            return made.enter_context(store_case.database(folder))

        yield new_database


@pytest.fixture
def unmigrated(store_case: StoreCase, tmp_path: Path) -> Iterator[str]:
    """Make a database that was never migrated; its URL."""
    with (store_case.unmigrated or store_case.database)(tmp_path) as url:
        yield url


@pytest.fixture
def migrates_itself(store_case: StoreCase) -> None:
    """Say that this test has a database migrated by its opening."""
    assert store_case.migrates_itself


@pytest.fixture
def database(new_database: Callable[[], str]) -> str:
    """The URL of the database of this test, empty to begin with."""
    return new_database()


@pytest.fixture
def processes(store_case: StoreCase) -> None:
    """Say that this test opens a database more than once."""
    assert store_case.processes


@pytest.fixture
async def store(database: str, clock: FakeClock) -> AsyncIterator[Store]:
    """An open store on that database."""
    store = connect(database, clock=clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def open_another(
    database: str, clock: FakeClock, store: Store
) -> AsyncIterator[OpenAnother]:
    """Open the same database once more, as another process would."""
    opened: list[Store] = []

    async def open_another() -> Store:
        another = connect(database, clock=clock)
        await another.open()
        opened.append(another)
        return another

    assert store.url
    yield open_another
    for another in opened:
        await another.close()


@pytest.fixture
def poison(
    store_case: StoreCase, database: str, store: Store
) -> Callable[[], AbstractContextManager[None]]:
    """Make the database refuse, for a while, to write rows of the task `poison`."""
    assert store.url
    assert store_case.poison
    make = store_case.poison
    return lambda: make(database)


@pytest.fixture
def hold_writes(
    store_case: StoreCase, database: str, store: Store
) -> Callable[[], AbstractContextManager[None]]:
    """Let a user's transaction lock all that it can, for a while."""
    assert store.url
    assert store_case.hold_writes
    make = store_case.hold_writes
    return lambda: make(database)


@pytest.fixture
def lend(store_case: StoreCase, database: str, store: Store) -> Iterator[Connection]:
    """A user's own connection to the database."""
    assert store.url
    assert store_case.lend
    with store_case.lend(database) as connection:
        yield connection


@pytest.fixture
def ids_above(
    store_case: StoreCase, database: str, store: Store
) -> Callable[[int], None]:
    """Let the next id be above a number."""
    assert store.url
    assert store_case.ids_above
    move = store_case.ids_above
    return lambda number: move(database, number)


@pytest.fixture
def from_the_future(store_case: StoreCase, database: str) -> Callable[[], None]:
    """Let the database look migrated by a later version."""
    assert store_case.from_the_future
    mark = store_case.from_the_future
    return lambda: mark(database)


@pytest.fixture
def enqueue(store: Store) -> Enqueue:
    """Enqueue n jobs alike; their ids."""

    async def enqueue(n: int = 1, **fields: Any) -> list[int]:  # noqa: ANN401 - any field of a job
        ids = await store.enqueue([new_job(**fields)] * n)
        assert None not in ids
        return [job_id for job_id in ids if job_id is not None]

    return enqueue


@pytest.fixture
def claim(store: Store) -> ClaimSome:
    """Claim what there is, up to `total`."""

    async def claim(
        total: int = 10,
        *,
        tasks: Sequence[str] = ("task",),
        queues: dict[str, int] | None = None,
        worker: str = "w1",
        lease: timedelta = LEASE,
        alone: bool = False,
        suspects: bool = False,
        weights: dict[str, int] | None = None,
    ) -> Claimed:
        wanted = demand(
            total, *tasks, queues=queues, suspects=suspects, weights=weights
        )
        return await store.claim(wanted, worker=worker, lease=lease, alone=alone)

    return claim


@pytest.fixture
def claim_one(claim: ClaimSome) -> ClaimOne:
    """Claim the next job, which has to be there."""

    async def claim_one(**options: Any) -> Claim:  # noqa: ANN401 - any option of claim
        (only,) = (await claim(1, **options)).claims
        return only

    return claim_one


@pytest.fixture
def finish_one(store: Store) -> FinishOne:
    """Finish one claim; its answer."""

    async def finish_one(outcome: Outcome) -> Settled:
        (settled,) = await store.finish([outcome])
        assert settled.key == outcome.key
        return settled

    return finish_one


@pytest.fixture
def read(store: Store) -> Read:
    """Read one job, which has to be there."""

    async def read(job_id: int) -> Job:
        (job,) = await store.get([job_id])
        assert job.id == job_id
        return job

    return read


@pytest.fixture
def elapse(store: Store, clock: FakeClock) -> Elapse:
    """Let time pass while the store stays connected, so that law 17's grace ends."""

    async def elapse(seconds: float, *, on: Store = store) -> None:
        await on.renew((), worker="observer", lease=LEASE)
        left = timedelta(seconds=seconds)
        while left > timedelta(0):
            step = min(left, LEASE / 4)
            clock.advance(step)
            await on.renew((), worker="observer", lease=LEASE)
            left -= step

    return elapse


@pytest.fixture
def job_in(store: Store, enqueue: Enqueue, claim_one: ClaimOne) -> JobIn:
    """Bring a job into a status, by way of one claim unless it is pending; its id."""

    async def job_in(status: Status, **fields: Any) -> int:  # noqa: ANN401 - any field of a job
        # A queue of its own, so that the claim takes this job and no other.
        fields = {"queue": f"to-be-{status}"} | fields
        (job_id,) = await enqueue(**fields)
        if status is Status.PENDING:
            return job_id
        held = await claim_one(
            tasks=[fields.get("task", "task")], queues={fields["queue"]: 1}
        )
        assert held.job_id == job_id
        ends = {
            Status.SUCCEEDED: _outcome.succeeded(held.key),
            Status.FAILED: dead(held.key),
            Status.CANCELLED: _outcome.cancelled(held.key),
        }
        if status in ends:
            (settled,) = await store.finish([ends[status]])
            assert settled.accepted
        return job_id

    return job_in


@pytest.fixture
def die(store: Store, enqueue: Enqueue, claim_one: ClaimOne) -> Die:
    """Let one job die of an error; its id."""

    async def die(
        message: str = "no stock of 17",
        *,
        kind: str = "ValueError",
        task: str = "task",
        worker: str = "w1",
        for_good: bool = False,
        **fields: Any,  # noqa: ANN401 - any field of a job
    ) -> int:
        (job_id,) = await enqueue(task=task, max_attempts=1, **fields)
        held = await claim_one(tasks=[task], worker=worker)
        assert held.job_id == job_id
        error: dict[str, JSON] = {"type": kind, "message": message}
        outcome = _outcome.failed(held, error, timedelta(0), dead=for_good)
        (settled,) = await store.finish([outcome])
        assert settled.status is Status.FAILED
        return job_id

    return die
