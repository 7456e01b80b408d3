"""A call that nobody awaits: told at once, and no hindrance where it is awaited."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rowlock import App, Attempt, PayloadError, UsageError, current_attempt
from rowlock.testing import drain_sync


@pytest.fixture
def app() -> App:
    """An app in memory."""
    app = App("sqlite://")

    @app.task
    def note(number: int = 0) -> None: ...

    return app


def dropped(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    gc.collect()
    return [record for record in caplog.records if "without await" in record.msg]


def test_a_dropped_enqueue_is_an_error_that_says_what_to_write(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    app.tasks["note"].enqueue(number=17)  # type: ignore[unused-coroutine]  # the trap
    line = sys._getframe().f_lineno - 1

    (record,) = dropped(caplog)
    assert (record.name, record.levelno) == ("rowlock", logging.ERROR)
    assert record.getMessage() == (
        f"note.enqueue(...) was called without await at {__file__}:{line}: nothing was"
        " done. Write `await note.enqueue(...)`, or note.enqueue_sync(...) in"
        " synchronous code."
    )
    assert not app.list_sync().jobs


def test_so_is_one_with_options_and_one_of_many(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    app.tasks["note"].options(delay=1).enqueue()  # type: ignore[unused-coroutine]
    app.enqueue_many([app.tasks["note"].job()])  # type: ignore[unused-coroutine]

    told = [record.getMessage() for record in dropped(caplog)]
    assert told[0].startswith("note.enqueue(...) was called without await")
    assert "app.enqueue_many_sync(...) in synchronous code" in told[1]


ASKED: dict[str, Callable[[App], Coroutine[Any, Any, object]]] = {
    "get": lambda app: app.get(17),
    "list": lambda app: app.list(),
    "find": lambda app: app.find("note", "K"),
    "wait": lambda app: app.wait(17, 1),
    "why": lambda app: app.why(17),
    "dead": lambda app: app.dead(),
    "stats": lambda app: app.stats(),
    "doctor": lambda app: app.doctor(),
    "cancel": lambda app: app.cancel(17),
    "replay": lambda app: app.replay(17),
    "move": lambda app: app.move(17, priority=1),
    "delete": lambda app: app.delete(17),
    "preview": lambda app: app.preview("cancel", 17),
    "pause": lambda app: app.pause(queue="mail"),
    "resume": lambda app: app.resume(queue="mail"),
    "open": lambda app: app.open(),
    "close": lambda app: app.close(),
    "enqueue_many": lambda app: app.enqueue_many([]),
    "once": lambda app: app.once("order 17", connection=None),
}


def test_every_call_of_an_app_is_named_here() -> None:
    twins = {name for name in dir(App) if name.endswith("_sync")}

    assert {name for name in twins if name[0] != "_"} == {f"{n}_sync" for n in ASKED}


@pytest.mark.parametrize("name", ASKED)
def test_so_is_every_call_of_an_app(
    app: App, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    call = ASKED[name](app)
    assert inspect.iscoroutinefunction(getattr(App, name)) or sys.version_info < (3, 12)
    assert asyncio.iscoroutinefunction(getattr(app, name))
    del call

    (record,) = dropped(caplog)
    assert record.getMessage().startswith(f"app.{name}(...) was called without await")
    assert __file__ in record.getMessage()


def test_a_call_that_nobody_awaits_is_neither_true_nor_false(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """Or each delivery of a webhook would be the first one."""
    with pytest.raises(UsageError, match=r"Write `await app\.once\(\.\.\.\)`"):
        assert app.once("order 17", connection=object())  # type: ignore[truthy-bool]  # the trap

    assert not dropped(caplog)


SAID: dict[str, Callable[[Attempt], Coroutine[Any, Any, object]]] = {
    "checkpoint": lambda attempt: attempt.checkpoint(1),
    "hold": lambda attempt: attempt.hold(connection=None),
    "complete": lambda attempt: attempt.complete(connection=None),
}


def test_every_call_of_an_attempt_is_named_here() -> None:
    twins = {name for name in dir(Attempt) if name.endswith("_sync")}

    assert twins == {f"{name}_sync" for name in SAID}


@pytest.mark.parametrize("name", SAID)
def test_so_is_every_call_of_an_attempt(
    app: App, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    @app.task
    async def copy() -> None:
        SAID[name](current_attempt())  # type: ignore[unused-coroutine]  # the trap

    copy.enqueue_sync()
    drain_sync(app)

    (record,) = dropped(caplog)
    assert f"attempt.{name}_sync(...) in synchronous code" in record.getMessage()


AWAITED: dict[str, Callable[[Coroutine[Any, Any, object]], Coroutine[Any, Any, Any]]]


async def _await(call: Coroutine[Any, Any, object]) -> object:
    return await call


async def _create_task(call: Coroutine[Any, Any, object]) -> object:
    return await asyncio.create_task(call, name="enqueueing")


async def _gather(call: Coroutine[Any, Any, object]) -> object:
    return (await asyncio.gather(call))[0]


async def _wait_for(call: Coroutine[Any, Any, object]) -> object:
    return await asyncio.wait_for(call, 10)


async def _task_group(call: Coroutine[Any, Any, object]) -> object:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(call)
    return task.result()


async def _shield(call: Coroutine[Any, Any, object]) -> object:
    return await asyncio.shield(call)


async def _threadsafe(call: Coroutine[Any, Any, object]) -> object:
    loop = asyncio.get_running_loop()
    future = asyncio.run_coroutine_threadsafe(call, loop)
    return await asyncio.wrap_future(future)


AWAITED = {
    function.__name__: function
    for function in (
        _await,
        _create_task,
        _gather,
        _wait_for,
        _task_group,
        _shield,
        _threadsafe,
    )
}


@pytest.mark.parametrize("how", AWAITED)
async def test_it_is_awaited_like_any_coroutine(
    app: App, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await AWAITED[how](app.tasks["note"].enqueue(number=1)) == 1
    assert await AWAITED[how](app.enqueue_many([app.tasks["note"].job()])) == [2]

    assert not dropped(caplog)


def test_asyncio_runs_it(app: App) -> None:
    assert asyncio.run(app.tasks["note"].enqueue()) == 1


async def test_frameworks_take_it_for_a_coroutine_function(app: App) -> None:
    call = app.tasks["note"].enqueue()

    assert asyncio.iscoroutine(call)
    assert inspect.isawaitable(call)
    note = app.tasks["note"]
    assert asyncio.iscoroutinefunction(note.enqueue)
    assert asyncio.iscoroutinefunction(note.options(idempotency_key="K").enqueue)
    assert asyncio.iscoroutinefunction(app.enqueue_many)
    assert repr(call).startswith("<call of note.enqueue at ")
    assert await call == 1


async def test_a_task_shows_what_it_does(app: App) -> None:
    task = asyncio.create_task(app.tasks["note"].enqueue())

    assert "note.enqueue" in repr(task)
    await task


async def test_one_that_a_task_has_begun_is_true_to_whoever_looks_at_tasks(
    app: App,
) -> None:
    call = app.tasks["note"].enqueue()
    task = asyncio.create_task(call)
    await asyncio.sleep(0)  # a step of it

    assert bool(call)
    assert await task == 1


async def test_one_that_was_cancelled_before_it_began_was_not_dropped(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    task = asyncio.create_task(app.tasks["note"].enqueue())
    task.cancel()
    await asyncio.wait({task})

    closed = app.tasks["note"].enqueue()
    closed.close()
    del closed, task

    assert not dropped(caplog)
    assert not (await app.list()).jobs


async def test_a_refusal_comes_where_it_is_awaited(app: App) -> None:
    call = app.tasks["note"].enqueue(number="x")

    with pytest.raises(PayloadError, match="number"):
        await call
