"""The synchronous door: from threads, beside a close, around a fork, not on a loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rowlock import (
    App,
    Attempt,
    Filter,
    KeyedTask,
    Status,
    StoreUnavailable,
    Task,
    UsageError,
    Worker,
)
from rowlock.testing import FakeClock

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def door(database_url: str) -> Iterator[App]:
    """An app with one task, used without an event loop."""
    app = App(database_url)

    @app.task
    def note(number: int = 0) -> None: ...

    yield app
    app.close_sync()


def note_of(app: App) -> Task[..., None]:
    return app.tasks["note"]


TWINS: dict[str, Callable[[App], object]] = {
    "note.enqueue": lambda app: note_of(app).enqueue_sync(),
    "app.enqueue_many": lambda app: app.enqueue_many_sync([note_of(app).job()]),
    "app.get": lambda app: app.get_sync(1),
    "app.list": lambda app: app.list_sync(),
    "app.cancel": lambda app: app.cancel_sync(1),
    "app.replay": lambda app: app.replay_sync(1),
    "app.move": lambda app: app.move_sync(1, priority=1),
    "app.delete": lambda app: app.delete_sync(1),
    "app.pause": lambda app: app.pause_sync(queue="mail"),
    "app.resume": lambda app: app.resume_sync(queue="mail"),
    "app.find": lambda app: app.find_sync("note", "key"),
    "app.wait": lambda app: app.wait_sync(1, timeout=1),
    "app.stats": lambda app: app.stats_sync(),
    "app.why": lambda app: app.why_sync(1),
    "app.dead": lambda app: app.dead_sync(),
    "app.doctor": lambda app: app.doctor_sync(),
    "app.preview": lambda app: app.preview_sync("cancel", 1),
    "app.open": lambda app: app.open_sync(),
    "app.close": lambda app: app.close_sync(),
}


# Their caller blocks in its own driver anyhow (decision 4); an async connection is
# refused with the name of what to await, as `tests/lent` proves.
LENT = {"once_sync"}
# Whose handler runs in a thread; see `test_attempt`.
OF_ATTEMPTS = {"checkpoint_sync", "hold_sync", "complete_sync"}
# A worker is a process, or runs beside a loop that is there.
HAS_NO_TWIN = {("Worker", "run")}

# All that a user awaits the methods of.
KINDS = (App, Task, KeyedTask, Attempt, Worker)


def awaited_methods() -> list[tuple[type, str]]:
    """Every public method that is awaited, of every kind."""
    return [
        (kind, name)
        for kind in KINDS
        for name, method in inspect.getmembers(kind, callable)
        if not name.startswith("_")
        and inspect.iscoroutinefunction(inspect.unwrap(method))
        and (kind.__name__, name) not in HAS_NO_TWIN
    ]


def test_every_twin_is_named_here() -> None:
    twins = {name for kind in KINDS for name in dir(kind) if name.endswith("_sync")}
    public = {name for name in twins if not name.startswith("_")}

    refusing = {f"{name.partition('.')[2]}_sync" for name in TWINS}
    assert public == refusing | LENT | OF_ATTEMPTS
    assert public == {f"{name}_sync" for _, name in awaited_methods()}


@pytest.mark.parametrize(
    ("kind", "name"),
    awaited_methods(),
    ids=lambda it: it if isinstance(it, str) else it.__name__,
)
def test_a_twin_takes_and_gives_what_is_awaited(kind: type, name: str) -> None:
    method, twin = getattr(kind, name), getattr(kind, f"{name}_sync")

    assert inspect.signature(twin) == inspect.signature(inspect.unwrap(method))
    assert not inspect.iscoroutinefunction(twin)


# Each is called through both doors, one after the other.
CALLS: list[tuple[str, Mapping[str, Any]]] = [
    ("open", {}),
    ("get", {"job_id": 1}),
    ("list", {}),
    ("find", {"task": "note", "idempotency_key": "k"}),
    ("why", {"job_id": 1}),
    ("preview", {"verb": "cancel", "where": 1}),
    ("move", {"where": 1, "priority": 5}),
    ("pause", {"queue": "mail", "for_": 60, "by": "ada"}),
    ("stats", {}),
    ("resume", {"queue": "mail"}),
    ("cancel", {"where": [1, 2]}),
    ("wait", {"job_id": 1, "timeout": 1}),
    ("replay", {"where": 2}),
    ("delete", {"where": [1, 2, 9]}),
    ("dead", {}),
    ("list", {}),
    ("doctor", {}),
    ("close", {}),
]


def test_a_twin_answers_as_what_is_awaited() -> None:
    def make() -> tuple[App, Task[..., None]]:
        app = App("sqlite://", clock=FakeClock())

        @app.task
        def note(number: int = 0) -> None: ...

        return app, note

    async def through_the_one() -> list[object]:
        app, note = make()
        keyed = note.options(idempotency_key="k")
        ids = [
            await note.enqueue(number=1),
            await keyed.enqueue(),
            await keyed.enqueue(),
        ]
        ids += await app.enqueue_many([note.job(number=3), keyed.job()])
        return [ids, *[await getattr(app, name)(**said) for name, said in CALLS]]

    def through_the_other() -> list[object]:
        app, note = make()
        keyed = note.options(idempotency_key="k")
        ids = [note.enqueue_sync(number=1), keyed.enqueue_sync(), keyed.enqueue_sync()]
        ids += app.enqueue_many_sync([note.job(number=3), keyed.job()])
        return [ids, *[getattr(app, f"{name}_sync")(**said) for name, said in CALLS]]

    assert through_the_other() == asyncio.run(through_the_one())
    verbs = {name for kind, name in awaited_methods() if kind is App}
    assert verbs - {"enqueue_many", "once"} == {name for name, _ in CALLS}


@pytest.mark.parametrize("name", TWINS)
async def test_a_twin_refuses_to_block_a_running_loop(app: App, name: str) -> None:
    @app.task
    def note() -> None: ...

    expected = f"{name}_sync() would block the event loop that runs in this thread"
    with pytest.raises(UsageError) as refused:
        TWINS[name](app)

    assert str(refused.value) == f"{expected}: write `await {name}(...)`."
    assert not (await app.list()).jobs


def test_twins_do_what_they_are_named_after(door: App) -> None:
    note = note_of(door)

    first = note.enqueue_sync(number=1)
    ids = door.enqueue_many_sync(note.job(number=n) for n in (2, 3))
    (cancelled,) = door.cancel_sync(first or 0)
    (replayed,) = door.replay_sync(first or 0)

    assert [first, *ids] == [1, 2, 3]
    assert (cancelled.done, replayed.done) == (True, True)
    assert door.get_sync(1).payload == {"number": 1}
    assert [job.id for job in door.list_sync(Filter(task="note")).jobs] == [3, 2, 1]
    (queue,) = door.stats_sync().queues
    assert queue.counts[Status.PENDING] == 3


def test_many_threads_enqueue_at_once(door: App) -> None:
    note = note_of(door)

    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(lambda n: note.enqueue_sync(number=n), range(200)))

    assert len(set(ids)) == 200
    stored = {job.id: job.payload["number"] for job in door.list_sync(limit=1000).jobs}
    assert stored == dict(zip(ids, range(200), strict=True))


def test_a_close_beside_other_calls_leaves_nobody_waiting(door: App) -> None:
    note = note_of(door)
    is_over = threading.Event()
    enqueued = []

    def enqueue_until_over() -> None:
        while not is_over.is_set():
            try:
                enqueued.append(note.enqueue_sync())
            except StoreUnavailable:
                continue

    threads = [
        threading.Thread(target=enqueue_until_over, daemon=True) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for _ in range(50):
        door.close_sync()
    is_over.set()
    for thread in threads:
        thread.join(10)

    assert not [thread for thread in threads if thread.is_alive()]
    counted = sum(queue.counts[Status.PENDING] for queue in door.stats_sync().queues)
    assert counted == len(enqueued) == len(set(enqueued)) > 0


def test_a_call_for_which_there_was_no_thread_leaves_the_next_one_alone(
    door: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", no_thread)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="no thread to be had"):
                note_of(door).enqueue_sync()

    assert note_of(door).enqueue_sync() == 1


def no_thread(_thread: threading.Thread) -> None:
    """Fail as Python does where the machine has no thread left."""
    msg = "can't start new thread"
    raise RuntimeError(msg)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_an_app_works_on_both_sides_of_a_fork(door: App, database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.forks", database_url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    who = [job.payload["who"] for job in door.list_sync().jobs]
    assert sorted(map(str, who)) == ["child", "parent, after", "parent, before"]
