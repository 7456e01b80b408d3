"""Ids of jobs that fit, found without reading the jobs, on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from rowlock import App, Filter, Status, TaskStats
from rowlock._store import Searchable
from rowlock.testing import FakeClock
from tests.endings import known


@pytest.fixture
async def app(tmp_path: Path, clock: FakeClock) -> AsyncIterator[App]:
    """An app with jobs of two tasks in two queues, of every status but running."""
    app = App(f"sqlite:///{tmp_path}/jobs.db", clock=clock)

    @app.task(max_attempts=1)
    def work(n: int) -> None:
        if n == 3:
            raise ValueError(n)

    @app.task(queue="other")
    def rest(n: int) -> None: ...

    async with app:
        await app.enqueue_many(work.job(n) for n in range(6))
        async with app.worker():
            for n in range(6):
                await app.wait(n + 1, 10)
        clock.advance(60)
        await app.enqueue_many(rest.options(idempotency_key="k").job(n) for n in (1, 2))
        late = known(await rest.options(delay=60).enqueue(3))
        await app.cancel(known(await work.enqueue(7)))
        assert (await app.get(late)).status is Status.PENDING
        yield app


@pytest.mark.parametrize(
    "where",
    [
        Filter(),
        Filter(task="work"),
        Filter(queue="other"),
        Filter(idempotency_key="k"),
        Filter(ids=(1, 2, 99)),
        Filter(older_than=timedelta(seconds=30)),
        *(Filter(status=status) for status in Status),
        Filter(status=Status.FAILED, task="work", queue="default"),
    ],
)
async def test_search_finds_what_list_lists_page_by_page(
    app: App, where: Filter
) -> None:
    assert isinstance(app._store, Searchable)
    expected = [job.id for job in (await app.list(where)).jobs]

    found: list[int] = []
    while page := await app._store.search(
        where, after=found[-1] if found else None, limit=2
    ):
        assert len(page) <= 2
        found += page

    assert found == expected


async def test_stats_count_due_jobs_by_queue_and_task(
    app: App, clock: FakeClock
) -> None:
    await app.enqueue_many([app.tasks["work"].job(1), app.tasks["work"].job(2)])

    assert (await app.stats()).tasks == (
        TaskStats(queue="default", task="work", due=2),
        TaskStats(queue="other", task="rest", due=1),
    )
    clock.advance(60)
    assert (await app.stats()).unserved == {"work": 2, "rest": 2}
