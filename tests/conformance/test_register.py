"""Register: workers and tasks as operators see them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from rowlock._store import Store, TaskInfo, WorkerInfo
from rowlock.testing import FakeClock

from .given import LEASE, ClaimOne, ClaimSome, Enqueue, OpenAnother, dead

WORKER = WorkerInfo(
    id="w1",
    host="web-1",
    pid=4242,
    version="2026.11.3",
    rowlock="0.1.0",
    tasks=("bill", "mail"),
    queues=None,
    concurrency=5,
    lease=LEASE,
)
TASKS = [
    TaskInfo(name="mail", queue="mail", defaults={"max_attempts": 5}),
    TaskInfo(name="bill", queue="default", defaults={}),
]


async def workers(store: Store) -> dict[str, WorkerInfo]:
    return {worker.id: worker for worker in (await store.stats()).workers}


async def test_a_worker_is_shown_as_it_registered(
    store: Store, clock: FakeClock
) -> None:
    await store.register(WORKER, TASKS)

    assert await workers(store) == {
        "w1": replace(WORKER, started_at=clock.now(), seen_at=clock.now())
    }


async def test_a_worker_of_named_queues_says_which(store: Store) -> None:
    await store.register(replace(WORKER, queues=("fast", "slow")), TASKS)

    assert (await workers(store))["w1"].queues == ("fast", "slow")


async def test_registering_again_keeps_when_it_started(
    store: Store, clock: FakeClock
) -> None:
    started = clock.now()
    await store.register(WORKER, TASKS)
    clock.advance(10)

    await store.register(replace(WORKER, concurrency=9), TASKS)

    (worker,) = (await workers(store)).values()
    assert worker.concurrency == 9
    assert worker.started_at == started
    assert worker.seen_at == clock.now()


async def test_a_stopped_worker_is_not_shown(store: Store) -> None:
    await store.register(WORKER, TASKS)
    await store.register(replace(WORKER, id="w2"), TASKS)

    await store.register(WORKER, TASKS, stopped=True)

    assert set(await workers(store)) == {"w2"}


async def test_renewing_is_the_sign_of_life(store: Store, clock: FakeClock) -> None:
    await store.register(WORKER, TASKS)
    await store.register(replace(WORKER, id="silent"), TASKS)

    for _ in range(12):
        clock.advance(LEASE / 3)
        await store.renew((), worker="w1", lease=LEASE)

    assert set(await workers(store)) == {"w1"}
    assert (await workers(store))["w1"].seen_at == clock.now()


async def test_a_worker_is_live_for_a_lease(store: Store, clock: FakeClock) -> None:
    await store.register(WORKER, TASKS)

    clock.advance(LEASE - timedelta(seconds=1))

    assert set(await workers(store)) == {"w1"}


async def test_a_worker_shows_how_many_it_runs(
    store: Store, enqueue: Enqueue, claim: ClaimSome, claim_one: ClaimOne
) -> None:
    await store.register(WORKER, TASKS)
    await store.register(replace(WORKER, id="w2"), TASKS)
    await enqueue(4)
    held = (await claim(3, worker="w1")).claims
    await store.finish([dead(held[0].key)])
    await claim_one(worker="w2")

    running = {each.id: each.running for each in (await workers(store)).values()}

    assert running == {"w1": 2, "w2": 1}


async def test_a_worker_shows_that_it_runs_one_alone(
    store: Store, enqueue: Enqueue, claim_one: ClaimOne
) -> None:
    await store.register(WORKER, TASKS)
    await store.register(replace(WORKER, id="w2"), TASKS)
    await enqueue(2)
    held = await claim_one(worker="w1", alone=True)
    await claim_one(worker="w2")

    alone = {each.id: each.alone for each in (await workers(store)).values()}
    assert alone == {"w1": True, "w2": False}

    await store.finish([dead(held.key)])
    assert not (await workers(store))["w1"].alone


async def test_a_worker_shows_that_it_gives_way_until_it_says_otherwise(
    store: Store,
) -> None:
    await store.register(WORKER, TASKS)
    for gives_way in (False, True, True, False):
        await store.register(replace(WORKER, gives_way=gives_way), [])
        await store.renew((), worker="w1", lease=LEASE)

        assert (await workers(store))["w1"].gives_way is gives_way


async def test_a_worker_shows_which_handlers_are_stuck_until_it_says_otherwise(
    store: Store,
) -> None:
    await store.register(WORKER, TASKS)
    for stuck in ((), (17,), (17, 2**40), ()):
        await store.register(replace(WORKER, stuck=stuck), [])

        assert (await workers(store))["w1"].stuck == stuck


async def test_workers_of_all_processes_are_shown(
    store: Store, open_another: OpenAnother
) -> None:
    another = await open_another()
    await store.register(WORKER, TASKS)
    await another.register(replace(WORKER, id="w2"), TASKS)

    assert set(await workers(store)) == set(await workers(another)) == {"w1", "w2"}


async def test_tasks_are_shown_as_they_were_told_of_last_by_name(
    store: Store, open_another: OpenAnother, clock: FakeClock
) -> None:
    another = await open_another()
    await store.register(WORKER, TASKS)
    told_at = clock.now()
    clock.advance(3600)
    moved = TaskInfo(name="mail", queue="slow", defaults={"timeout": 0.5})
    await another.register(None, [moved])
    await store.register(WORKER, [], stopped=True)

    assert (await store.stats()).registered == (
        replace(TASKS[1], seen_at=told_at),
        replace(moved, seen_at=clock.now()),
    )
