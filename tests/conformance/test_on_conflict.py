"""What becomes of a call whose key another job holds: `on_conflict`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._errors import KeyConflict
from rowlock._filter import Filter
from rowlock._job import NewJob, Status
from rowlock._store import Store
from rowlock.testing import FakeClock

from .given import ClaimOne, ClaimSome, Enqueue, JobIn, Read, new_job, retry

HOUR = timedelta(hours=1)


def keyed(n: object, on_conflict: str = "raise", **fields: object) -> NewJob:
    payload = fields.pop("payload", f'{{"n":{n}}}')
    return new_job(
        payload=payload, idempotency_key="k", on_conflict=on_conflict, **fields
    )


async def test_b30_a_key_with_another_payload_is_refused_and_the_job_named(
    store: Store, enqueue: Enqueue, read: Read
) -> None:
    (first,) = await enqueue(payload='{"n":1}', idempotency_key="k")

    with pytest.raises(KeyConflict, match=f"Job {first} of 'task'.*'k'") as caught:
        await store.enqueue([keyed(2)])

    assert (caught.value.task, caught.value.idempotency_key) == ("task", "k")
    assert caught.value.job_id == first
    assert (await read(first)).payload == {"n": 1}
    # The key of another task is another key.
    other = new_job(
        task="other", payload='{"n":1}', idempotency_key="k", on_conflict="raise"
    )
    assert None not in await store.enqueue([other])


async def test_b30_the_same_payload_in_another_order_is_a_duplicate(
    store: Store, enqueue: Enqueue
) -> None:
    await enqueue(payload='{"n":1,"m":[1,{"a":true}]}', idempotency_key="k")

    again = keyed(0, payload='{ "m": [1.0, {"a": true}], "n": 1 }')

    assert list(await store.enqueue([again])) == [None]
    with pytest.raises(KeyConflict):
        await store.enqueue([keyed(0, payload='{"n":1,"m":[1,{"a":1}]}')])


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
async def test_raise_does_so_whether_the_holder_runs_or_not(
    store: Store, job_in: JobIn, status: Status
) -> None:
    await job_in(status, payload='{"n":1}', idempotency_key="k")

    with pytest.raises(KeyConflict):
        await store.enqueue([keyed(2)])
    assert list(await store.enqueue([keyed(1)])) == [None]


async def test_raise_looks_at_a_job_that_keeps_its_key(
    store: Store, job_in: JobIn, clock: FakeClock
) -> None:
    fields = {"payload": '{"n":1}', "idempotency_key": "k", "idempotency_for": HOUR}
    first = await job_in(Status.SUCCEEDED, **fields)

    with pytest.raises(KeyConflict) as caught:
        await store.enqueue([keyed(2)])

    assert caught.value.job_id == first
    assert list(await store.enqueue([keyed(1)])) == [None]
    clock.advance(HOUR)
    assert None not in await store.enqueue([keyed(2)])


async def test_raise_undoes_the_whole_call(store: Store, enqueue: Enqueue) -> None:
    await enqueue(payload='{"n":1}', idempotency_key="k")

    with pytest.raises(KeyConflict):
        await store.enqueue([new_job(), new_job(idempotency_key="j"), keyed(2)])

    assert len((await store.list(Filter())).jobs) == 1


async def test_raise_of_two_in_one_call_names_no_job_as_there_is_none(
    store: Store,
) -> None:
    with pytest.raises(KeyConflict, match="Another job of this call") as caught:
        await store.enqueue([keyed(1), keyed(2)])

    assert caught.value.job_id is None
    assert not (await store.list(Filter())).jobs
    first, second = await store.enqueue([keyed(1), keyed(1)])
    assert (first is None, second) == (False, None)


async def test_replace_gives_a_pending_job_the_new_payload_and_time(
    store: Store, enqueue: Enqueue, clock: FakeClock, read: Read
) -> None:
    (first,) = await enqueue(
        payload='{"n":1}', idempotency_key="k", priority=7, delay=HOUR
    )
    before = await read(first)
    clock.advance(60)
    expires_at = clock.now() + 5 * HOUR

    new = keyed(
        2, "replace", delay=2 * HOUR, priority=1, queue="other", expires_at=expires_at
    )
    assert list(await store.enqueue([new])) == [None]

    job = await read(first)
    assert (job.payload, job.run_at) == ({"n": 2}, clock.now() + 2 * HOUR)
    assert (job.expires_at, job.updated_at) == (expires_at, clock.now())
    assert (job.priority, job.queue, job.created_at) == (
        7,
        "default",
        before.created_at,
    )


async def test_replace_forgets_what_was_saved_of_another_payload(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (first,) = await enqueue(payload='{"n":1,"m":2}', idempotency_key="k")
    held = await claim_one()
    await store.save(held.key, state='{"page":7}', progress='{"fraction":0.5}')
    await store.finish([retry(held.key)])

    await store.enqueue([keyed(0, "replace", payload='{"m":2,"n":1}')])
    job = await read(first)
    assert (job.state, job.progress) == ({"page": 7}, {"fraction": 0.5})

    await store.enqueue([keyed(2, "replace")])
    job = await read(first)
    assert (job.payload, job.state, job.progress) == ({"n": 2}, None, None)


async def test_replace_takes_the_last_of_one_call(store: Store, read: Read) -> None:
    first, *others = await store.enqueue(
        [keyed(1, "replace"), new_job(), keyed(2, "replace"), keyed(3, "replace")]
    )

    assert first is not None
    assert [other is None for other in others] == [False, True, True]
    assert (await read(first)).payload == {"n": 3}


async def test_replace_has_a_job_claimed_when_it_is_due_now(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    (first,) = await enqueue(payload='{"n":1}', idempotency_key="k", delay=HOUR)
    assert not (await claim()).claims

    await store.enqueue([keyed(2, "replace")])

    (held,) = (await claim()).claims
    assert (held.job_id, held.payload) == (first, '{"n":2}')


async def test_replace_wakes_a_sleeper(store: Store, enqueue: Enqueue) -> None:
    await enqueue(idempotency_key="k", delay=HOUR)
    wakeups = store.wakeups()
    await wakeups.wait(timedelta(milliseconds=300))

    await store.enqueue([keyed(2, "replace")])

    assert await wakeups.wait(timedelta(seconds=10))
    wakeups.close()


async def test_b32_replace_leaves_a_running_job_as_it_is(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (first,) = await enqueue(payload='{"n":1}', idempotency_key="k")
    held = await claim_one()
    before = await read(first)

    for _ in range(100):
        new = keyed(2, "replace", delay=HOUR)
        assert list(await store.enqueue([new])) == [None]

    assert await read(first) == before
    assert len((await store.list(Filter())).jobs) == 1
    # Once it is to be tried again, it may be given another.
    await store.finish([retry(held.key, delay=60)])
    assert list(await store.enqueue([keyed(3, "replace")])) == [None]
    assert (await read(first)).payload == {"n": 3}


async def test_replace_leaves_a_job_that_keeps_its_key_as_it_is(
    store: Store, job_in: JobIn, read: Read
) -> None:
    fields = {"payload": '{"n":1}', "idempotency_key": "k", "idempotency_for": HOUR}
    first = await job_in(Status.SUCCEEDED, **fields)
    before = await read(first)

    assert list(await store.enqueue([keyed(2, "replace")])) == [None]

    assert await read(first) == before


async def test_replace_does_not_revive_a_job_that_will_never_run(
    store: Store, enqueue: Enqueue, clock: FakeClock, read: Read
) -> None:
    (first,) = await enqueue(
        idempotency_key="k", expires_at=clock.now() + timedelta(seconds=1)
    )
    clock.advance(1)

    (second,) = await store.enqueue([keyed(2, "replace")])

    assert second is not None
    assert (await read(first)).status is Status.CANCELLED
    assert (await read(second)).payload == {"n": 2}


@pytest.mark.parametrize("on_conflict", ["raise", "replace"])
async def test_law_1_ids_come_in_the_order_given_and_keys_in_any(
    store: Store, on_conflict: str, read: Read
) -> None:
    jobs = [
        new_job(idempotency_key=key, on_conflict=on_conflict, queue=f"q{place}")
        for place, key in enumerate(["c", None, "a", "c", "b", None])
    ]

    ids = list(await store.enqueue(jobs))

    made = [job_id for job_id in ids if job_id is not None]
    assert made == sorted(made)
    assert [job_id is None for job_id in ids] == [False] * 3 + [True] + [False] * 2
    for place, job_id in enumerate(ids):
        if job_id is not None:
            assert (await read(job_id)).queue == f"q{place}"


async def test_a_spawned_job_replaces_and_one_that_would_raise_is_a_duplicate(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (other,) = await enqueue(payload='{"n":1}', idempotency_key="k", delay=HOUR)
    await enqueue()
    held = await claim_one()

    (settled,) = await store.finish(
        [_outcome.succeeded(held.key, spawned=(keyed(2), keyed(3, "replace")))]
    )

    assert settled.accepted
    assert settled.spawned == (None, None)
    assert (await read(other)).payload == {"n": 3}
