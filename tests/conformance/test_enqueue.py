"""Enqueue: laws 1, 2, 14, 15 and 20, and the fields of a new job."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta, timezone
from typing import Any

import pytest

from rowlock import _outcome
from rowlock._errors import StoreError, WrongConnection
from rowlock._filter import Filter
from rowlock._job import ClaimKey, Job, NewJob, Status
from rowlock._store import Retention, Store
from rowlock.testing import FakeClock

from .given import ClaimOne, Enqueue, JobIn, OpenAnother, Read, dead, new_job
from .stores import Connection

HOUR = timedelta(hours=1)


async def test_law_1_ids_come_back_in_the_order_given(store: Store, read: Read) -> None:
    priorities = [3, -5, 0, 100, -100, 7]

    ids = await store.enqueue([new_job(priority=p) for p in priorities])

    found = [(await read(job_id)).priority for job_id in ids if job_id is not None]
    assert found == priorities
    assert len(set(ids)) == len(priorities)


async def test_law_1_an_empty_batch_is_no_error(store: Store) -> None:
    assert list(await store.enqueue([])) == []


async def test_law_1_a_batch_of_thousands_keeps_its_order(store: Store) -> None:
    jobs = [new_job(payload=f'{{"n": {n}}}') for n in range(3000)]

    ids = [job_id for job_id in await store.enqueue(jobs) if job_id is not None]

    payloads = [job.payload for job in await store.get(ids)]
    assert payloads == [{"n": n} for n in range(3000)]


async def test_law_1_a_duplicate_inside_the_batch_is_none(store: Store) -> None:
    jobs = [
        new_job(idempotency_key="a"),
        new_job(),
        new_job(idempotency_key="a"),
        new_job(idempotency_key="b"),
        new_job(idempotency_key="a"),
    ]

    ids = await store.enqueue(jobs)

    assert [job_id is None for job_id in ids] == [False, False, True, False, True]


async def test_law_1_a_batch_of_duplicates_only_is_all_none(
    store: Store, enqueue: Enqueue
) -> None:
    await enqueue(idempotency_key="a")

    assert list(await store.enqueue([new_job(idempotency_key="a")] * 2)) == [None, None]
    assert len((await store.list(Filter())).jobs) == 1


async def test_law_1_where_one_job_is_refused_none_is_written(
    store: Store, poison: Callable[[], AbstractContextManager[None]]
) -> None:
    jobs = [new_job(idempotency_key="k"), new_job(task="poison"), new_job()]

    with poison(), pytest.raises(StoreError):
        await store.enqueue(jobs)

    assert (await store.list(Filter())).jobs == ()
    # The key of a job that was never written is free.
    assert None not in await store.enqueue(jobs)


async def test_law_15_a_batch_that_fails_takes_no_other_with_it(
    store: Store, poison: Callable[[], AbstractContextManager[None]]
) -> None:
    with poison():
        answers = await asyncio.gather(
            *(
                # What comes first is written, before the one that is refused.
                store.enqueue([new_job(), new_job(task=task)])
                for task in ("task", "poison", "task", "task", "poison")
            ),
            return_exceptions=True,
        )

    assert [isinstance(answer, StoreError) for answer in answers] == [
        False,
        True,
        False,
        False,
        True,
    ]
    kept = (await store.list(Filter())).jobs
    assert [job.task for job in kept] == ["task"] * 6
    assert {job.id for job in kept} == {
        job_id
        for answer in answers
        if not isinstance(answer, BaseException)
        for job_id in answer
    }


def test_law_2_a_job_of_a_transaction_rolled_back_never_existed(
    store: Store, lend: Connection
) -> None:
    async def jobs() -> tuple[Job, ...]:
        return (await store.list(Filter())).jobs

    (rolled_back,) = store.lent.enqueue_sync([new_job(idempotency_key="k")], lend)
    assert rolled_back is not None
    lend.rollback()
    assert asyncio.run(jobs()) == ()

    ids = store.lent.enqueue_sync([new_job(idempotency_key="k"), new_job()], lend)
    assert asyncio.run(jobs()) == ()
    lend.commit()
    assert {job.id for job in asyncio.run(jobs())} == set(ids)


async def test_law_2_a_lent_connection_is_refused_by_the_other_kind_of_call(
    store: Store, lend: Connection
) -> None:
    with pytest.raises(WrongConnection, match="enqueue_sync"):
        await store.lent.enqueue([new_job()], lend)
    with pytest.raises(WrongConnection):
        store.lent.enqueue_sync([new_job()], object())

    lend.commit()
    assert (await store.list(Filter())).jobs == ()


async def test_law_2_a_duplicate_is_seen_across_the_lent_connection(
    store: Store, lend: Connection, enqueue: Enqueue
) -> None:
    await enqueue(idempotency_key="ours")
    ours, theirs = new_job(idempotency_key="ours"), new_job(idempotency_key="theirs")

    ids = store.lent.enqueue_sync([ours, theirs, theirs], lend)
    lend.commit()

    assert [job_id is None for job_id in ids] == [True, False, True]
    assert list(await store.enqueue([theirs])) == [None]


@pytest.mark.parametrize("kept", [True, False])
async def test_b27_a_key_held_by_an_open_transaction_is_waited_for(
    store: Store, lend: Connection, *, kept: bool
) -> None:
    first = store.lent.enqueue_sync([new_job(idempotency_key="k")], lend)
    second = asyncio.create_task(store.enqueue([new_job(idempotency_key="k")]))
    # Real: the second enqueue has to have met the open transaction.
    await asyncio.sleep(0.1)
    assert not second.done()

    if kept:
        lend.commit()
    else:
        lend.rollback()

    ids = await second
    standing = [job.id for job in (await store.list(Filter())).jobs]
    assert standing == ([first[0]] if kept else [ids[0]])
    assert (ids[0] is None) is kept


async def test_law_14_a_delay_counts_from_the_stores_now(
    enqueue: Enqueue, read: Read, clock: FakeClock
) -> None:
    (at_once,) = await enqueue()
    (later,) = await enqueue(delay=timedelta(seconds=90.5))

    assert (await read(at_once)).run_at == clock.now()
    assert (await read(later)).run_at == clock.now() + timedelta(seconds=90.5)


async def test_law_14_instants_come_back_in_utc(
    enqueue: Enqueue, read: Read, clock: FakeClock
) -> None:
    elsewhere = timezone(timedelta(hours=-5))
    due = (clock.now() + HOUR).astimezone(elsewhere)

    job = await read(
        (await enqueue(run_at=due, expires_at=due + HOUR, delay=timedelta(days=9)))[0]
    )

    assert job.run_at == due
    assert job.expires_at == due + HOUR
    assert job.created_at == clock.now()
    assert job.updated_at == clock.now()
    for instant in (job.run_at, job.expires_at, job.created_at, job.updated_at):
        assert instant is not None
        assert instant.utcoffset() == timedelta(0)


async def test_law_14_instants_keep_their_microseconds(
    enqueue: Enqueue, read: Read, clock: FakeClock
) -> None:
    clock.advance(timedelta(microseconds=1_234_567))
    due = clock.now() + timedelta(days=40_000, microseconds=1)

    job = await read((await enqueue(run_at=due))[0])

    assert job.created_at == clock.now()
    assert job.run_at == due


async def test_a_new_job_stands_as_it_was_given(
    store: Store, read: Read, clock: FakeClock
) -> None:
    given: dict[str, Any] = {
        "task": "mail",
        "queue": "slow lane/é",
        "priority": -100,
        "run_at": clock.now() + HOUR,
        "expires_at": clock.now() + 2 * HOUR,
        "max_attempts": 7,
        "timeout": 0.5,
        "backoff": {"kind": "fixed", "values": [5.0], "cap": None, "jitter": 0.0},
        "idempotency_key": "receipt:42 'quoted' %s",
        "meta": {"trace": "abc", "deep": {"x": [1]}},
    }
    payload = '{"to": "żółw", "n": [1, 2.5, null, true], "big": 12345678901234567}'

    (job_id,) = await store.enqueue([NewJob(payload=payload, **given)])

    assert job_id is not None
    job = await read(job_id)
    assert {name: getattr(job, name) for name in given} == given
    assert job.payload == json.loads(payload)


async def test_a_new_job_has_no_past(
    enqueue: Enqueue, read: Read, clock: FakeClock
) -> None:
    job = await read((await enqueue())[0])

    assert job.status is Status.PENDING
    assert (job.claims, job.attempts, job.failures, job.losses) == (0, 0, 0, 0)
    assert (job.leased_until, job.worker, job.cancel_requested_at) == (None, None, None)
    assert (job.last_error, job.errors) == (None, ())
    assert (job.result, job.state, job.progress) == (None, None, None)
    assert (job.started_at, job.finished_at) == (None, None)
    assert job.created_at == job.updated_at == clock.now()


async def test_a_new_job_leaves_to_its_task_what_it_does_not_say(
    enqueue: Enqueue, read: Read
) -> None:
    job = await read((await enqueue())[0])

    assert job.timeout is None
    assert job.backoff is None
    assert job.idempotency_key is None
    assert job.expires_at is None
    assert job.meta == {}


async def test_no_timeout_is_another_thing_than_the_tasks_own(
    enqueue: Enqueue, read: Read
) -> None:
    assert (await read((await enqueue(timeout=0.0))[0])).timeout == 0.0


async def test_law_20_ids_are_never_reused_after_everything_is_gone(
    store: Store, enqueue: Enqueue, job_in: JobIn, clock: FakeClock
) -> None:
    for status in (Status.SUCCEEDED, Status.CANCELLED):
        await job_in(status)
    last = await job_in(Status.FAILED)
    await store.delete([last])
    clock.advance(timedelta(days=365))
    await store.prune(Retention(), limit=100)
    assert (await store.list(Filter())).jobs == ()

    (fresh,) = await enqueue()

    assert fresh > last


async def test_law_20_a_restart_does_not_begin_again(
    store: Store, open_another: OpenAnother, job_in: JobIn
) -> None:
    last = await job_in(Status.FAILED)
    await store.delete([last])
    await store.close()

    (fresh,) = await (await open_another()).enqueue([new_job()])

    assert fresh is not None
    assert fresh > last


@pytest.mark.parametrize("number", [2**31, 2**53])
async def test_b53_a_whole_life_with_ids_that_no_32_bits_hold(
    store: Store,
    enqueue: Enqueue,
    claim_one: ClaimOne,
    ids_above: Callable[[int], None],
    *,
    number: int,
) -> None:
    await enqueue(task="other")
    ids_above(number)

    (job_id,) = await enqueue()

    assert job_id > number
    held = await claim_one()
    assert held.key == ClaimKey(job_id, 1)
    assert not (await store.renew([held.key], worker="w1", lease=HOUR)).lost
    assert await store.save(held.key, state="1")
    (settled,) = await store.finish([dead(held.key)])
    assert settled.accepted
    (answer,) = await store.replay([job_id], by="test")
    assert (answer.job_id, answer.done) == (job_id, True)
    (answer,) = await store.move([job_id], by="test", priority=9)
    assert answer.done
    held = await claim_one()
    await store.finish([_outcome.released(held.key, unstarted=True)])
    (answer,) = await store.cancel([job_id], by="test")
    assert answer.done
    page = await store.list(Filter(ids=(job_id,)), after=job_id + 1)
    assert [job.id for job in page.jobs] == [job_id]
    (answer,) = await store.delete([job_id])
    assert answer.done
    (fresh,) = await enqueue()
    assert fresh > job_id
