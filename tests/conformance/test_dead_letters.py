"""Dead letters: what they are grouped by, and in which version they died."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlock import _outcome
from rowlock._answers import DeadGroup
from rowlock._filter import Filter
from rowlock._fingerprint import fingerprint
from rowlock._job import JSON, Outcome, Status
from rowlock._store import Store, WorkerInfo
from rowlock.testing import FakeClock

from .given import LEASE, ClaimOne, Die, Enqueue, Read, retry

NO_STOCK = "ValueError: no stock of #"


async def groups(store: Store, **of: Any) -> list[DeadGroup]:  # noqa: ANN401 - as the seam's
    options = {"task": None, "queue": None, "limit": 100} | of
    return list(await store.dead_letters.groups(**options))


# Grouping


async def test_dead_letters_of_one_error_are_one_group(
    store: Store, die: Die, clock: FakeClock
) -> None:
    first = clock.now()
    await die("no stock of 17")
    clock.advance(10)
    await die("no stock of 18")
    clock.advance(10)
    newest = await die("no stock of 4711")

    assert await groups(store) == [
        DeadGroup(
            fingerprint=fingerprint({"type": "ValueError", "message": "no stock of 1"}),
            task="task",
            error=NO_STOCK,
            count=3,
            first_seen=first,
            last_seen=clock.now(),
            version=None,
            newest=newest,
        )
    ]


async def test_groups_come_by_when_they_were_last_seen(
    store: Store, die: Die, clock: FakeClock
) -> None:
    for message in ("timed out", "refused", "timed out"):
        await die(message)
        clock.advance(1)
    await die("refused", task="other")

    found = await groups(store)

    assert [(each.task, each.error, each.count) for each in found] == [
        ("other", "ValueError: refused", 1),
        ("task", "ValueError: timed out", 2),
        ("task", "ValueError: refused", 1),
    ]
    assert await groups(store, limit=2) == found[:2]


async def test_groups_of_a_task_or_a_queue(store: Store, die: Die) -> None:
    await die("refused", queue="mail")
    fast = await die("refused", queue="fast")
    await die("refused", queue="mail", task="other")

    async def shown(**of: str) -> list[tuple[str, int]]:
        return [(each.task, each.count) for each in await groups(store, **of)]

    assert await shown(task="other") == [("other", 1)]
    assert await shown(task="task", queue="mail") == [("task", 1)]
    assert sorted(await shown(queue="mail")) == [("other", 1), ("task", 1)]
    assert (await groups(store, queue="fast"))[0].newest == fast
    assert await shown(task="none") == []


async def test_only_dead_letters_are_grouped(
    store: Store, die: Die, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    replayed = await die()
    await store.replay([replayed], by="ada")
    await store.finish([retry((await claim_one()).key, delay=60)])
    deleted = await die()
    await store.delete([deleted])
    await enqueue()

    assert await groups(store) == []


async def test_a_dead_letter_without_an_error_has_a_group_too(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    (job_id,) = await enqueue()
    held = await claim_one()
    await store.finish([Outcome(held.key, Status.FAILED, failed=True)])

    (group,) = await groups(store)

    assert (group.fingerprint, group.error, group.count) == (None, None, 1)
    assert group.newest == job_id


async def test_a_lost_workers_name_splits_no_group(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    await enqueue(2, max_attempts=1)
    for worker in ("w-0123456789abcdef", "w-fedcba9876543210"):
        await store.finish([_outcome.lost(await claim_one(worker=worker))])

    (group,) = await groups(store)

    assert (group.count, (group.error or "").split(":")[0]) == (2, "WorkerLost")


async def test_a_job_has_the_fingerprint_of_its_last_error(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue(max_attempts=3)
    assert (await read(job_id)).fingerprint is None
    errors: list[dict[str, JSON]] = [
        {"type": "KeyError", "message": "'a'"},
        {"type": "ValueError", "message": "b"},
    ]
    for error in errors:
        held = await claim_one()
        await store.finish([_outcome.failed(held, error, timedelta(0))])
        assert (await read(job_id)).fingerprint == fingerprint(error)
    held = await claim_one()
    assert (await read(job_id)).fingerprint == fingerprint(errors[1])

    await store.finish([_outcome.succeeded(held.key)])

    assert (await read(job_id)).fingerprint is None


async def test_what_is_cancelled_has_no_fingerprint(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    (job_id,) = await enqueue(max_attempts=3)
    await store.finish([retry((await claim_one()).key)])

    await store.cancel([job_id], by="ada")

    job = await read(job_id)
    assert (job.status, job.fingerprint) == (Status.CANCELLED, None)


async def test_a_replayed_job_keeps_its_fingerprint(
    store: Store, die: Die, read: Read
) -> None:
    job_id = await die()
    before = (await read(job_id)).fingerprint

    await store.replay([job_id], by="ada")

    assert (await read(job_id)).fingerprint == before is not None


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"status": Status.FAILED},
        {"task": "task"},
        {"queue": "default"},
        {"idempotency_key": "k"},
        {"ids": (1, 2, 3, 4)},
    ],
    ids=str,
)
async def test_a_filter_has_the_jobs_of_a_group(
    store: Store, die: Die, more: dict[str, Any]
) -> None:
    await die("refused", idempotency_key="k")
    first = await die("no stock of 1", idempotency_key="k")
    second = await die("no stock of 2", idempotency_key="k")
    found = (await groups(store))[0].fingerprint

    where = Filter(fingerprint=found, **more)

    assert (await store.search(where, limit=10)).ids == (second, first)
    assert [job.id for job in (await store.list(where)).jobs] == [second, first]


@pytest.mark.parametrize("status", [None, *Status])
async def test_a_fingerprint_that_none_has_fits_no_job(
    store: Store, die: Die, enqueue: Enqueue, status: Status | None
) -> None:
    await die()
    ids = await enqueue(2)
    await store.cancel(ids[:1], by="ada")

    where = Filter(fingerprint="00000000", status=status)
    assert (await store.search(where, limit=10)).ids == ()


# The version of the code


async def test_an_error_names_the_version_that_its_worker_registered(
    store: Store, die: Die, read: Read
) -> None:
    for worker, version in (("old", "1.0"), ("new", "1.1"), ("plain", None)):
        await store.register(info(worker, version), ())

    old = await die(worker="old")
    new = await die(worker="new")
    assert (await groups(store))[0].version == "1.1"
    plain = await die(worker="plain")

    assert (await read(old)).errors[-1]["version"] == "1.0"
    assert (await read(new)).errors[-1]["version"] == "1.1"
    assert (await read(plain)).errors[-1]["version"] is None
    assert (await groups(store))[0].version is None


async def test_a_loss_names_the_version_of_the_worker_that_was_lost(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne, read: Read
) -> None:
    await store.register(info("w1", "1.0"), ())
    (job_id,) = await enqueue()

    await store.finish([_outcome.lost(await claim_one(worker="w1"))])

    assert (await read(job_id)).errors[-1]["version"] == "1.0"


def info(worker: str, version: str | None) -> WorkerInfo:
    return WorkerInfo(
        id=worker,
        host="h",
        pid=1,
        version=version,
        rowlock="0.1.0",
        tasks=("task",),
        queues=None,
        concurrency=1,
        lease=LEASE,
    )
