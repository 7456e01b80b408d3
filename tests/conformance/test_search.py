"""Search: the ids of jobs that fit, without the jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlock._filter import Filter
from rowlock._job import Status
from rowlock._store import Matches, Store
from rowlock.testing import FakeClock

from .given import Enqueue, JobIn

MORE_THAN_A_STEP = 2500


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"task": "task"},
        {"queue": "slow"},
        {"idempotency_key": "k"},
        {"older_than": timedelta(seconds=30)},
        {"older_than": timedelta(seconds=90)},
        *({"status": status} for status in Status),
        *({"status": status, "queue": "slow"} for status in Status),
        {"ids": (3, 2, 99)},
        {"ids": ()},
    ],
)
async def test_search_finds_what_list_lists_page_by_page(
    store: Store,
    job_in: JobIn,
    enqueue: Enqueue,
    clock: FakeClock,
    where: dict[str, Any],
) -> None:
    # One of every status in each queue, so that both relations of Postgres take turns.
    for status in reversed(Status):
        await job_in(status)
        await job_in(status, queue="slow")
    await enqueue(queue="slow")
    clock.advance(60)
    await enqueue(idempotency_key="k", task="other")
    await enqueue(2)
    listed = [job.id for job in (await store.list(Filter(**where))).jobs]

    found: list[int] = []
    while ids := (
        await store.search(Filter(**where), after=found[-1] if found else None, limit=2)
    ).ids:
        assert len(ids) <= 2
        found += ids

    assert found == listed == sorted(listed, reverse=True)


async def test_law_13_search_gives_as_many_as_it_is_asked_for(
    store: Store, enqueue: Enqueue
) -> None:
    ids = await enqueue(MORE_THAN_A_STEP)

    found = await store.search(Filter(), limit=MORE_THAN_A_STEP)
    rest = await store.search(Filter(), after=found.ids[9], limit=20_000)

    assert list(found.ids) == ids[::-1]
    assert list(rest.ids) == ids[::-1][10:]


async def test_an_empty_store_has_nothing_to_find(store: Store) -> None:
    assert await store.search(Filter(), limit=10) == Matches(())
