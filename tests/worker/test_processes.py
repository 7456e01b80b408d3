"""`executor="process"`: real children, and what they do to their worker."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from rowlock import App, Status, Task
from rowlock._worker.children import Children, Drive
from rowlock._worker.process import LONGEST_GOODBYE_S, Process
from rowlock.events import Event, SignalSwallowed
from rowlock.testing import drain, isolated
from tests.endings import ended, finished, reached
from tests.eventually import eventually

from . import apart

Told = tuple[int, int]


@pytest.fixture
async def app(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    # Where the app in the child finds its database.
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", database_url)
    async with isolated(apart.app, database_url) as app:
        yield app


@pytest.fixture
def told_pids(tmp_path: Path) -> Callable[[], Awaitable[Told]]:
    """Wait until a handler has told its process's id and another."""

    async def pids() -> Told:
        file = tmp_path / "pids"
        await eventually(file.exists, within=30)
        one, two = map(int, file.read_text().split())
        return one, two

    return pids


def is_gone(*pids: int) -> bool:
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except FileNotFoundError:
            continue
        # A grandchild's body is its grave-digger's affair, if there is one here.
        if state != "Z":
            return False
    return True


async def test_plain_and_async_handlers_run_in_a_child_that_is_kept(app: App) -> None:
    async with app.worker(concurrency=1):
        plain = await ended(app, await apart.pid.enqueue())
        again = await ended(app, await apart.async_pid.enqueue())

    assert plain.status is again.status is Status.SUCCEEDED
    assert plain.result == again.result != os.getpid()
    assert is_gone(int(str(plain.result)))


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("kill", "ChildDied: the child process was ended by SIGKILL"),
        ("exit", "ChildDied: the child process ended with exit code 3 while"),
        ("segfault", "ChildDied: the child process was ended by SIGSEGV"),
        ("raise", "tests.worker.apart.Stubborn: 1 and 2"),
        ("exit politely", "SystemExit: 4"),
    ],
)
async def test_a_crash_is_a_failure_that_says_how(
    app: App, how: str, error: str
) -> None:
    async with app.worker(concurrency=1):
        job = await ended(app, await apart.end.enqueue(how))
        await ended(app, await apart.pid.enqueue())

    assert (job.status, job.failures, job.losses) == (Status.FAILED, 1, 0)
    assert str(job.last_error).startswith(error)


async def test_a_crash_harms_none_of_its_neighbours(app: App, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with app.worker(concurrency=4):
        neighbours = [await apart.wait_for.enqueue(str(gate)) for _ in range(3)]
        for job_id in neighbours:
            await reached(app, job_id, Status.RUNNING)
        crashed = await ended(app, await apart.end.enqueue("kill"))
        gate.touch()
        jobs = await finished(app, neighbours)

    assert crashed.status is Status.FAILED
    assert [(job.status, job.result) for job in jobs] == [(Status.SUCCEEDED, 1)] * 3


async def test_what_ignores_its_timeout_is_killed_with_all_it_started(
    app: App, tmp_path: Path, told_pids: Callable[[], Awaitable[Told]]
) -> None:
    async with app.worker(concurrency=1, lease=1):
        task = apart.tell_and_hang.options(timeout=1)
        job_id = await task.enqueue(str(tmp_path / "pids"))
        pids = await told_pids()
        job = await ended(app, job_id)
        await eventually(lambda: is_gone(*pids))

    assert (job.status, job.failures, job.losses) == (Status.FAILED, 1, 0)
    assert str(job.last_error).startswith("TimeoutError")


async def test_a_stopped_child_is_killed_at_its_timeout(
    app: App, tmp_path: Path, told_pids: Callable[[], Awaitable[Told]]
) -> None:
    async with app.worker(concurrency=1, lease=1):
        task = apart.tell_and_hang.options(timeout=2)
        job_id = await task.enqueue(str(tmp_path / "pids"))
        pid, _ = await told_pids()
        os.kill(pid, signal.SIGSTOP)
        job = await ended(app, job_id)

    assert str(job.last_error).startswith("TimeoutError")
    assert is_gone(pid)


@pytest.mark.parametrize("task", [apart.complete, apart.hold])
async def test_what_joins_a_transaction_says_that_a_child_has_none(
    app: App, task: Task[..., None]
) -> None:
    async with app.worker():
        job = await ended(app, await task.enqueue())

    assert job.last_error is not None
    assert f"{task.name}() doesn't work in a child process" in job.last_error


@pytest.mark.parametrize("task", [apart.tell_and_sleep, apart.async_tell_and_sleep])
async def test_a_cancel_ends_a_handler_where_it_is(
    app: App,
    tmp_path: Path,
    told_pids: Callable[[], Awaitable[Told]],
    task: Task[[str], None],
) -> None:
    async with app.worker(concurrency=1, lease=1):
        job_id = await task.enqueue(str(tmp_path / "pids"))
        await told_pids()
        await app.cancel(job_id)
        job = await ended(app, job_id)

    assert (job.status, job.failures) == (Status.CANCELLED, 0)
    assert (tmp_path / "pids.reason").read_text() == "cancel"


@pytest.mark.parametrize("task", [apart.tell_and_sleep, apart.tell_and_hang])
async def test_a_shutdown_releases_what_runs_and_leaves_no_process(
    app: App,
    tmp_path: Path,
    told_pids: Callable[[], Awaitable[Told]],
    task: Task[[str], None],
) -> None:
    async with app.worker(concurrency=1, shutdown_timeout=2):
        job_id = await task.enqueue(str(tmp_path / "pids"))
        pids = await told_pids()

    job = await app.get(job_id)
    assert (job.status, job.failures, job.losses) == (Status.PENDING, 0, 0)
    await eventually(lambda: is_gone(*pids))


async def test_no_handler_starts_once_its_worker_has_ended(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Process] = []
    gate = threading.Event()
    take = Children._take

    def take_late(children: Children, drive: Drive) -> Process:
        taken.append(take(children, drive))
        gate.wait(30)
        return taken[0]

    monkeypatch.setattr(Children, "_take", take_late)
    async with app.worker(concurrency=1, shutdown_timeout=0.1):
        await apart.touch.enqueue(str(tmp_path / "touched"))
        await eventually(lambda: bool(taken))
    gate.set()

    await eventually(lambda: is_gone(taken[0].pid))
    assert not (tmp_path / "touched").exists()


async def test_what_eats_memory_dies_alone(app: App) -> None:
    async with app.worker(concurrency=2):
        eater = await apart.eat.enqueue(400, 30)
        other = await apart.pid.enqueue()
        job = await ended(app, eater)
        assert (await ended(app, other)).status is Status.SUCCEEDED

    assert job.status is Status.FAILED
    assert str(job.last_error).startswith("MemoryError: the child process held")
    assert "max_memory_mb of 300" in str(job.last_error)


async def test_a_child_is_replaced_after_so_many_jobs(app: App) -> None:
    async with app.worker(concurrency=1):
        ids = [await apart.pid_of_two.enqueue() for _ in range(4)]
        jobs = await finished(app, ids)

    assert len({job.result for job in jobs}) == 2


async def test_an_attempt_says_and_asks_everything_over_the_pipe(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    text = "x" * 900_000
    async with app.worker(concurrency=2):
        job = await ended(app, await apart.tell_all.enqueue(text))
        await eventually(lambda: _is_over(app))

    assert (job.status, job.attempts, job.result) == (Status.SUCCEEDED, 2, text)
    assert job.progress == {"fraction": 0.5, "note": "half"}
    (record,) = [r for r in caplog.records if r.name == "shop"]
    told = {name: vars(record)[name] for name in ("job_id", "task", "attempt")}
    assert record.getMessage() == "saved 900000"
    assert told == {"job_id": job.id, "task": "tell_all", "attempt": 1}


async def test_what_a_record_carries_harms_no_job_though_nobody_can_read_it(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with app.worker(concurrency=1):
        job = await ended(app, await apart.log_much.enqueue())

    assert job.status is Status.SUCCEEDED, job.last_error
    (record,) = [r for r in caplog.records if r.name == "shop"]
    told = {name: vars(record)[name] for name in ("error", "more", "errors")}
    assert told == {
        "error": "Unreadable('1 and 2')",
        "more": {"one": [1, "a"], "is_it": True},
        "errors": ["Unreadable('3 and 4')"],
    }


async def _is_over(app: App) -> bool:
    jobs = (await app.list(limit=10)).jobs
    # One that was spawned, and one that was enqueued in the child by each attempt that
    # came so far.
    return [j.task for j in jobs if j.status is Status.SUCCEEDED].count("pid") == 2


async def test_what_surrounds_an_attempt_does_so_in_the_child(app: App) -> None:
    async with app.worker(concurrency=1):
        plain = await ended(app, await apart.what_is_seen.enqueue())
        made = await ended(app, await apart.what_is_seen_async.enqueue())
        pid = (await ended(app, await apart.pid.enqueue())).result

    assert plain.result == f"what_is_seen in {pid}"
    assert made.result == f"what_is_seen_async in {pid}"


async def test_signals_steer_from_a_child(app: App, told: list[Event]) -> None:
    async with app.worker(concurrency=1):
        ids = [
            await apart.steer.enqueue(how)
            for how in ("snooze", "unrecoverable", "dead_on", "swallow")
        ]
        jobs = await finished(app, ids)

    assert [(job.status, job.attempts) for job in jobs] == [
        (Status.SUCCEEDED, 2),
        (Status.FAILED, 1),
        (Status.FAILED, 1),
        (Status.SUCCEEDED, 1),
    ]
    assert [e.job_id for e in told if isinstance(e, SignalSwallowed)] == [ids[3]]


async def test_children_that_dont_end_by_themselves_are_waited_for_together(
    app: App, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    async with app.worker(concurrency=4):
        ids = [await apart.linger.enqueue(str(gate)) for _ in range(4)]
        for job_id in ids:
            await reached(app, job_id, Status.RUNNING)
        gate.touch()
        await finished(app, ids)
        began = time.monotonic()

    # One after the other they would take four times as long.
    assert time.monotonic() - began < 3 * LONGEST_GOODBYE_S


async def test_children_die_with_a_worker_that_is_killed(
    database_url: str, tmp_path: Path, told_pids: Callable[[], Awaitable[Told]]
) -> None:
    # As a script: its tasks stand in `__main__`, which a child knows by another name.
    worker = subprocess.Popen(  # noqa: ASYNC220 - it starts in no time
        [sys.executable, "-m", "tests.programs.apart", str(tmp_path / "pids")],
        cwd=Path(__file__).parent.parent.parent,
        env={**os.environ, "ROWLOCK_DATABASE_URL": database_url},
        process_group=0,
    )
    try:
        pids = await told_pids()
    finally:
        worker.kill()
        worker.wait()

    await eventually(lambda: is_gone(*pids))
    await eventually(lambda: not _orphans(worker.pid), what="the fork server has ended")


def _orphans(pid: int) -> list[str]:
    """Find processes of a group whose leader has died."""
    told = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(") ")[2].split()
            if int(fields[2]) == pid and fields[0] != "Z":
                told.append(stat.parent.name)
    return told


async def test_a_child_that_kept_much_is_replaced(app: App) -> None:
    async with app.worker(concurrency=1):
        small = [(await ended(app, await apart.eat.enqueue(1))).result for _ in "12"]
        await ended(app, await apart.keep.enqueue(200))
        after = (await ended(app, await apart.eat.enqueue(1))).result

    assert small[0] == small[1] != after


async def test_a_handler_may_start_processes_itself(app: App) -> None:
    async with app.worker(concurrency=1):
        job = await ended(app, await apart.multiply.enqueue())

    assert (job.status, job.result) == (Status.SUCCEEDED, 0)


async def test_a_sigterm_that_is_meant_for_the_worker_ends_no_handler(app: App) -> None:
    async with app.worker(concurrency=1):
        job = await ended(app, await apart.stop_fork_server.enqueue())
        after = await ended(app, await apart.pid.enqueue())

    assert (job.status, job.result, job.attempts) == (
        Status.SUCCEEDED,
        "unharmed",
        1,
    )
    assert (after.status, after.attempts) == (Status.SUCCEEDED, 1)


async def test_in_a_drain_it_runs_in_the_tests_own_process(app: App) -> None:
    job_id = await apart.pid.enqueue()
    await drain(app)

    assert (await app.get(job_id)).result == os.getpid()


async def test_b75_the_start_of_a_child_is_no_time_of_the_handlers(
    app: App, tmp_path: Path
) -> None:
    # A start takes longer: it imports the app. One child is warm, the others aren't.
    task = apart.touch.options(timeout=0.15)
    async with app.worker(concurrency=4):
        ids = [await task.enqueue(str(tmp_path / str(n))) for n in range(4)]
        jobs = [await ended(app, job_id) for job_id in ids]

    assert {(job.status, job.attempts) for job in jobs} == {(Status.SUCCEEDED, 1)}
