"""The operators' verbs from Python: one by one, and on very many jobs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rowlock import (
    App,
    Filter,
    Job,
    JobNotFound,
    JobUnfinished,
    Retention,
    Status,
    Task,
    UsageError,
)
from rowlock.testing import FakeClock
from tests.endings import known


@pytest.fixture
def app(noting_app: App) -> App:
    """An app with one task, at a time that stands still."""
    return noting_app


async def test_a_job_is_found_by_its_key(app: App, note: Task[..., Any]) -> None:
    with_key = note.options(idempotency_key="k")
    job_id = await with_key.enqueue(number=1)

    for task in (note, "note"):
        found = await app.find(task, "k")
        assert found is not None
        assert found.id == job_id
    assert await app.find("note", "another") is None
    assert await app.find("another", "k") is None


async def test_of_many_with_one_key_the_holder_is_found_else_the_newest(
    app: App, note: Task[..., Any]
) -> None:
    with_key = note.options(idempotency_key="k")
    old = known(await with_key.enqueue())
    await app.cancel(old)
    new = known(await with_key.enqueue())
    await app.cancel(new)
    newest = await app.find(note, "k")
    assert newest is not None
    assert newest.id == new

    await app.replay(old)
    holder = await app.find(note, "k")

    assert holder is not None
    assert (holder.id, holder.status) == (old, Status.PENDING)


async def test_wait_gives_the_finished_job_however_it_ended(
    app: App, note: Task[..., Any]
) -> None:
    ids = [known(await note.enqueue(number=number)) for number in (7, -1)]
    async with app.worker():
        good, bad = [await app.wait(job_id, timeout=10) for job_id in ids]

    assert (good.status, good.result) == (Status.SUCCEEDED, 7)
    assert (bad.status, bad.last_error) == (Status.FAILED, "ValueError: -1")


async def test_wait_raises_a_sentence_when_the_time_is_over(
    app: App, note: Task[..., Any]
) -> None:
    job_id = known(await note.enqueue())

    with pytest.raises(JobUnfinished) as raised:
        await app.wait(job_id, timedelta(seconds=0.1))

    assert str(raised.value) == (
        f"Job {job_id} was still pending after 0.1 s: wait longer, or look at it again"
        f" with app.get({job_id})."
    )
    assert (raised.value.job_id, raised.value.status) == (job_id, Status.PENDING)
    assert isinstance(raised.value, TimeoutError)


async def test_wait_tells_of_a_job_that_is_gone(app: App, note: Task[..., Any]) -> None:
    with pytest.raises(JobNotFound, match="no job 999"):
        await app.wait(999, timeout=10)

    job_id = known(await note.enqueue())
    waiting = asyncio.create_task(app.wait(job_id, timeout=30))
    await asyncio.sleep(0)
    await app.cancel(job_id)
    await app.delete(job_id)

    # It saw the cancelled job, or came too late for that.
    (result,) = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(result, Job | JobNotFound)


async def test_wait_refuses_what_is_no_time_and_no_job(app: App) -> None:
    with pytest.raises(UsageError, match="timeout= can't be negative"):
        await app.wait(1, -1)
    with pytest.raises(UsageError, match="None is no job's id"):
        await app.wait(None, 1)  # type: ignore[arg-type]  # a duplicate's


async def test_many_wait_at_once_and_from_threads(
    app: App, note: Task[..., Any]
) -> None:
    ids = [known(await note.enqueue(number=number)) for number in range(20)]
    async with app.worker():
        jobs = await asyncio.gather(
            *(app.wait(job_id, 20) for job_id in ids[:10]),
            *(asyncio.to_thread(app.wait_sync, job_id, 20) for job_id in ids[10:]),
        )

    assert [job.result for job in jobs] == list(range(20))


async def test_move_changes_pending_jobs_and_says_what_others_are(
    app: App, note: Task[..., Any], clock: FakeClock
) -> None:
    job_id = known(await note.options(delay=3600).enqueue())
    gone = known(await note.enqueue())
    await app.cancel(gone)

    moved = await app.move(
        [job_id, gone, 999], queue="other", priority=-5, delay=timedelta(minutes=1)
    )

    assert [str(answer) for answer in moved] == [
        "done",
        "already cancelled",
        "not found",
    ]
    job = await app.get(job_id)
    assert (job.queue, job.priority) == ("other", -5)
    assert job.run_at == clock.now() + timedelta(minutes=1)
    await app.move(Filter(queue="other"), delay=0)
    assert (await app.get(job_id)).run_at == clock.now()
    assert (await app.get(job_id)).priority == -5


async def test_delete_removes_what_is_finished_only(
    app: App, note: Task[..., Any]
) -> None:
    old, new = known(await note.enqueue()), known(await note.enqueue())
    await app.cancel(old)

    by_id = await app.delete([new])
    by_filter = await app.delete(Filter(task="note"))

    assert by_id.counts == {"already pending": 1}
    assert {answer.job_id: str(answer) for answer in by_filter} == {old: "done"}
    assert [job.id for job in (await app.list()).jobs] == [new]


async def test_a_paused_queue_and_a_paused_task_start_nothing_until_they_resume(
    app: App, note: Task[..., Any], clock: FakeClock
) -> None:
    async with app.worker():
        for kind in ({"queue": "default"}, {"task": "note"}, {"task": note}):
            await app.pause(**kind, reason="a test", by="ada")
            pauses = (await app.stats()).pauses
            assert [(pause.reason, pause.by) for pause in pauses] == [("a test", "ada")]
            job_id = known(await note.enqueue())
            with pytest.raises(JobUnfinished):
                await app.wait(job_id, 0.3)
            assert await app.resume(**kind)
            assert not await app.resume(**kind)
            assert (await app.wait(job_id, 10)).status is Status.SUCCEEDED

        await app.pause(queue="default", for_=60)
        job_id = known(await note.enqueue())
        clock.advance(61)
        assert (await app.wait(job_id, 10)).status is Status.SUCCEEDED


@pytest.mark.parametrize(
    ("verb", "options", "complaint"),
    [
        ("pause", {}, "give exactly one of queue= and task="),
        ("pause", {"queue": "a", "task": "b"}, "give exactly one of queue= and task="),
        ("resume", {}, "give exactly one of queue= and task="),
        ("pause", {"queue": "a", "for_": -1}, "for_= can't be negative"),
        ("pause", {"task": 17}, "task= takes a text"),
        ("move", {"where": 1}, "move\\(\\) changes nothing"),
        ("move", {"where": 1, "priority": 1000}, "priority= is a whole number"),
        ("move", {"where": Filter(), "priority": 1}, "fits every job"),
        ("delete", {"where": Filter()}, "fits every job"),
        ("delete", {"where": "17"}, "A job's id"),
        ("find", {"task": "a", "idempotency_key": ""}, "idempotency_key= takes a text"),
    ],
)
async def test_what_cant_be_meant_is_refused(
    app: App, verb: str, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        await getattr(app, verb)(**options)


async def test_a_verb_by_filter_reaches_every_job_of_several_pages(
    app: App, note: Task[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlock._operations.STEP", 7)
    monkeypatch.setattr("rowlock._choice.LARGEST_SEARCH", 20)
    await app.enqueue_many(note.job(number=number) for number in range(50))
    await app.enqueue_many(note.options(queue="q").job(number=n) for n in range(3))

    answers = await app.cancel(Filter(queue="default", status=Status.PENDING))

    assert len(answers) == len({answer.job_id for answer in answers}) == 50
    assert all(answer.done for answer in answers)
    assert len((await app.list(Filter(status=Status.PENDING))).jobs) == 3


async def test_due_jobs_that_no_live_worker_runs_are_counted(
    app: App, note: Task[..., Any]
) -> None:
    @app.task(queue="mail")
    def send() -> None: ...

    await app.enqueue_many([note.job(), note.job(), send.job()])
    await note.options(delay=60).enqueue()

    assert (await app.stats()).unserved == {"note": 2, "send": 1}
    await app.pause(queue="mail")
    async with app.worker(queues=["mail"]):
        assert (await app.stats()).unserved == {"note": 2}


async def test_what_is_pruned_is_gone_for_who_waits(app: App, clock: FakeClock) -> None:
    job_id = known(await app.tasks["note"].enqueue())
    waiting = asyncio.create_task(app.wait(job_id, timeout=30))
    await app.cancel(job_id)
    clock.advance(timedelta(days=10))
    await app._store.prune(Retention(cancelled=timedelta(0)), limit=10)

    (result,) = await asyncio.gather(waiting, return_exceptions=True)

    assert isinstance(result, Job | JobNotFound)
    with pytest.raises(JobNotFound):
        await app.wait(job_id, timeout=30)
