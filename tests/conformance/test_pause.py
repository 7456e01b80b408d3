"""Pause: law 11."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._store import Pause, Store
from rowlock.testing import FakeClock

from .given import LEASE, ClaimOne, ClaimSome, Enqueue, OpenAnother, new_job

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("pause", [Pause(queue="a"), Pause(task="mail")])
async def test_law_11_what_is_paused_yields_no_claims(
    store: Store, claim: ClaimSome, pause: Pause
) -> None:
    ids = await store.enqueue(
        [
            new_job(queue="a", task="mail", priority=100),
            new_job(queue="b", task="bill"),
            new_job(queue="a", task="mail", priority=100),
        ]
    )
    assert await store.pause(pause)

    held = (await claim(tasks=["mail", "bill"])).claims

    assert [each.job_id for each in held] == [ids[1]]
    assert await store.pause(pause, resume=True)
    assert len((await claim(tasks=["mail", "bill"])).claims) == 2


async def test_law_11_a_queue_and_a_task_of_one_name_are_two_things(
    store: Store, claim: ClaimSome
) -> None:
    await store.enqueue([new_job(queue="mail", task="bill"), new_job(task="mail")])

    await store.pause(Pause(task="mail"))

    assert [held.task for held in (await claim(tasks=["mail", "bill"])).claims] == [
        "bill"
    ]


async def test_law_11_hundreds_of_paused_jobs_at_the_head_block_nothing(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(400, queue="paused", priority=100)
    await enqueue(400, task="paused", priority=100)
    ids = await enqueue(2)
    await store.pause(Pause(queue="paused"))
    await store.pause(Pause(task="paused"))

    held = (await claim(2, tasks=["task", "paused"])).claims

    assert [each.job_id for each in held] == ids


async def test_law_11_running_attempts_go_on(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    await enqueue()
    held = await claim_one()
    await store.pause(Pause(queue="default"))
    await store.pause(Pause(task="task"))

    renewal = await store.renew([held.key], worker="w1", lease=LEASE)
    assert (renewal.lost, renewal.cancelled) == (frozenset(), frozenset())
    assert await store.save(held.key, state="1")
    (settled,) = await store.finish([_outcome.succeeded(held.key)])
    assert settled.accepted


async def test_law_11_a_paused_queue_takes_jobs(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await store.pause(Pause(queue="default"))

    await enqueue(3)

    assert (await claim()).claims == ()
    await store.pause(Pause(queue="default"), resume=True)
    assert len((await claim()).claims) == 3


async def test_law_11_a_pause_for_a_while_ends_by_itself(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    await enqueue()
    await store.pause(Pause(queue="default"), for_=HOUR)

    clock.advance(HOUR - timedelta(seconds=1))
    assert (await claim()).claims == ()
    clock.advance(2)
    assert len((await claim()).claims) == 1


async def test_law_11_a_pause_may_be_prolonged_and_made_endless(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    await enqueue()
    await store.pause(Pause(queue="default"), for_=HOUR)
    await store.pause(Pause(queue="default"), for_=3 * HOUR)
    clock.advance(2 * HOUR)
    assert (await claim()).claims == ()

    await store.pause(Pause(queue="default"))
    clock.advance(1000 * HOUR)

    assert (await claim()).claims == ()
    assert len((await store.stats()).pauses) == 1


async def test_a_pause_is_shown_with_who_and_why(
    store: Store, clock: FakeClock
) -> None:
    await store.pause(Pause(queue="mail", reason="provider down", by="ada"), for_=HOUR)
    await store.pause(Pause(task="bill"))

    pauses = {(each.queue, each.task): each for each in (await store.stats()).pauses}

    assert pauses == {
        ("mail", None): Pause(
            queue="mail",
            until=clock.now() + HOUR,
            reason="provider down",
            by="ada",
            at=clock.now(),
        ),
        (None, "bill"): Pause(task="bill", at=clock.now()),
    }


async def test_a_pause_that_is_over_is_not_shown(
    store: Store, clock: FakeClock
) -> None:
    await store.pause(Pause(queue="mail"), for_=HOUR)
    clock.advance(2 * HOUR)

    assert (await store.stats()).pauses == ()


async def test_resuming_what_is_not_paused_says_so(store: Store) -> None:
    assert not await store.pause(Pause(queue="default"), resume=True)
    await store.pause(Pause(queue="default"))
    assert await store.pause(Pause(queue="default"), resume=True)
    assert not await store.pause(Pause(queue="default"), resume=True)


async def test_law_11_a_pause_counts_for_every_process(
    enqueue: Enqueue, claim: ClaimSome, open_another: OpenAnother
) -> None:
    another = await open_another()
    await enqueue()

    await another.pause(Pause(queue="default"))
    assert (await claim()).claims == ()
    await another.pause(Pause(queue="default"), resume=True)
    assert len((await claim()).claims) == 1


async def test_law_11_a_name_is_paused_letter_by_letter(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(queue="Mail")
    for other in ("mail", "Mail ", "Mai%", "Mai_", "*"):
        await store.pause(Pause(queue=other))

    assert len((await claim()).claims) == 1
