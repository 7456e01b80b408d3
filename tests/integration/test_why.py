"""Why a job isn't running: each answer, where it is true, on every store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest

from rowlock import App, Task
from rowlock._job import Outcome, Status
from rowlock._store import Demand, TaskInfo, WorkerInfo
from rowlock.testing import FakeClock
from tests.endings import known

LEASE = timedelta(seconds=60)

Work: TypeAlias = Callable[..., Awaitable[str]]


@pytest.fixture
def note(still_app: App) -> Task[..., Any]:
    """A task of the app."""

    @still_app.task(name="note", queue="mail")
    def note(n: int = 0) -> int:
        return n

    return note


@pytest.fixture
async def work(still_app: App) -> Work:
    """Register a live worker, with room for two; its id."""

    async def work(
        worker: str = "w-1",
        *,
        tasks: tuple[str, ...] = ("note",),
        queues: tuple[str, ...] | None = None,
    ) -> str:
        info = WorkerInfo(
            id=worker,
            host="here",
            pid=1,
            version="1",
            rowlock="1",
            tasks=tasks,
            queues=queues,
            concurrency=2,
            lease=LEASE,
        )
        await still_app._store.register(info, ())
        return worker

    return work


async def start(app: App, worker: str = "w-1", *, suspects: bool = False) -> None:
    """Claim all that is due, up to ten jobs."""
    demand = Demand(total=10, tasks=frozenset({"note"}), suspects=suspects)
    await app._store.claim(demand, worker=worker, lease=LEASE, alone=suspects)


async def end(app: App, job_id: int, status: Status, **how: Any) -> None:  # noqa: ANN401 - any field of an outcome
    """End the claim of a job."""
    held = await app._store.lost(10, worker="w-1")
    (key,) = [claim.key for claim in held if claim.job_id == job_id]
    (settled,) = await app._store.finish([Outcome(key=key, status=status, **how)])
    assert settled.accepted


async def said(app: App, job_id: int | None) -> tuple[str, str]:
    why = await app.why(known(job_id))
    assert why.job_id == job_id
    assert str(why) == why.sentence
    job, told = why.sentence.split(" ", 2)[:2], why.sentence.split(" ", 2)[2]
    assert job == ["Job", str(job_id)]
    return why.reason, told


async def test_a_job_is_due_later(still_app: App, note: Task[..., Any]) -> None:
    job_id = await note.options(delay=40).enqueue()

    assert await said(still_app, job_id) == ("scheduled", "is due in 40 s.")


async def test_a_retry_is_due_later_after_failures(
    still_app: App, note: Task[..., Any], work: Work
) -> None:
    job_id = await note.enqueue()
    await work()
    await start(still_app)
    error = {"type": "ValueError", "message": "no", "traceback": None}
    delay = timedelta(seconds=40)
    await end(still_app, job_id, Status.PENDING, failed=True, error=error, delay=delay)

    assert await said(still_app, job_id) == (
        "scheduled",
        "is due in 40 s, for attempt 2 after 1 of 3 failures.",
    )


@pytest.mark.parametrize(
    ("what", "kind", "name"),
    [({"queue": "mail"}, "queue", "mail"), ({"task": "note"}, "task", "note")],
)
async def test_its_queue_or_task_is_paused(
    still_app: App,
    note: Task[..., Any],
    work: Work,
    clock: FakeClock,
    what: dict[str, str],
    kind: str,
    name: str,
) -> None:
    await work()
    job_id = await note.enqueue()
    later = await note.options(delay=500).enqueue()
    await still_app.pause(**what, reason="no mail", by="ada")  # type: ignore[arg-type]  # one of the two
    clock.advance(30)
    await work()

    for each in (job_id, later):
        assert await said(still_app, each) == (
            "paused",
            (
                f"waits: its {kind} {name!r} is paused since 30 s ago by ada (no mail),"
                f" until `rowlock {kind}s resume {name}`."
            ),
        )

    await still_app.pause(**what, for_=100)
    reason, told = await said(still_app, job_id)
    assert reason == "paused"
    assert "for another 100 s, or until `rowlock" in told
    assert (await said(still_app, later))[0] == "scheduled"


async def test_no_live_worker_has_its_task(
    still_app: App, note: Task[..., Any], work: Work, clock: FakeClock
) -> None:
    await work(tasks=("other",))
    job_id = await note.enqueue()
    known_task = TaskInfo(name="note", queue="mail", defaults={})
    await still_app._store.register(None, [known_task])
    clock.advance(7200)

    reason, told = await said(still_app, job_id)

    assert reason == "unserved"
    assert told == (
        "has been due for 2 h, and no live worker has task 'note' (last seen 2 h ago)."
    )


async def test_no_worker_that_has_its_task_serves_its_queue(
    still_app: App, note: Task[..., Any], work: Work
) -> None:
    await work(queues=("default",))
    await work("w-2", tasks=("other",))
    job_id = await note.enqueue()

    assert await said(still_app, job_id) == (
        "unserved",
        (
            "has been due for 0 ms, and no live worker that has task 'note' serves the"
            " queue 'mail'."
        ),
    )


async def test_it_is_behind_others(
    still_app: App, note: Task[..., Any], work: Work
) -> None:
    await work()
    for _ in range(60):
        await note.enqueue()
    await start(still_app)
    held = await still_app._store.lost(99, worker="w-1")
    await still_app._store.finish(
        [Outcome(key=claim.key, status=Status.SUCCEEDED) for claim in held[:6]]
    )
    await note.options(priority=5).enqueue()
    await note.options(priority=-5).enqueue()
    await note.options(priority=5, delay=60).enqueue()
    await note.options(priority=5, queue="other").enqueue()
    stranger = still_app.task(name="stranger", queue="mail")(lambda: None)
    await stranger.options(priority=5).enqueue()
    job_id = await note.enqueue()

    assert await said(still_app, job_id) == (
        "behind",
        (
            "has been due for 0 ms, behind 51 jobs (1 of better priority) of its queue,"
            " of which 0.1 a second ended in the last minute."
        ),
    )


async def test_it_is_the_next_but_all_workers_are_full(
    still_app: App, note: Task[..., Any], work: Work
) -> None:
    await work()
    for _ in range(2):
        await note.enqueue()
    await start(still_app)
    job_id = await note.enqueue()

    assert await said(still_app, job_id) == (
        "busy",
        (
            "has been due for 0 ms, and is the next, but the one worker that could run"
            " it is full (2 of 2 run)."
        ),
    )


async def test_it_is_the_next_and_a_worker_has_room(
    still_app: App, note: Task[..., Any], work: Work
) -> None:
    await work()
    job_id = await note.enqueue()

    reason, told = await said(still_app, job_id)

    assert reason == "due"
    assert told.startswith("has been due for 0 ms and the next, and a worker has room")


async def test_it_is_suspect(still_app: App, note: Task[..., Any], work: Work) -> None:
    await work()
    job_id = await note.enqueue()
    await start(still_app)
    await end(still_app, known(job_id), Status.PENDING, lost=True)
    for _ in range(3):
        await note.enqueue()

    reason, told = await said(still_app, job_id)

    assert reason == "suspect"
    assert told == (
        "has been due for 0 ms, and is suspect, since its worker was lost: it runs"
        " alone next, and waits until a worker holds nothing else."
    )


async def test_it_runs(
    still_app: App, note: Task[..., Any], work: Work, clock: FakeClock
) -> None:
    await work()
    job_id = await note.enqueue()
    await start(still_app)
    clock.advance(40)

    runs = "runs for 40 s on worker w-1, in attempt 1"
    assert await said(still_app, job_id) == ("running", f"{runs}.")

    await still_app.cancel(known(job_id))
    asked = f"{runs}, and is asked to stop."
    assert await said(still_app, job_id) == ("running", asked)

    clock.advance(30)
    assert await said(still_app, job_id) == (
        "lost",
        (
            "runs for 70 s on worker w-1, in attempt 1, whose lease ended 10 s ago:"
            " it is recovered when a worker is started."
        ),
    )


async def test_it_has_expired(
    still_app: App, note: Task[..., Any], clock: FakeClock
) -> None:
    soon = clock.now() + timedelta(seconds=10)
    job_id = await note.options(expires_at=soon).enqueue()
    clock.advance(30)

    assert await said(still_app, job_id) == (
        "expired",
        "never starts: it expired 20 s ago, and will be cancelled.",
    )


async def test_it_is_over(
    still_app: App, note: Task[..., Any], work: Work, clock: FakeClock
) -> None:
    await work()
    done = await note.enqueue()
    await start(still_app)
    await end(still_app, done, Status.SUCCEEDED)
    dead = await note.enqueue()
    await start(still_app)
    error = {"type": "ValueError", "message": "no", "traceback": None}
    await end(still_app, dead, Status.FAILED, failed=True, error=error)
    cancelled = await note.enqueue()
    await still_app.cancel(cancelled)
    clock.advance(7200)

    assert await said(still_app, done) == (
        "succeeded",
        "succeeded 2 h ago, in attempt 1.",
    )
    assert await said(still_app, dead) == (
        "failed",
        (
            f"became a dead letter 2 h ago, of ValueError: no; `rowlock jobs replay"
            f" {dead}` runs it again."
        ),
    )
    assert await said(still_app, cancelled) == (
        "cancelled",
        f"was cancelled 2 h ago; `rowlock jobs replay {cancelled}` runs it again.",
    )


async def test_its_key_is_held_by_another(still_app: App, note: Task[..., Any]) -> None:
    keyed = note.options(idempotency_key="order:7")
    old = await keyed.enqueue()
    await still_app.cancel(known(old))
    holder = await keyed.enqueue()

    assert await said(still_app, old) == (
        "blocked",
        (
            "was cancelled now, and can't be replayed while its key 'order:7' is held"
            f" by job {holder}."
        ),
    )


async def test_it_expires_before_it_could_start(
    still_app: App, note: Task[..., Any], work: Work, clock: FakeClock
) -> None:
    await work()
    soon = clock.now() + timedelta(seconds=30)
    late = await note.options(delay=3600, expires_at=soon).enqueue()
    due = await note.options(expires_at=soon).enqueue()
    await still_app.pause(queue="mail", for_=60, by="ada")

    assert await said(still_app, late) == (
        "expired",
        (
            "never starts: it expires in 30 s, and its queue 'mail' is paused since now"
            " by ada, for another 60 s, or until `rowlock queues resume mail`."
        ),
    )
    assert (await said(still_app, due))[0] == "expired"
    await still_app.resume(queue="mail")
    assert await said(still_app, late) == (
        "expired",
        "never starts: it expires in 30 s, and it is due later.",
    )
    assert (await said(still_app, due))[0] == "due"


@pytest.mark.parametrize("longer", ["queue", "task"])
async def test_of_two_pauses_the_one_that_lasts_is_named(
    still_app: App, note: Task[..., Any], longer: str
) -> None:
    job_id = await note.enqueue()
    await still_app.pause(queue="mail", for_=None if longer == "queue" else 60)
    await still_app.pause(task="note", for_=None if longer == "task" else 60)

    reason, told = await said(still_app, job_id)

    assert reason == "paused"
    assert f"its {longer} " in told
    assert "for another" not in told


async def test_others_that_its_worker_doesnt_have_are_not_before_it(
    still_app: App, note: Task[..., Any], work: Work
) -> None:
    await work()
    await work("w-2", tasks=("other",))
    other = still_app.task(name="other", queue="mail")(lambda: None)
    for _ in range(2):
        await note.enqueue()
    await start(still_app)
    for _ in range(4):
        await other.options(priority=9).enqueue()
    job_id = await note.enqueue()

    assert (await said(still_app, job_id))[0] == "busy"
