"""Automatic replay: whom it lets through, how often, and whose turn it is."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from rowlock import _outcome
from rowlock._dead_letters import MOST_REPLAYS, Probed, ReplayRule, ReplayState
from rowlock._job import Status
from rowlock._store import Retention, Store
from rowlock.testing import FakeClock

from .given import ClaimOne, Die, Enqueue, OpenAnother, Read

RULE = ReplayRule(
    task="task", probe=bool, every=timedelta(seconds=60), limit=100, rate=10
)


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
