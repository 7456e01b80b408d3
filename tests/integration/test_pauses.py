"""Pauses on workers that are at work: each keeps to them within a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TypedDict

import pytest

from rowlock import App, UsageError

SECOND = 1.0
WORKERS = 3


class What(TypedDict, total=False):
    """What is paused: one of the two."""

    queue: str
    task: str


@pytest.fixture
def starts(app: App) -> list[tuple[float, str]]:
    """When jobs of the app's two tasks started, and of which."""
    starts: list[tuple[float, str]] = []

    @app.task(queue="mail")
    async def mail() -> None:
        starts.append((time.monotonic(), "mail"))

    @app.task(queue="bill")
    async def bill() -> None:
        starts.append((time.monotonic(), "bill"))

    return starts


@pytest.fixture
async def flood(app: App, starts: list[tuple[float, str]]) -> AsyncIterator[None]:
    """Jobs of both tasks that come all the time, and workers that run them."""
    assert starts == []

    async def enqueue() -> None:
        while True:
            await app.enqueue_many(
                [app.find_task(name).job() for name in ("mail", "bill")]
            )
            await asyncio.sleep(0.01)  # as they come from outside

    async with AsyncExitStack() as working:
        for _ in range(WORKERS):
            await working.enter_async_context(app.worker())
        enqueueing = asyncio.create_task(enqueue())
        yield
        enqueueing.cancel()


async def first_after(
    starts: list[tuple[float, str]], at: float, task: str, *, within: float = 5
) -> float:
    """Wait for the first start of a task after an instant; how long after it was."""
    while time.monotonic() < at + within:
        found = [began for began, name in starts if name == task and began > at]
        if found:
            return found[0] - at
        await asyncio.sleep(0.01)  # the handlers' clock is the machine's
    message = f"no {task} started within {within:g} s"
    raise AssertionError(message)


@pytest.mark.parametrize("what", [{"queue": "mail"}, {"task": "mail"}])
@pytest.mark.usefixtures("flood")
async def test_a_pause_and_its_end_are_kept_to_within_a_second(
    app: App, starts: list[tuple[float, str]], what: What
) -> None:
    await first_after(starts, 0, "mail", within=time.monotonic() + 5)

    await app.pause(**what)
    paused_at = time.monotonic()
    await asyncio.sleep(2 * SECOND)  # long enough for a worker that doesn't keep to it
    late = [at for at, name in starts if name == "mail" and at > paused_at + SECOND]
    assert late == []
    assert await first_after(starts, paused_at + SECOND, "bill") < SECOND

    await app.resume(**what)
    assert await first_after(starts, time.monotonic(), "mail") < SECOND


@pytest.mark.parametrize("what", [{"queue": "mail"}, {"task": "mail"}])
async def test_a_pause_that_ends_by_itself_wakes_who_sleeps(
    app: App, starts: list[tuple[float, str]], what: What
) -> None:
    await app.pause(**what, for_=1.5 * SECOND)
    over_at = time.monotonic() + 1.5 * SECOND
    async with app.worker():
        await app.find_task("mail").enqueue()
        after = await first_after(starts, over_at - 0.1, "mail")

    assert after < SECOND


@pytest.mark.parametrize("what", [{"queue": "mail"}, {"task": "mail"}])
async def test_a_resume_wakes_who_sleeps(
    app: App, starts: list[tuple[float, str]], what: What
) -> None:
    await app.pause(**what)
    async with app.worker():
        await app.find_task("mail").enqueue()
        await asyncio.sleep(0.5)  # until the worker has looked, and sleeps
        assert starts == []
        resumed_at = time.monotonic()
        await app.resume(**what)

        assert await first_after(starts, resumed_at, "mail") < SECOND


@pytest.mark.parametrize("first", [None, 3600])
async def test_a_pause_that_is_replaced_by_a_shorter_one_ends_with_that(
    app: App, starts: list[tuple[float, str]], first: float | None
) -> None:
    await app.pause(queue="mail", for_=first)
    async with app.worker():
        await app.find_task("mail").enqueue()
        await asyncio.sleep(0.5)  # until the worker has looked, and sleeps
        await app.pause(queue="mail", for_=SECOND)
        over_at = time.monotonic() + SECOND

        assert await first_after(starts, over_at - 0.1, "mail") < SECOND


async def test_a_pause_of_no_time_is_refused(app: App) -> None:
    with pytest.raises(UsageError, match="a pause of none"):
        await app.pause(queue="mail", for_=0)
