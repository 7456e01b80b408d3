"""Handlers that raise what isn't meant to be caught, told or stored."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from rowlock import App, Retry, Snooze, Status
from tests.endings import all_over, ended, known


class Escape(BaseException):
    """A user's own."""


ESCAPES = [SystemExit, KeyboardInterrupt, GeneratorExit, Escape, asyncio.CancelledError]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_b26_100_handlers_that_try_to_end_their_worker_only_fail(
    app: App, *, is_async: bool
) -> None:
    def escape(number: int) -> None:
        raise ESCAPES[number % len(ESCAPES)]

    async def escape_async(number: int) -> None:
        escape(number)

    bad = app.task(max_attempts=1)(escape_async if is_async else escape)

    @app.task
    def good(number: int) -> int:
        return number

    async with app.worker():
        bad_ids = await app.enqueue_many(bad.job(number=n) for n in range(100))
        await all_over(app)
        good_ids = await app.enqueue_many(good.job(number=n) for n in range(100))
        await all_over(app)

    told: Counter[object] = Counter()
    for job in await app._store.get([known(job_id) for job_id in bad_ids]):
        assert (job.status, job.attempts, job.failures) == (Status.FAILED, 1, 1)
        told[job.errors[0]["type"]] += 1
    assert told == {
        "SystemExit": 20,
        "KeyboardInterrupt": 20,
        "GeneratorExit": 20,
        f"{__name__}.Escape": 20,
        "asyncio.exceptions.CancelledError": 20,
    }
    results = [
        job.result
        for job in await app._store.get([known(job_id) for job_id in good_ids])
    ]
    assert results == list(range(100))


class NeedsTwo(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)
        self.two = two


class Holder(Exception):
    def __init__(self, held: object) -> None:
        super().__init__("holds on")
        self.held = held


class Mute(Exception):
    def __str__(self) -> str:
        msg = "no words"
        raise ValueError(msg)

    __repr__ = __str__


class Quitter(Exception):
    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


class Nap(Snooze):
    def __init__(self) -> None: ...


def in_a_circle() -> Exception:
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def on_a_long_chain() -> Exception:
    error: Exception = ValueError("root")
    for n in range(3000):
        cause, error = error, ValueError(f"step {n}")
        error.__cause__ = cause
    return error


def deep_in_groups() -> Exception:
    error: Exception = ValueError("root")
    for _ in range(500):
        error = ExceptionGroup("group", [error])
    return error


def with_notes() -> Exception:
    error = ValueError("noted")
    error.__notes__ = [object(), 3, "\0"]  # type: ignore[list-item]  # hostile
    return error


def negative_retry() -> Exception:
    error = Retry(delay=5)
    error.delay = -5  # type: ignore[assignment]  # hostile
    return error


EXCEPTIONS: dict[str, Callable[[], BaseException]] = {
    "needs two arguments": lambda: NeedsTwo("one", "two"),
    "holds a lock": lambda: Holder(threading.Lock()),
    "holds a socket": lambda: Holder(socket.socket()),
    "has no text": Mute,
    "ends the program in __str__": Quitter,
    "is its own cause": in_a_circle,
    "has a long chain of causes": on_a_long_chain,
    "is deep in groups": deep_in_groups,
    "has notes that are no text": with_notes,
    "has ten megabytes of text": lambda: ValueError("x" * 10_000_000),
    "is a snooze without a delay": Nap,
    "is a retry before the failure": negative_retry,
}


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_b55_an_exception_is_stored_as_text_whatever_it_is(
    app: App, *, is_async: bool
) -> None:
    def fail(kind: str) -> None:
        raise EXCEPTIONS[kind]()  # noqa: RSE102 - a function gives it

    async def fail_async(kind: str) -> None:
        fail(kind)

    task = app.task(max_attempts=1)(fail_async if is_async else fail)
    # A place that is never freed holds up the next one.
    async with app.worker(concurrency=1):
        for kind in EXCEPTIONS:
            job = await ended(app, await task.enqueue(kind=kind), within=2)
            assert (job.status, job.failures) == (Status.FAILED, 1), kind
            assert job.last_error, kind
            (error,) = job.errors
            assert len(str(error["message"])) <= 2048, kind
            assert len(str(error["traceback"]).encode()) <= 8192, kind


@dataclass
class Unequal:
    number: int

    def __eq__(self, other: object) -> bool:
        raise SystemExit

    __hash__ = None  # type: ignore[assignment]  # as Python does it


class Unreadable(dict[str, int]):
    def items(self) -> object:  # type: ignore[override]  # hostile
        raise ZeroDivisionError

    def __getitem__(self, key: str) -> int:
        raise ZeroDivisionError


def cyclic() -> object:
    found: list[object] = []
    found.append(found)
    return found


def deep() -> object:
    found: list[object] = []
    for _ in range(100_000):
        found = [found]
    return found


RESULTS: dict[str, Callable[[], object]] = {
    "an object": object,
    "a lock": threading.Lock,
    "a cycle": cyclic,
    "a deep nest": deep,
    "what can't be compared": lambda: Unequal(1),
    "a dict that can't be read": lambda: Unreadable(a=1),
    "bytes that aren't text": lambda: b"\xff",
    "an exception": lambda: ValueError("returned"),
    "two megabytes": lambda: "x" * 2_000_000,
}


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_b55_a_result_that_cant_be_stored_doesnt_fail_the_job(
    app: App, *, is_async: bool
) -> None:
    runs = 0

    def give(kind: str) -> object:
        nonlocal runs
        runs += 1
        return RESULTS[kind]()

    async def give_async(kind: str) -> object:
        return give(kind)

    task = app.task(give_async if is_async else give)
    async with app.worker(concurrency=1):
        for kind in RESULTS:
            job = await ended(app, await task.enqueue(kind=kind), within=2)
            assert (job.status, job.result) == (Status.SUCCEEDED, None), kind
            assert job.meta["result_error"], kind

    assert runs == len(RESULTS)


@dataclass
class Trap:
    number: int

    def __post_init__(self) -> None:
        if is_armed:
            raise SystemExit


is_armed = False


async def test_b26_an_argument_that_ends_the_program_fails_its_job_alone(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(max_attempts=1)
    async def take(trap: Trap) -> None: ...

    @app.task
    async def greet() -> None: ...

    trapped = await take.enqueue(trap=Trap(1))
    monkeypatch.setattr(f"{__name__}.is_armed", True)
    async with app.worker(concurrency=1):
        job = await ended(app, trapped)
        await ended(app, await greet.enqueue())

    assert job.status is Status.FAILED
    assert str(job.last_error).startswith("SystemExit")


async def test_b26_a_job_for_which_there_is_no_thread_fails_alone(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(max_attempts=1)
    def in_thread() -> None: ...

    @app.task
    async def on_loop() -> None: ...

    def refuse(_thread: threading.Thread) -> None:
        msg = "can't start new thread"
        raise RuntimeError(msg)

    async with app.worker(concurrency=1):
        await ended(app, await on_loop.enqueue())
        # As the operating system does where a limit is reached.
        with monkeypatch.context() as limited:
            limited.setattr(threading.Thread, "start", refuse)
            job = await ended(app, await in_thread.enqueue())
        await ended(app, await on_loop.enqueue())

    assert job.last_error == "RuntimeError: can't start new thread"
