"""What a handler says of its attempt: checkpoints, progress, jobs to spawn."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from rowlock import (
    App,
    ClaimLost,
    Filter,
    PayloadError,
    Snooze,
    Status,
    UsageError,
    current_attempt,
)
from rowlock._attempt import Attempt
from rowlock._events import Event, JobDuplicate, JobEnqueued
from rowlock._outcome import lost
from rowlock.testing import FakeClock
from tests.endings import ended, known, once, rested
from tests.eventually import eventually
from tests.holding import Hold


async def test_the_next_attempt_finds_what_the_last_one_saved(
    app: App, clock: FakeClock
) -> None:
    seen: list[Any] = []

    @app.task(backoff=1)
    async def copy() -> None:
        attempt = current_attempt()
        seen.append(attempt.state)
        page = (attempt.state or {"page": 0})["page"] + 1
        await attempt.checkpoint({"page": page})
        assert attempt.state == {"page": page}
        if page < 3:
            msg = "the network is gone"
            raise OSError(msg)

    async with app.worker():
        job_id = await copy.enqueue()
        for number in (1, 2):
            await rested(app, job_id, after=number)
            clock.advance(60)
        job = await ended(app, job_id)

    assert seen == [None, {"page": 1}, {"page": 2}]
    assert (job.status, job.state) == (Status.SUCCEEDED, {"page": 3})


async def test_a_plain_handler_saves_from_its_thread_and_survives_a_replay(
    app: App,
) -> None:
    @app.task(max_attempts=1)
    def copy() -> str:
        attempt = current_attempt()
        if attempt.state is None:
            attempt.checkpoint_sync(["a", 1])
            msg = "the disk is full"
            raise OSError(msg)
        return f"resumed at {attempt.state}"

    async with app.worker():
        job_id = known(await copy.enqueue())
        assert (await ended(app, job_id)).status is Status.FAILED
        await app.replay(job_id)
        job = await once(app, job_id, lambda job: job.status is Status.SUCCEEDED)

    assert job.result == "resumed at ['a', 1]"


async def test_a_thread_with_a_loop_of_its_own_saves_too(app: App) -> None:
    @app.task
    def copy() -> None:
        attempt = current_attempt()

        async def save() -> None:
            with pytest.raises(UsageError, match=r"await attempt\.checkpoint"):
                attempt.checkpoint_sync(1)
            await attempt.checkpoint({"from": "another loop"})

        asyncio.run(save())

    async with app.worker():
        job = await ended(app, await copy.enqueue())

    assert (job.status, job.state) == (Status.SUCCEEDED, {"from": "another loop"})


async def test_a_checkpoint_of_a_lost_claim_says_so_and_saves_nothing(
    app: App,
) -> None:
    raised: list[Exception] = []
    saved, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def copy() -> None:
        attempt = current_attempt()
        if attempt.number > 1:
            return
        await attempt.checkpoint(1)
        saved.set()
        await go_on.wait()
        for save in (attempt.checkpoint, in_a_thread):
            try:
                await save(2)
            except ClaimLost as error:
                raised.append(error)

    async with app.worker(queues=["default"]) as worker:
        job_id = known(await copy.enqueue())
        await saved.wait()
        held = await app._store.lost(10, worker=worker.id)
        (settled,) = await app._store.finish([lost(held[0])])
        assert settled.accepted
        go_on.set()
        job = await ended(app, job_id)

    told = (
        f"Claim 1 of job {job_id} is lost: another worker may have the job."
        " Stop here, and roll back."
    )
    assert [str(error) for error in raised] == [told] * 2
    assert job.state == 1


async def in_a_thread(data: object) -> None:
    """Save from a thread that sees the attempt."""
    await asyncio.to_thread(current_attempt().checkpoint_sync, data)


@pytest.mark.parametrize("data", [{1: 2}, float("nan"), b"x", "x" * 100])
async def test_what_cant_be_stored_is_no_checkpoint(
    database_url: str, data: object
) -> None:
    app = App(database_url, max_payload=50)

    @app.task(max_attempts=1)
    async def copy() -> None:
        await current_attempt().checkpoint("kept")
        with pytest.raises(PayloadError):
            await current_attempt().checkpoint(data)
        assert current_attempt().state == "kept"

    async with app, app.worker():
        job = await ended(app, await copy.enqueue())

    assert (job.status, job.state) == (Status.SUCCEEDED, "kept")


async def test_a_checkpoint_waits_out_an_outage(app: App, hold_writes: Hold) -> None:
    @app.task(max_attempts=1)
    async def copy() -> None:
        async with hold_writes():
            saving = asyncio.create_task(current_attempt().checkpoint("kept"))
            await asyncio.sleep(1.3)  # past the second after which SQLite gives up
        await saving

    async with app.worker():
        job = await ended(app, await copy.enqueue())

    assert (job.status, job.state) == (Status.SUCCEEDED, "kept")


async def test_what_was_saved_is_no_object_that_the_handler_goes_on_changing(
    app: App,
) -> None:
    @app.task(max_attempts=1)
    async def copy() -> None:
        pages = [1]
        await current_attempt().checkpoint(pages)
        pages.append(2)
        assert current_attempt().state == [1]

    async with app.worker():
        assert (await ended(app, await copy.enqueue())).status is Status.SUCCEEDED


async def test_progress_is_seen_while_the_handler_runs(app: App) -> None:
    go_on = threading.Event()

    @app.task
    def copy() -> None:
        current_attempt().progress(0.25, "page 1 of 4")
        go_on.wait(10)

    async with app.worker():
        job_id = await copy.enqueue()
        try:
            job = await once(app, job_id, lambda job: job.progress is not None)
        finally:
            go_on.set()
        await ended(app, job_id)

    assert job.status is Status.RUNNING
    assert job.progress == {"fraction": 0.25, "note": "page 1 of 4"}


async def test_of_much_progress_little_is_written_and_the_last_word_stands(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[str | None] = []
    save = app._store.save

    async def counted(*args: Any, **options: Any) -> bool:  # noqa: ANN401 - as they come
        writes.append(options.get("progress"))
        return await save(*args, **options)

    monkeypatch.setattr(app._store, "save", counted)

    @app.task
    def copy() -> None:
        for page in range(10_001):
            current_attempt().progress(page / 10_000)

    async with app.worker():
        job = await ended(app, await copy.enqueue())

    assert job.progress == {"fraction": 1.0, "note": None}
    assert 1 <= len(writes) <= 5  # one a second, and the last


async def test_a_failure_leaves_the_last_progress_to_look_at(app: App) -> None:
    @app.task(max_attempts=1)
    async def copy() -> None:
        current_attempt().progress(1 / 3, "row 17\0" + "x" * 500)
        msg = "row 17 is broken"
        raise ValueError(msg)

    async with app.worker():
        job = await ended(app, await copy.enqueue())

    assert job.status is Status.FAILED
    assert job.progress is not None
    note = str(job.progress["note"])
    assert note.startswith("row 17\ufffdxx")
    assert len(note) == 200


@pytest.mark.parametrize("fraction", [50, -0.5, float("nan"), True, "0.5", None])
async def test_progress_is_a_fraction(app: App, fraction: object) -> None:
    @app.task(max_attempts=1)
    async def copy() -> None:
        current_attempt().progress(fraction)  # type: ignore[arg-type]  # what is refused

    async with app.worker():
        job = await ended(app, await copy.enqueue())

    assert job.last_error is not None
    assert "progress() takes a fraction from 0 to 1" in job.last_error
    assert job.progress is None


async def test_what_an_attempt_spawns_comes_with_its_success(
    app: App, told: list[Event]
) -> None:
    @app.task
    async def pack(order_id: int) -> None:
        attempt = current_attempt()
        attempt.spawn(ship.job(order_id), ship.job(order_id + 1))
        await asyncio.to_thread(attempt.spawn, ship.job(order_id + 2))
        assert len((await app.list()).jobs) == 1

    @app.task(queue="shipping")
    def ship(order_id: int) -> None: ...

    async with app.worker(queues=["default"]):
        await ended(app, await pack.enqueue(1))

    jobs = (await app.list()).jobs
    assert [job.payload for job in jobs if job.task == "ship"] == [
        {"order_id": 3},
        {"order_id": 2},
        {"order_id": 1},
    ]
    enqueued = [event for event in told if isinstance(event, JobEnqueued)]
    assert {event.job_id for event in enqueued} == {job.id for job in jobs}


async def test_a_plain_handler_spawns_its_successor_under_its_own_key(
    app: App, told: list[Event]
) -> None:
    @app.task
    def chain(number: int) -> None:
        next_one = chain.options(idempotency_key="chain")
        if number < 3:
            current_attempt().spawn(
                next_one.job(number + 1), next_one.job(number + 100)
            )

    async with app.worker():
        await chain.options(idempotency_key="chain").enqueue(1)
        succeeded = Filter(status=Status.SUCCEEDED)

        async def all_ran() -> bool:
            return len((await app.list(succeeded)).jobs) == 3

        await eventually(all_ran)

    jobs = (await app.list()).jobs
    assert [job.payload["number"] for job in jobs] == [3, 2, 1]
    duplicates = [event for event in told if isinstance(event, JobDuplicate)]
    assert len(duplicates) == 2


@pytest.mark.parametrize("how", ["fails", "snoozes", "is cancelled"])
async def test_nothing_is_spawned_by_an_attempt_that_doesnt_succeed(
    app: App, how: str
) -> None:
    spawned = asyncio.Event()

    @app.task(max_attempts=1)
    async def pack() -> None:
        current_attempt().spawn(ship.job())
        spawned.set()
        if how == "snoozes":
            raise Snooze(3600)
        if how == "fails":
            raise KeyError(how)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)  # until it is cancelled

    @app.task
    def ship() -> None: ...

    async with app.worker(lease=1):
        job_id = known(await pack.enqueue())
        await spawned.wait()
        if how == "is cancelled":
            await app.cancel(job_id)
        await rested(app, job_id)

    assert [job.task for job in (await app.list()).jobs] == ["pack"]


async def test_nothing_is_spawned_by_an_attempt_that_lost_its_claim(app: App) -> None:
    spawned, go_on = asyncio.Event(), asyncio.Event()

    @app.task(queue="old")
    async def pack() -> None:
        current_attempt().spawn(ship.job())
        spawned.set()
        await go_on.wait()

    @app.task
    def ship() -> None: ...

    async with app.worker(queues=["old"]) as worker:
        job_id = known(await pack.enqueue())
        await spawned.wait()
        await app.pause(queue="old")
        held = await app._store.lost(10, worker=worker.id)
        await app._store.finish([lost(held[0])])
        go_on.set()
    await app.cancel(job_id)

    assert [job.task for job in (await app.list()).jobs] == ["pack"]


async def test_what_is_spawned_has_to_be_a_job(app: App) -> None:
    @app.task(max_attempts=1)
    async def pack() -> None:
        current_attempt().spawn("ship")  # type: ignore[arg-type]  # what is refused

    async with app.worker():
        job = await ended(app, await pack.enqueue())

    assert job.last_error is not None
    assert "attempt.spawn takes what task.job(...) returns" in job.last_error


async def test_no_job_is_made_by_a_schedule_yet_and_a_repr_shows_no_state(
    app: App,
) -> None:
    shown: list[str] = []

    @app.task
    async def copy() -> None:
        attempt: Attempt = current_attempt()
        await attempt.checkpoint("canary")
        assert attempt.scheduled_for is None
        shown.append(repr(attempt))

    async with app.worker():
        assert (await ended(app, await copy.enqueue())).status is Status.SUCCEEDED

    assert "task='copy'" in shown[0]
    assert "canary" not in shown[0]
