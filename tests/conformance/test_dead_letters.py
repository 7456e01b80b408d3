"""Dead letters: what they are grouped by, and their automatic replay."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest

from rowlock import _outcome
from rowlock._dead_letters import (
    MOST_REPLAYS,
    DeadGroup,
    Probed,
    ReplayRule,
    ReplayState,
)
from rowlock._fingerprint import fingerprint
from rowlock._job import JSON, Status
from rowlock._store import Filter, Retention, Store, WorkerInfo
from rowlock.testing import FakeClock

from .given import LEASE, ClaimOne, Enqueue, OpenAnother, Read, retry

Die: TypeAlias = Callable[..., Awaitable[int]]

RULE = ReplayRule(
    task="task", probe=bool, every=timedelta(seconds=60), limit=100, rate=10
)
NO_STOCK = "ValueError: no stock of #"


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
    await store.finish([_outcome.Outcome(held.key, Status.FAILED, failed=True)])

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

    assert list(await store.search(where, limit=10)) == [second, first]
    assert [job.id for job in (await store.list(where)).jobs] == [second, first]


@pytest.mark.parametrize("status", [None, *Status])
async def test_a_fingerprint_that_none_has_fits_no_job(
    store: Store, die: Die, enqueue: Enqueue, status: Status | None
) -> None:
    await die()
    ids = await enqueue(2)
    await store.cancel(ids[:1], by="ada")

    where = Filter(fingerprint="00000000", status=status)
    assert list(await store.search(where, limit=10)) == []


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


# Pace


async def test_replayed_jobs_are_due_one_after_the_other(
    store: Store, die: Die, read: Read, clock: FakeClock
) -> None:
    ids = [await die() for _ in range(3)]
    order = [ids[2], ids[0], 999_999, ids[1], ids[0]]

    answers = await store.replay(
        order, by="ada", delay=timedelta(seconds=60), pace=timedelta(seconds=2)
    )

    assert [answer.done for answer in answers] == [True, True, False, True, True]
    due = [(await read(job_id)).run_at - clock.now() for job_id in ids]
    assert [each.total_seconds() for each in due] == [62, 66, 60]
    told = (await read(ids[1])).errors[-1]
    assert told["run_at"] == f"{clock.now() + due[1]:%Y-%m-%dT%H:%M:%S.%fZ}"


# Automatic replay


async def test_a_dead_letter_is_replayed_automatically_twice_at_most(
    store: Store, die: Die, claim_one: ClaimOne, read: Read
) -> None:
    job_id = await die()
    for number in range(1, MOST_REPLAYS + 1):
        assert list(await store.dead_letters.replayable("task", limit=10)) == [job_id]
        assert await replayed(store, job_id) == [True]
        told = (await read(job_id)).errors[-1]
        assert told["by"] == f"probe of task ({number} of {MOST_REPLAYS})"
        held = await claim_one()
        await store.finish([_outcome.failed(held, {"type": "X"}, timedelta(0))])

    assert list(await store.dead_letters.replayable("task", limit=10)) == []
    assert await replayed(store, job_id) == [False]
    assert (await read(job_id)).status is Status.FAILED


async def test_an_operators_replay_does_not_count_and_forgets_nothing(
    store: Store, die: Die, claim_one: ClaimOne, read: Read
) -> None:
    async def again() -> None:
        held = await claim_one()
        await store.finish([_outcome.failed(held, {"type": "X"}, timedelta(0))])

    job_id = await die()
    for _ in range(3):
        await store.replay([job_id], by="ada")
        await again()
    assert await replayed(store, job_id) == [True]
    # By way of the history, where a store has one.
    await store.cancel([job_id], by="ada")
    await store.replay([job_id], by="ada")
    await again()
    assert await replayed(store, job_id) == [True]
    assert str((await read(job_id)).errors[-1]["by"]).endswith("(2 of 2)")
    await again()
    await store.replay([job_id], by="ada")
    await again()

    assert await replayed(store, job_id) == [False]


async def test_what_was_given_up_for_good_is_left_alone_until_an_operator_replays_it(
    store: Store, die: Die, claim_one: ClaimOne, read: Read
) -> None:
    job_id = await die(for_good=True)
    assert (await read(job_id)).errors[-1]["unrecoverable"] is True
    assert list(await store.dead_letters.replayable("task", limit=10)) == []

    await store.replay([job_id], by="ada")
    held = await claim_one()
    await store.finish([_outcome.failed(held, {"type": "X"}, timedelta(0))])

    assert list(await store.dead_letters.replayable("task", limit=10)) == [job_id]


async def test_the_oldest_go_first_and_at_most_so_many(store: Store, die: Die) -> None:
    ids = [await die(task=task) for task in ("task", "other", "task", "task")]

    found = await store.dead_letters.replayable("task", limit=2)

    assert list(found) == [ids[0], ids[2]]


async def test_law_10_of_one_key_the_newest_goes_and_none_whose_key_is_held(
    store: Store, die: Die, enqueue: Enqueue
) -> None:
    await die(idempotency_key="k")
    newest = await die(idempotency_key="k")
    held = await die(idempotency_key="held")
    await die(idempotency_key="k", task="other")
    await enqueue(idempotency_key="held")

    assert list(await store.dead_letters.replayable("task", limit=10)) == [newest]
    assert await replayed(store, held) == [False]


async def test_a_cancelled_job_is_not_replayed_automatically(
    store: Store, enqueue: Enqueue, read: Read
) -> None:
    ids = await enqueue()
    await store.cancel(ids, by="ada")

    assert list(await store.dead_letters.replayable("task", limit=10)) == []
    assert await replayed(store, *ids) == [False]
    assert (await read(ids[0])).status is Status.CANCELLED


async def test_automatic_replays_are_due_one_after_the_other(
    store: Store, die: Die, read: Read, clock: FakeClock
) -> None:
    ids = [await die() for _ in range(3)]

    assert await replayed(store, *ids) == [True] * 3

    due = [(await read(job_id)).run_at - clock.now() for job_id in ids]
    assert [each.total_seconds() for each in due] == [0, 0.1, 0.2]


async def replayed(store: Store, *ids: int) -> list[bool]:
    answers = await store.dead_letters.replay(ids, by="probe of task", pace=RULE.pace)
    assert [answer.job_id for answer in answers] == list(ids)
    return [answer.done for answer in answers]


# Turns


async def test_one_worker_has_the_turn_until_it_is_over(
    store: Store, clock: FakeClock
) -> None:
    async def take(worker: str) -> tuple[bool, float]:
        turn = await store.dead_letters.take_turn(RULE, worker=worker)
        return turn.is_ours, turn.next_in.total_seconds()

    assert await take("w1") == (True, 60)
    clock.advance(20)
    assert await take("w2") == (False, 40)
    assert await take("w1") == (False, 40)
    clock.advance(40)
    assert await take("w2") == (True, 60)
    assert await take("w1") == (False, 60)


async def test_each_task_has_turns_of_its_own(store: Store) -> None:
    other = ReplayRule(task="other", probe=bool, every=RULE.every, limit=1, rate=1)

    turns = [
        await store.dead_letters.take_turn(rule, worker="w1") for rule in (RULE, other)
    ]

    assert [turn.is_ours for turn in turns] == [True, True]


async def test_a_turn_of_the_future_is_over(store: Store, clock: FakeClock) -> None:
    await store.dead_letters.take_turn(RULE, worker="w1")
    clock.jump(-3600)

    turn = await store.dead_letters.take_turn(RULE, worker="w2")

    assert turn.is_ours


async def test_of_many_at_once_one_has_the_turn(
    store: Store, open_another: OpenAnother
) -> None:
    stores = [store, *[await open_another() for _ in range(3)]]

    turns = await asyncio.gather(
        *(
            each.dead_letters.take_turn(RULE, worker=f"w{number}")
            for number, each in enumerate(stores * 5)
        )
    )

    assert sum(turn.is_ours for turn in turns) == 1
    assert all(turn.next_in <= RULE.every for turn in turns)


async def test_a_rule_is_shown_with_what_its_probe_said(
    store: Store, clock: FakeClock
) -> None:
    assert list(await store.dead_letters.rules()) == []
    await store.dead_letters.take_turn(RULE, worker="w1")
    taken = ReplayState(
        task="task",
        every=RULE.every,
        limit=100,
        rate=10,
        turn_at=clock.now(),
        worker="w1",
    )
    assert list(await store.dead_letters.rules()) == [taken]
    clock.advance(1)

    said = Probed(task="task", worker="w1", passed=False, error="no\0", replayed=0)
    assert await store.dead_letters.tell(
        Probed(task="task", worker="w1", passed=True, error=None, replayed=7)
    )
    (shown,) = await store.dead_letters.rules()
    assert (shown.passed, shown.replayed, shown.error) == (True, 7, None)
    assert (shown.probed_at, shown.turn_at) == (clock.now(), taken.turn_at)
    assert await store.dead_letters.tell(said)
    (shown,) = await store.dead_letters.rules()
    assert (shown.passed, (shown.error or "")[:2]) == (False, "no")


async def test_who_has_lost_the_turn_says_nothing_more(
    store: Store, clock: FakeClock
) -> None:
    await store.dead_letters.take_turn(RULE, worker="w1")
    clock.advance(61)
    await store.dead_letters.take_turn(RULE, worker="w2")

    late = Probed(task="task", worker="w1", passed=True, error=None, replayed=1)

    assert not await store.dead_letters.tell(late)
    assert (await store.dead_letters.rules())[0].probed_at is None


async def test_a_rule_that_nobody_follows_is_forgotten(
    store: Store, clock: FakeClock
) -> None:
    await store.dead_letters.take_turn(RULE, worker="w1")
    clock.advance(timedelta(days=1))
    await store.prune(Retention(), limit=10)
    assert len(await store.dead_letters.rules()) == 1
    clock.advance(62)

    await store.prune(Retention(), limit=10)

    assert list(await store.dead_letters.rules()) == []
