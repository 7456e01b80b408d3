"""What a test of copying starts from: a store with one job of every kind in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from datetime import timedelta
from typing import Any, TypeAlias

from rowlock import _outcome
from rowlock._copying import COLUMNS
from rowlock._job import Claim, NewJob, Outcome, Status
from rowlock._store import Demand, Pause, Retention, Store, TaskInfo, WorkerInfo
from rowlock.stores import connect
from rowlock.stores._json import read_json
from rowlock.testing import FakeClock

KINDS = ("sqlite", "postgres")
Make: TypeAlias = Callable[[str], str]
Open: TypeAlias = Callable[[str], Awaitable[Store]]

LEASE = timedelta(seconds=60)
WORKER = WorkerInfo(
    id="w-17",
    host="here",
    pid=17,
    version="1",
    rowlock="1",
    tasks=("pay",),
    queues=None,
    concurrency=1,
    lease=LEASE,
)
TRACEBACK = 'Traceback (most recent call last):\n  File "shop.py", line 7\tin "pay"\n'
ERROR = {"type": "ValueError", "message": "out of \\ stock, ü", "traceback": TRACEBACK}


def job(**fields: Any) -> NewJob:  # noqa: ANN401 - any field of a job
    """Make a job, unless told otherwise of `pay` in `default`."""
    return NewJob(**({"task": "pay", "queue": "default", "payload": "{}"} | fields))


async def claimed(store: Store, task: str, worker: str = "w1") -> Claim:
    """Claim the next job of a task."""
    demand = Demand(total=1, tasks=frozenset({task}))
    found = await store.claim(demand, worker=worker, lease=LEASE, alone=task == "lose")
    (only,) = found.claims
    return only


async def ended(store: Store, task: str, **end: Any) -> int:  # noqa: ANN401 - any field of an outcome
    """Claim the next job of a task and end the claim; the job's id."""
    claim = await claimed(store, task)
    (settled,) = await store.finish([Outcome(key=claim.key, **end)])
    assert settled.accepted
    return claim.job_id


async def fill(store: Store, clock: FakeClock) -> None:
    """Bring jobs into every state, by the verbs that bring them there."""
    await _succeed(store, clock)
    await _keep(store, clock)
    await _fail(store, clock)
    await _cancel(store)
    await _wait(store, clock)
    await store.pause(Pause(queue="mail", reason="a \\ move", by="ada"))
    await store.pause(Pause(task="pay"), for_=timedelta(days=9))
    tasks = [
        TaskInfo(name="pay", queue="default", defaults={"max_attempts": 5}),
        TaskInfo(name="lose", queue="mail", defaults={"timeout": 1.5, "of": None}),
    ]
    await store.register(None, tasks)
    # The last id is one that no job has any more.
    (gone,) = await store.enqueue([job(task="gone")])
    assert gone is not None
    await store.cancel([gone], by="ada")
    await store.delete([gone])


async def _succeed(store: Store, clock: FakeClock) -> None:
    for result in ('{"paid": 1e22, "of": -0.0, "why": "\\u0000"}', None, "[]"):
        await store.enqueue([job(payload='{ "n" : 1, "n" : 2 }', meta={"by": "x"})])
        await ended(store, "pay", status=Status.SUCCEEDED, result=result)
        clock.advance(timedelta(days=1, microseconds=1))


async def _keep(store: Store, clock: FakeClock) -> None:
    """Have jobs that keep their keys, and one whose key was kept for long enough."""
    for key, span in (("short", 60), ("long", 10**7)):
        for n, status in enumerate((Status.SUCCEEDED, Status.FAILED)):
            kept_for = timedelta(seconds=span, microseconds=n)
            keyed = job(idempotency_key=f"{key}:{n}", idempotency_for=kept_for)
            await store.enqueue([keyed])
            error = ERROR if status is Status.FAILED else None
            await ended(store, "pay", status=status, error=error)
    clock.advance(61)
    # Those that failed stay where they are; the others go on to the history.
    await store.prune(Retention(), limit=10)


async def _fail(store: Store, clock: FakeClock) -> None:
    await store.enqueue([job(idempotency_key="dead"), job(idempotency_key="again")])
    for n in range(2):
        await ended(store, "pay", status=Status.PENDING, failed=True, error=ERROR)
        dead = await ended(store, "pay", status=Status.FAILED, failed=True, error=ERROR)
        clock.advance(60 + n)
    await store.replay([dead], by="ada", delay=timedelta(hours=1))
    await store.enqueue([job(task="back"), job(task="give up")])
    back = await ended(store, "back", status=Status.FAILED, failed=True, error=ERROR)
    await store.dead_letters.replay([back], by="probe of back", pace=timedelta(0))
    hopeless = {**ERROR, "unrecoverable": True}
    await ended(store, "give up", status=Status.FAILED, failed=True, error=hopeless)


async def _cancel(store: Store) -> None:
    unstarted, _ = await store.enqueue([job(), job(task="stop")])
    assert unstarted is not None
    await store.cancel([unstarted], by="ada \N{SNOWMAN}")
    claim = await claimed(store, "stop")
    await store.cancel([claim.job_id], by="bo")
    await store.finish([_outcome.cancelled(claim.key)])
    expiring = job(task="late", expires_at=claim.started_at + timedelta(seconds=1))
    await store.enqueue([expiring])


async def _wait(store: Store, clock: FakeClock) -> None:
    now = clock.now()
    await store.enqueue(
        [
            job(
                queue="mail",
                task="later",
                payload='{"text": "tab\\t, \\\\N and \\"ü\\" \\ud83d\\ude00"}',
                priority=-7,
                run_at=now + timedelta(days=2, microseconds=7),
                expires_at=now + timedelta(days=4),
                max_attempts=1,
                timeout=0.1,
                backoff={"kind": "list", "delays": [1, 2.5]},
                idempotency_key="later:\\1",
            ),
            job(task="snooze"),
            job(task="lose", queue="mail"),
            job(task="resume"),
            job(task="give back", priority=100),
            job(task="old", run_at=now - timedelta(days=40_000)),
        ]
    )
    await ended(store, "snooze", status=Status.PENDING, delay=timedelta(hours=3))
    await ended(store, "lose", status=Status.PENDING, lost=True, error=ERROR)
    claim = await claimed(store, "resume")
    await store.save(claim.key, state='{"row": 7}', progress='{"fraction": 0.25}')
    await store.finish([_outcome.failed(claim, ERROR, timedelta(seconds=5))])
    await ended(store, "give back", status=Status.PENDING, unstarted=True)


async def rows_of(store: Store) -> dict[int, dict[str, Any]]:
    """All that a store has of its jobs, by id; of two columns only the sense counts."""
    async with aclosing(store.copying.jobs()) as parts:
        found = [
            dict(zip(COLUMNS, row, strict=True)) async for part in parts for row in part
        ]
    for row in found:
        for name in ("meta", "errors"):
            row[name] = read_json(row[name])
    return {row["id"]: row for row in found}


def elsewhere(url: str, verb: str, *values: object, **options: object) -> object:
    """Call a verb of a store as another process would, whatever loop runs here."""

    async def call() -> object:
        store = connect(url)
        await store.open()
        try:
            return await getattr(store, verb)(*values, **options)
        finally:
            await store.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call()).result()


def quietly(_done: int, _total: int) -> None:
    """Show no progress."""
