"""Suspects: who may claim a job whose worker was lost, and what the others are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from rowlock import _outcome
from rowlock._job import Claim, Outcome, Status
from rowlock._store import Claimed, Demand, Pause, Store, WorkerInfo
from rowlock.testing import FakeClock

from .given import (
    LEASE,
    ClaimOne,
    ClaimSome,
    Enqueue,
    OpenAnother,
    Read,
    new_job,
    retry,
)

SECOND = timedelta(seconds=1)


@pytest.fixture
def lose(store: Store, enqueue: Enqueue) -> Callable[..., object]:
    """Enqueue a job and lose the worker that ran it; its id."""

    async def lose(losses: int = 1, **fields: object) -> int:
        (job_id,) = await enqueue(**{"max_attempts": 9} | fields)
        for n in range(losses):
            wanted = Demand(
                total=9,
                tasks=frozenset({str(fields.get("task", "task"))}),
                queues={str(fields.get("queue", "default")): 9},
                suspects=n > 0,
            )
            claimed = await store.claim(wanted, worker="w-dead", lease=LEASE)
            (held,) = claimed.claims
            await store.finish([_outcome.lost(held)._replace(delay=timedelta(0))])
        return job_id

    return lose


@pytest.fixture
def claim_suspects(store: Store) -> Callable[..., Awaitable[Claimed]]:
    """Claim suspects, alone."""

    async def claim_suspects(
        total: int = 10, queues: dict[str, int] | None = None, worker: str = "w1"
    ) -> Claimed:
        wanted = Demand(
            total=total, tasks=frozenset({"task"}), queues=queues, suspects=True
        )
        return await store.claim(wanted, worker=worker, lease=LEASE, alone=True)

    return claim_suspects


Lose = Callable[..., Awaitable[int]]
ClaimSuspects = Callable[..., Awaitable[Claimed]]


def info(worker: str, *tasks: str, queues: tuple[str, ...] | None = None) -> WorkerInfo:
    return WorkerInfo(
        id=worker,
        host="host",
        pid=1,
        version="1",
        rowlock="1",
        tasks=tasks or ("task",),
        queues=queues,
        concurrency=10,
        lease=LEASE,
    )


async def test_a_suspect_is_passed_by_and_told_of(
    lose: Lose, claim: ClaimSome, enqueue: Enqueue, clock: FakeClock
) -> None:
    await lose()
    since = clock.now()
    clock.advance(7)
    (other,) = await enqueue()

    claimed = await claim()

    assert [held.job_id for held in claimed.claims] == [other]
    assert claimed.suspect_since == claimed.chosen_since == since
    assert (await claim()).suspect_since == since
    assert (await claim(0)).suspect_since == since


async def test_a_demand_for_suspects_gets_nothing_else(
    lose: Lose, claim_suspects: ClaimSuspects, enqueue: Enqueue
) -> None:
    await enqueue(3)
    assert (await claim_suspects()).claims == ()
    await lose(queue="another")
    first = await lose(queue="third")

    claimed = await claim_suspects(1, queues={"third": 1})

    assert [held.job_id for held in claimed.claims] == [first]
    assert claimed.claims[0].alone
    assert (claimed.suspect_since, claimed.chosen_since) == (None, None)


async def test_law_4_suspects_come_by_priority_then_run_at_then_id(
    lose: Lose, claim_suspects: ClaimSuspects, clock: FakeClock
) -> None:
    least = await lose(priority=-1)
    clock.advance(1)
    sooner, later = await lose(), await lose()
    clock.advance(1)
    most = await lose(priority=1)

    held = [(await claim_suspects(1)).claims[0].job_id for _ in range(4)]

    assert held == [most, sooner, later, least]


async def test_law_11_nobody_waits_for_a_suspect_that_is_paused(
    store: Store, lose: Lose, claim: ClaimSome, claim_suspects: ClaimSuspects
) -> None:
    await lose(queue="a")
    for pause in (Pause(queue="a"), Pause(task="task")):
        await store.pause(pause)
        assert (await claim()).suspect_since is None
        assert (await claim_suspects()).claims == ()
        await store.pause(pause, resume=True)
        assert (await claim()).suspect_since is not None

    assert len((await claim_suspects()).claims) == 1


async def test_law_16_nobody_waits_for_a_suspect_without_a_handler(
    lose: Lose, claim: ClaimSome, claim_suspects: ClaimSuspects
) -> None:
    await lose(task="unknown")

    assert (await claim()).suspect_since is None
    assert (await claim_suspects()).claims == ()
    assert (await claim(tasks=["unknown"])).suspect_since is not None


async def test_nobody_waits_for_a_suspect_of_a_queue_he_does_not_serve(
    lose: Lose, claim: ClaimSome
) -> None:
    await lose(queue="a")

    assert (await claim(queues={"b": 3})).suspect_since is None
    # It serves that one, and has no room there now.
    assert (await claim(queues={"a": 0, "b": 3})).suspect_since is not None
    assert (await claim(queues={"a": 1, "b": 3})).suspect_since is not None


async def test_a_claim_tells_when_a_suspect_will_be_due(
    store: Store, enqueue: Enqueue, claim: ClaimSome, clock: FakeClock
) -> None:
    await enqueue()
    (held,) = (await claim()).claims
    await store.finish([_outcome.lost(held)._replace(delay=5 * SECOND)])
    due_at = clock.now() + 5 * SECOND

    early = await claim()
    assert early.suspect_since is None
    assert early.next_due is not None
    assert early.next_due <= due_at
    clock.advance(5)

    assert (await claim()).suspect_since == due_at


ENDED: dict[str, Callable[[Claim], Outcome]] = {
    "failed": lambda held: retry(held.key),
    "snoozed": lambda held: _outcome.snoozed(held.key, timedelta(0)),
    "released": lambda held: _outcome.released(held.key, unstarted=False),
}


@pytest.mark.parametrize("end", ENDED)
async def test_a_suspect_whose_attempt_has_ended_is_none_any_more(
    store: Store,
    lose: Lose,
    claim_suspects: ClaimSuspects,
    claim_one: ClaimOne,
    end: str,
) -> None:
    job_id = await lose()
    (held,) = (await claim_suspects()).claims
    await store.finish([ENDED[end](held)])

    assert (await claim_suspects()).claims == ()
    assert (await claim_one()).job_id == job_id


@pytest.mark.parametrize("again", ["unstarted", "lost", "moved"])
async def test_a_suspect_stays_one_until_an_attempt_ends(
    store: Store,
    lose: Lose,
    claim: ClaimSome,
    claim_suspects: ClaimSuspects,
    again: str,
) -> None:
    job_id = await lose()
    if again == "moved":
        await store.move([job_id], by="ada", queue="other", priority=3)
    else:
        (held,) = (await claim_suspects()).claims
        await store.finish(
            [
                _outcome.released(held.key, unstarted=True)
                if again == "unstarted"
                else _outcome.lost(held)._replace(delay=timedelta(0))
            ]
        )

    told = await claim()
    assert told.claims == ()
    assert told.suspect_since is not None
    assert [held.job_id for held in (await claim_suspects()).claims] == [job_id]


async def test_what_is_replayed_is_no_suspect(
    store: Store, lose: Lose, claim_suspects: ClaimSuspects, claim_one: ClaimOne
) -> None:
    job_id = await lose(losses=2)
    (held,) = (await claim_suspects()).claims
    await store.finish([_outcome.lost(held)])

    await store.replay([job_id], by="ada")

    assert (await claim_one()).job_id == job_id


async def test_the_third_loss_is_the_last_and_says_that_it_was_alone(
    store: Store, lose: Lose, claim_suspects: ClaimSuspects, read: Read
) -> None:
    job_id = await lose(losses=2)
    (held,) = (await claim_suspects()).claims
    await store.finish([_outcome.lost(held)])

    job = await read(job_id)
    assert (job.status, job.losses, job.failures) == (Status.FAILED, 3, 1)
    assert job.last_error is not None
    assert job.last_error.startswith("WorkerLost: worker w1 was lost")
    assert job.last_error.endswith("It ran nothing else.")


# Who stops claiming for it


async def test_of_the_workers_the_one_that_started_last_is_chosen(
    store: Store, lose: Lose, claim: ClaimSome, clock: FakeClock
) -> None:
    for worker in ("w1", "w3", "w2"):
        await store.register(info(worker), [])
        clock.advance(1)
    since = clock.now()
    await lose()

    for worker in ("w1", "w2", "w3", "unknown"):
        told = await claim(worker=worker)
        assert told.suspect_since == since
        assert told.chosen_since == (since if worker == "w2" else None)


async def test_who_cannot_take_it_is_not_chosen(
    store: Store, lose: Lose, claim: ClaimSome, clock: FakeClock
) -> None:
    await store.register(info("able", "task", "more", queues=("a", "b")), [])
    clock.advance(1)
    await store.register(info("of another task", "more"), [])
    clock.advance(1)
    await store.register(info("of another queue", queues=("b",)), [])
    clock.advance(1)
    await store.register(info("gone"), [])
    await store.register(info("gone"), [], stopped=True)
    await lose(queue="a")

    assert (await claim(worker="able")).chosen_since is not None
    assert (await claim(worker="of another queue")).chosen_since is None


async def test_a_worker_that_was_not_seen_for_a_lease_is_not_chosen(
    store: Store, lose: Lose, claim: ClaimSome, clock: FakeClock
) -> None:
    await store.register(info("alive"), [])
    clock.advance(1)
    await store.register(info("dead"), [])
    await lose()
    assert (await claim(worker="alive")).chosen_since is None

    clock.advance(LEASE / 2)
    await store.renew((), worker="alive", lease=LEASE)
    clock.advance(LEASE / 2 + SECOND)

    assert (await claim(worker="alive")).chosen_since is not None


async def test_each_queue_chooses_for_itself(
    store: Store, lose: Lose, claim: ClaimSome, clock: FakeClock
) -> None:
    await store.register(info("of all"), [])
    clock.advance(1)
    await store.register(info("of a", queues=("a",)), [])
    await lose(queue="a")
    clock.advance(1)
    of_b = clock.now()
    await lose(queue="b")

    told = await claim(worker="of all")

    assert told.suspect_since == of_b - SECOND
    assert told.chosen_since == of_b
    of_a = await claim(worker="of a", queues={"a": 5})
    assert of_a.chosen_since == of_b - SECOND


@pytest.mark.usefixtures("processes")
async def test_a_suspect_that_another_process_takes_is_told_of_no_more(
    lose: Lose, claim: ClaimSome, open_another: OpenAnother
) -> None:
    another = await open_another()
    await lose()
    assert (await claim()).suspect_since is not None

    wanted = Demand(total=1, tasks=frozenset({"task"}), suspects=True)
    taken = await another.claim(wanted, worker="w2", lease=LEASE, alone=True)

    assert len(taken.claims) == 1
    assert (await claim()).suspect_since is None


async def test_a_thousand_suspects_are_in_nobodys_way(
    store: Store, enqueue: Enqueue, claim: ClaimSome
) -> None:
    await enqueue(1000, max_attempts=9)
    held = (await claim(1000)).claims
    await store.finish([_outcome.lost(each) for each in held])
    (other,) = await enqueue(priority=-100)

    assert [each.job_id for each in (await claim(3)).claims] == [other]


async def test_suspects_wait_in_the_same_line_as_new_jobs_of_their_queue(
    store: Store, lose: Lose, claim: ClaimSome, claim_suspects: ClaimSuspects
) -> None:
    """Neither kind hides the other, whichever was looked for before."""
    suspects = [await lose(), await lose()]
    others = await store.enqueue([new_job()])

    assert [each.job_id for each in (await claim()).claims] == list(others)
    assert [each.job_id for each in (await claim_suspects()).claims] == suspects
    await store.enqueue([new_job()])
    assert len((await claim()).claims) == 1
    assert (await claim()).suspect_since is None
