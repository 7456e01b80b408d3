"""Cases of the kind *ids*: past 32 bits, and past what a float tells apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from rowlock import App, Retention, Snooze, Status, Task, current_attempt
from tests.conformance.stores import StoreCase
from tests.endings import finished, jobs_of, known, reached
from tests.integration.command_line import run_json

KINDS = ("succeed", "retry", "snooze", "die", "wait", "be cancelled", "never run")
PER_KIND = 29  # 203 jobs in all


@pytest.fixture
def ids_above(shared_case: StoreCase, database_url: str) -> Callable[[int], None]:
    """Let the next id be above a number."""
    assert shared_case.ids_above
    move = shared_case.ids_above
    return lambda number: move(database_url, number)


@pytest.mark.parametrize("above", [2**31 - 48, 2**53 - 1])
async def test_b53_large_ids_go_through_a_jobs_whole_life_and_stay_exact(
    app: App, database_url: str, ids_above: Callable[[int], None], above: int
) -> None:
    gate = asyncio.Event()
    live = declare(app, gate)
    await live.enqueue(kind="the sequence begins with the first row")
    ids_above(above)

    enqueued = await app.enqueue_many(
        live.job(kind=kind) for kind in KINDS for _ in range(PER_KIND)
    )

    ids = [known(job_id) for job_id in enqueued]
    assert ids == list(range(above + 1, above + 1 + len(ids)))
    of = {kind: ids[n * PER_KIND :][:PER_KIND] for n, kind in enumerate(KINDS)}
    await check_first_lives(app, of)
    gate.set()
    assert [answer.job_id for answer in await app.replay(of["die"])] == of["die"]
    async with app.worker(concurrency=50):
        await finished(app, [*of["wait"], *of["die"]])
    await asyncio.to_thread(check_command_line, database_url, of["die"][0], ids)
    await check_removal(app, of["die"][0], len(ids))
    assert await live.enqueue(kind="succeed") == ids[-1] + 1


def declare(app: App, gate: asyncio.Event) -> Task[..., Any]:
    """Make the task whose jobs live as their kind says."""

    @app.task(max_attempts=2, backoff=0)
    async def live(kind: str) -> int:
        attempt = current_attempt()
        if kind == "die" or (kind == "retry" and attempt.number == 1):
            raise ValueError
        if kind == "snooze" and attempt.number == 1:
            raise Snooze(0)
        if kind in ("wait", "be cancelled"):
            await gate.wait()
        return attempt.job_id

    return live


async def check_first_lives(app: App, of: Mapping[str, Sequence[int]]) -> None:
    """See all of them end as they should, but those that wait, which are released."""
    assert all(answer.done for answer in await app.cancel(of["never run"]))
    # A lease of a second is renewed while its jobs run.
    async with app.worker(concurrency=100, lease=1, shutdown_timeout=0.3):
        for kind in ("succeed", "retry", "snooze"):
            jobs = await finished(app, of[kind])
            assert [job.result for job in jobs] == of[kind]
        jobs = await finished(app, of["die"])
        assert {(job.status, job.failures) for job in jobs} == {(Status.FAILED, 2)}
        for job_id in [*of["wait"], *of["be cancelled"]]:
            await reached(app, job_id, Status.RUNNING)
        assert all(answer.done for answer in await app.cancel(of["be cancelled"]))
        await finished(app, of["be cancelled"])
    released = await jobs_of(app, of["wait"])
    assert {(job.status, job.failures) for job in released} == {(Status.PENDING, 0)}


async def check_removal(app: App, dead: int, count: int) -> None:
    """Delete one job and prune the rest."""
    (answer,) = await app._store.delete([dead])
    assert answer.done
    at_once = Retention(
        succeeded=timedelta(0), cancelled=timedelta(0), failed=timedelta(0)
    )
    assert (await app._store.prune(at_once, limit=1000)).deleted == count
    assert (await app.list()).jobs == ()


def check_command_line(url: str, dead: int, ids: list[int]) -> None:
    """Read and change jobs by their ids, as an operator does."""
    on = ("--database", url)
    listed = run_json("jobs", "list", *on, "--limit", 1000)["jobs"]
    assert [job["id"] for job in listed][:-1] == ids[::-1]
    assert run_json("jobs", "show", *on, dead)["id"] == dead
    (answer,) = run_json("jobs", "replay", *on, dead)
    assert (answer["job_id"], answer["done"]) == (dead, True)
    (answer,) = run_json("jobs", "cancel", *on, dead)
    assert (answer["job_id"], answer["done"]) == (dead, True)
