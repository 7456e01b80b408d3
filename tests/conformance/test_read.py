"""Get, list and stats: what operators see."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlock._filter import Filter
from rowlock._job import Status
from rowlock._store import Store, TaskStats
from rowlock.testing import FakeClock

from .given import ClaimSome, Enqueue, JobIn, OpenAnother, new_job

SECOND = timedelta(seconds=1)


async def test_get_reads_in_the_order_given_and_leaves_out_what_is_missing(
    store: Store, enqueue: Enqueue
) -> None:
    a, b, c = await enqueue(3)

    jobs = await store.get([c, 999_999_999, a, b])

    assert [job.id for job in jobs] == [c, a, b]
    assert list(await store.get([])) == []


async def test_get_and_list_tell_the_same(store: Store, job_in: JobIn) -> None:
    ids = [await job_in(status) for status in Status]

    listed = (await store.list(Filter())).jobs

    assert list(await store.get(ids[::-1])) == list(listed)
    assert [job.status for job in reversed(listed)] == list(Status)


async def test_thousands_are_read_in_one_call(store: Store, enqueue: Enqueue) -> None:
    ids = await enqueue(2500)

    assert [job.id for job in await store.get(ids)] == ids


async def test_list_gives_the_newest_first_page_by_page(
    store: Store, enqueue: Enqueue
) -> None:
    ids = await enqueue(10)

    pages = []
    after: int | None = None
    while True:
        page = await store.list(Filter(), after=after, limit=4)
        pages.append([job.id for job in page.jobs])
        after = page.after
        if after is None:
            break
        assert len(pages) < 5

    assert [len(page) for page in pages if page] == [4, 4, 2]
    assert [job_id for page in pages for job_id in page] == ids[::-1]


async def test_a_page_that_holds_all_is_the_last(
    store: Store, enqueue: Enqueue
) -> None:
    await enqueue(3)

    assert (await store.list(Filter(), limit=4)).after is None


async def test_an_empty_store_has_one_empty_page(store: Store) -> None:
    page = await store.list(Filter())

    assert (page.jobs, page.after) == ((), None)


async def test_pages_are_stable_while_jobs_come_and_go(
    store: Store, enqueue: Enqueue, job_in: JobIn
) -> None:
    old = await enqueue(2)
    gone = await job_in(Status.FAILED)
    new = await enqueue(2)
    first = await store.list(Filter(), limit=2)
    assert [job.id for job in first.jobs] == new[::-1]

    await enqueue(3)
    await store.delete([gone])

    rest = await store.list(Filter(), after=first.after)
    assert [job.id for job in rest.jobs] == old[::-1]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({}, "abcdef"),
        ({"status": Status.PENDING}, "abcdf"),
        ({"status": Status.RUNNING}, "e"),
        ({"status": Status.FAILED}, ""),
        ({"task": "mail"}, "acf"),
        ({"task": "nothing"}, ""),
        ({"queue": "slow"}, "bcf"),
        ({"idempotency_key": "k"}, "dc"),
        ({"idempotency_key": "nothing"}, ""),
        ({"older_than": 5 * SECOND}, "abc"),
        ({"older_than": timedelta(0)}, "abcdef"),
        ({"task": "mail", "queue": "slow"}, "cf"),
        ({"task": "mail", "idempotency_key": "k"}, "c"),
        ({"task": "mail", "older_than": 5 * SECOND, "status": Status.PENDING}, "ac"),
        ({"ids": "ace"}, "ace"),
        ({"ids": "ace", "task": "mail"}, "ac"),
        ({"ids": ""}, ""),
    ],
)
async def test_each_field_of_a_filter_restricts(
    store: Store, claim: ClaimSome, clock: FakeClock, where: dict[str, Any], found: str
) -> None:
    old = await store.enqueue(
        [
            new_job(task="mail"),
            new_job(queue="slow"),
            new_job(task="mail", queue="slow", idempotency_key="k"),
        ]
    )
    clock.advance(5)
    new = await store.enqueue(
        [
            new_job(task="other", idempotency_key="k"),
            new_job(task="running"),
            new_job(task="mail", queue="slow"),
        ]
    )
    await claim(tasks=["running"])
    ids = dict(zip("abcdef", [*old, *new], strict=True))
    if "ids" in where:
        where = where | {"ids": tuple(ids[letter] for letter in where["ids"])}

    page = await store.list(Filter(**where))

    assert {job.id for job in page.jobs} == {ids[letter] for letter in found}
    assert [job.id for job in page.jobs] == sorted(
        (job.id for job in page.jobs), reverse=True
    )


async def test_a_filter_and_a_page_go_together(store: Store, enqueue: Enqueue) -> None:
    kept = []
    for _ in range(6):
        kept += await enqueue(task="mail")
        await enqueue(task="noise")

    first = await store.list(Filter(task="mail"), limit=4)
    second = await store.list(Filter(task="mail"), after=first.after, limit=4)

    assert [job.id for job in (*first.jobs, *second.jobs)] == kept[::-1]
    assert second.after is None


async def test_a_word_in_a_filter_is_no_pattern(store: Store) -> None:
    await store.enqueue([new_job(task="mail_1"), new_job(task="mailx1")])

    assert len((await store.list(Filter(task="mail_1"))).jobs) == 1
    assert (await store.list(Filter(task="mail%"))).jobs == ()
    assert (await store.list(Filter(task="MAIL_1"))).jobs == ()


async def test_stats_count_by_queue_and_status(
    store: Store, job_in: JobIn, clock: FakeClock
) -> None:
    for status in (Status.FAILED, Status.FAILED, Status.RUNNING, Status.PENDING):
        await job_in(status, queue="a")
    await job_in(Status.SUCCEEDED, queue="b")

    stats = await store.stats()

    assert stats.now == clock.now()
    assert [each.queue for each in stats.queues] == ["a", "b"]
    a, b = (each.counts for each in stats.queues)
    none = dict.fromkeys(Status, 0)
    assert a == none | {Status.FAILED: 2, Status.PENDING: 1, Status.RUNNING: 1}
    assert b == none | {Status.SUCCEEDED: 1}


async def test_stats_tell_how_many_are_due_and_since_when(
    store: Store, enqueue: Enqueue, clock: FakeClock
) -> None:
    await enqueue(delay=10 * SECOND)
    await enqueue(delay=5 * SECOND)
    await enqueue(delay=500 * SECOND)
    await enqueue(queue="later", delay=500 * SECOND)
    start = clock.now()
    clock.advance(30)

    default, later = (await store.stats()).queues

    assert (default.due, default.oldest_due) == (2, start + 5 * SECOND)
    assert (later.due, later.oldest_due) == (0, None)


async def test_stats_count_due_jobs_by_queue_and_task(
    store: Store, enqueue: Enqueue, job_in: JobIn, clock: FakeClock
) -> None:
    await enqueue(2, task="mail")
    await enqueue(task="bill", queue="slow")
    await enqueue(task="bill", queue="slow", delay=60 * SECOND)
    for status in Status:
        if status is not Status.PENDING:
            await job_in(status)

    soon = (await store.stats()).tasks
    clock.advance(60)
    later = await store.stats()

    mail = TaskStats(queue="default", task="mail", due=2)
    assert soon == (mail, TaskStats(queue="slow", task="bill", due=1))
    assert later.tasks == (mail, TaskStats(queue="slow", task="bill", due=2))
    assert later.unserved == {"mail": 2, "bill": 2}


async def test_an_empty_store_has_no_queues(store: Store) -> None:
    stats = await store.stats()

    assert (stats.queues, stats.workers, stats.pauses) == ((), (), ())
    assert stats.tasks == ()


async def test_what_one_process_wrote_another_reads(
    store: Store, enqueue: Enqueue, open_another: OpenAnother
) -> None:
    another = await open_another()
    (job_id,) = await enqueue(payload='{"n": 1}')

    assert list(await another.get([job_id])) == list(await store.get([job_id]))
    assert (await another.stats()).queues == (await store.stats()).queues
