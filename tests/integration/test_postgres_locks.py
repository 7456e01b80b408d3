"""What waits for whose transaction on Postgres: nothing of the worker, for long."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rowlock import App, OutcomeUnknown, _outcome
from rowlock._filter import Filter
from rowlock._job import Status
from rowlock._store import Demand
from rowlock.events import AttemptSucceeded, Event
from rowlock.stores.postgres import PostgresStore, finish
from tests.eventually import eventually

from .postgres_given import job

LEASE = timedelta(seconds=60)


@pytest.fixture
def user(url: str) -> Any:  # noqa: ANN401 - pytest's own
    """A user's own connection."""
    with psycopg.connect(url) as own:
        yield own
        own.rollback()


def hold(user: psycopg.Connection[Any], *ids: int) -> None:
    """Lock the rows of jobs, as a user's transaction may."""
    user.execute(
        "SELECT FROM rowlock.live WHERE id = ANY (%s) FOR UPDATE", (list(ids),)
    )


async def claimed(store: PostgresStore, count: int) -> list[Any]:
    await store.enqueue([job()] * count)
    demand = Demand(total=count, tasks=frozenset({"mail"}))
    return list((await store.claim(demand, worker="w", lease=LEASE)).claims)


async def test_a_claim_passes_by_what_is_locked(
    store: PostgresStore, user: psycopg.Connection[Any]
) -> None:
    ids = await store.enqueue([job()] * 3)
    assert ids[0] is not None
    hold(user, ids[0])
    demand = Demand(total=5, tasks=frozenset({"mail"}))

    first = await store.claim(demand, worker="w", lease=LEASE)
    user.rollback()
    # Not hidden by the bound: nobody told of the rollback.
    claims: list[Any] = []
    began = time.monotonic()
    wakeups = store.wakeups()
    while not claims and time.monotonic() - began < 10:
        again = await store.claim(demand, worker="w", lease=LEASE)
        claims += again.claims
        await wakeups.wait(timedelta(seconds=5))
    wakeups.close()

    assert [held.job_id for held in first.claims] == list(ids[1:])
    assert [held.job_id for held in claims] == [ids[0]]
    assert time.monotonic() - began < 5


async def test_law_19_a_full_look_that_finds_a_due_job_locked_is_soon_followed(
    store: PostgresStore, user: psycopg.Connection[Any]
) -> None:
    """A rollback tells nobody, so nobody sleeps for long beside the row."""
    (locked,) = await store.enqueue([job()])
    assert locked is not None
    hold(user, locked)
    demand = Demand(total=5, tasks=frozenset({"mail"}))

    for _ in range(2):
        claimed = await store.claim(demand, worker="w", lease=LEASE)
        assert claimed.claims == ()
        assert claimed.next_due is not None
        due_in = claimed.next_due - claimed.now
        assert timedelta(0) < due_in <= timedelta(seconds=1)
        # The row is locked by the server's clock, and so is a full look allowed.
        await asyncio.sleep(due_in.total_seconds() + 0.1)
    user.rollback()

    (held,) = (await store.claim(demand, worker="w", lease=LEASE)).claims
    assert held.job_id == locked
    assert (await store.claim(demand, worker="w", lease=LEASE)).next_due is None


async def test_an_outcome_of_a_locked_row_is_answered_and_the_others_are_written(
    store: PostgresStore, user: psycopg.Connection[Any]
) -> None:
    held = await claimed(store, 3)
    hold(user, held[1].job_id)
    began = time.monotonic()

    settled = await store.finish([_outcome.succeeded(each.key) for each in held])

    assert time.monotonic() - began < 1
    assert [each.accepted for each in settled] == [True, False, True]
    assert [each.is_locked for each in settled] == [False, True, False]
    user.rollback()
    (again,) = await store.finish([_outcome.succeeded(held[1].key)])
    assert again.accepted


async def test_law_15_a_failure_after_a_part_was_written_leaves_it_unknown(
    store: PostgresStore,
    url: str,
    user: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A finish writes what is free, then waits for what is locked."""
    monkeypatch.setattr(finish, "_PATIENCE", timedelta(seconds=10))
    held = await claimed(store, 2)
    hold(user, held[1].job_id)
    outcomes = [_outcome.succeeded(each.key) for each in held]
    finishing = asyncio.create_task(store.finish(outcomes))

    def stop_who_waits() -> bool:
        with psycopg.connect(url, autocommit=True) as own:
            return bool(
                own.execute(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                ).fetchall()
            )

    await eventually(stop_who_waits)
    with pytest.raises(OutcomeUnknown, match="A part of this was written"):
        await finishing

    first, second = await store.get([each.job_id for each in held])
    assert (first.status, second.status) == (Status.SUCCEEDED, Status.RUNNING)


async def test_a_stale_outcome_of_a_locked_row_is_refused(
    store: PostgresStore, user: psycopg.Connection[Any]
) -> None:
    (held,) = await claimed(store, 1)
    hold(user, held.job_id)
    stale = held.key._replace(claim=held.key.claim - 1)

    (settled,) = await store.finish([_outcome.succeeded(stale)])

    assert (settled.accepted, settled.is_locked) == (False, False)


async def test_law_8_a_locked_row_is_neither_renewed_nor_lost(
    store: PostgresStore, user: psycopg.Connection[Any]
) -> None:
    held = await claimed(store, 2)
    hold(user, held[0].job_id)
    before = await store.get([each.job_id for each in held])
    began = time.monotonic()

    renewal = await store.renew(
        [each.key for each in held], worker="w", lease=9 * LEASE
    )

    assert time.monotonic() - began < 2
    after = await store.get([each.job_id for each in held])
    assert renewal.lost == frozenset()
    assert after[0].leased_until == before[0].leased_until
    assert after[1].leased_until != before[1].leased_until


async def test_law_9_a_renewal_that_meets_a_recovery_is_told_of_it(
    store: PostgresStore, user: psycopg.Connection[Any]
) -> None:
    (held,) = await claimed(store, 1)
    # As another worker's recovery does, which hasn't committed yet.
    user.execute(
        "UPDATE rowlock.live SET status = 'pending', leased_until = NULL WHERE id = %s",
        (held.job_id,),
    )

    renewing = asyncio.create_task(store.renew([held.key], worker="w", lease=LEASE))
    await asyncio.sleep(0.2)  # real: it has to have met the lock
    user.commit()

    assert (await renewing).lost == {held.key}


@pytest.mark.parametrize("verb", ["cancel", "move", "delete", "replay"])
async def test_an_operator_is_told_which_jobs_were_locked(
    store: PostgresStore, user: psycopg.Connection[Any], verb: str
) -> None:
    held = await claimed(store, 2)
    ids = [each.job_id for each in held]
    if verb in {"delete", "replay"}:
        error = {"type": "E", "message": "m"}
        await store.finish(
            [_outcome.failed(each, error, timedelta(0), dead=True) for each in held]
        )
    elif verb == "move":
        await store.finish([_outcome.snoozed(each.key, timedelta(0)) for each in held])
    hold(user, ids[0])

    async def act() -> list[Any]:
        if verb == "cancel":
            return list(await store.cancel(ids, by="ada"))
        if verb == "move":
            return list(await store.move(ids, by="ada", priority=1))
        if verb == "delete":
            return list(await store.delete(ids))
        return list(await store.replay(ids, by="ada"))

    began = time.monotonic()
    locked, done = await act()

    assert 0.9 < time.monotonic() - began < 2.5
    assert (locked.done, locked.is_locked) == (False, True)
    assert str(locked) == "locked by another transaction, try again"
    assert done.done
    user.rollback()
    assert (await act())[0].done


async def test_a_lock_that_ends_in_time_is_waited_for(
    store: PostgresStore, user: psycopg.Connection[Any]
) -> None:
    (held,) = await claimed(store, 1)
    hold(user, held.job_id)

    cancelling = asyncio.create_task(store.cancel([held.job_id], by="ada"))
    await asyncio.sleep(0.3)  # real: it has to have met the lock
    user.rollback()

    (answer,) = await cancelling
    assert answer.done


async def test_an_expired_claim_that_is_locked_is_not_recovered(
    store: PostgresStore, user: psycopg.Connection[Any], url: str
) -> None:
    held = await claimed(store, 2)
    with psycopg.connect(url) as own:
        own.execute("UPDATE rowlock.live SET leased_until = now() - interval '1 hour'")
    hold(user, held[0].job_id)
    async with asyncio.timeout(5):
        found = await store._database.read(
            lambda session: session.run("lost", limit="9")
        )

    assert [row[0] for row in found] == [held[1].job_id]


async def test_a_worker_goes_on_beside_a_locked_row_and_finishes_it_later(
    url: str, user: psycopg.Connection[Any]
) -> None:
    app = App(url)
    done: list[int] = []
    go_on = asyncio.Event()

    @app.task
    async def wait() -> None:
        await go_on.wait()

    @app.task
    async def go() -> None:
        pass

    def hear(event: Event) -> None:
        if isinstance(event, AttemptSucceeded):
            done.append(event.job_id)

    app.listen(hear)
    async with app, app.worker(concurrency=5):
        locked = await wait.enqueue()
        assert locked is not None
        running = Filter(status=Status.RUNNING)

        async def runs() -> bool:
            return len((await app._store.list(running)).jobs) == 1

        await eventually(runs)
        hold(user, locked)
        go_on.set()
        ids = [await go.enqueue() for _ in range(50)]
        await eventually(lambda: len(done) == 50)
        assert set(done) == set(ids)
        user.rollback()
        await eventually(lambda: locked in done)

        (job,) = await app._store.get([locked])
        assert (job.status, job.losses) == (Status.SUCCEEDED, 0)


async def test_b93_a_claim_changes_what_it_returns_and_no_more(
    store: PostgresStore, url: str, scale: int
) -> None:
    await store.enqueue([job(priority=n % 3) for n in range(300)])
    other = PostgresStore.from_url(url)
    await other.open()
    demand = Demand(total=5, tasks=frozenset({"mail"}))
    claims: list[int] = []

    async def claim_some(each: PostgresStore, worker: str) -> None:
        for _ in range(30):
            found = (await each.claim(demand, worker=worker, lease=LEASE)).claims
            assert len(found) <= 5
            claims.extend(held.job_id for held in found)

    for _ in range(scale):
        await asyncio.gather(
            *(claim_some(each, f"w{n}") for n, each in enumerate((store, other) * 2))
        )

    running = (await store.list(Filter(status=Status.RUNNING), limit=999)).jobs
    assert sorted(claims) == sorted(job.id for job in running)
    assert {job.claims for job in running} == {1}
    await other.close()


async def test_law_9_what_a_dead_worker_held_is_recovered_once_its_row_is_free(
    store: PostgresStore, user: psycopg.Connection[Any], url: str
) -> None:
    """A supervisor may see a death sooner than the server does."""
    (held,) = await claimed(store, 1)
    hold(user, held.job_id)
    app = App(url)

    @app.task
    def other() -> None: ...

    async with app, app.worker() as worker:
        recovering = asyncio.create_task(worker._recover("w"))
        await asyncio.sleep(1)  # the lock is one of a real server
        assert not recovering.done()
        user.rollback()

        assert await recovering == 1
        found = await app.get(held.job_id)
        assert (found.status, found.losses) == (Status.PENDING, 1)
        assert await worker._recover("w") == 0
