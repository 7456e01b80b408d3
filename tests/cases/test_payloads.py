"""Cases of the kind *payloads and results*: what is odd in them, and what is big."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import AsyncIterator
from functools import partial

import pytest

from rowlock import App, PayloadError, Status, UsageError
from tests.endings import all_over, ended, finished
from tests.eventually import eventually

# What no store takes, and where its refusal says that it is.
ODD_RESULTS: dict[str, tuple[object, str]] = {
    "NUL": ({"a": "x\0y"}, "$.a"),
    "NUL in a key": ({"k\0": 1}, "$"),
    "NUL deep inside": ({"a": [{"b": ["\0"]}]}, "$.a[0].b[0]"),
    "a lone surrogate": (["\ud800"], "$[0]"),
    "NaN": (math.nan, "$"),
    "infinity": ({"a": math.inf}, "$.a"),
    "minus infinity": ([[-math.inf]], "$[0][0]"),
    "NaN as a key": ({math.nan: 1}, "$"),
}


async def test_b50_b52_a_result_that_no_store_takes_leaves_the_job_succeeded(
    app: App,
) -> None:
    runs: list[str] = []

    @app.task
    async def give(kind: str) -> object:
        runs.append(kind)
        return ODD_RESULTS[kind][0]

    ids = await app.enqueue_many(give.job(kind=kind) for kind in ODD_RESULTS)
    async with app.worker():
        jobs = await finished(app, ids)

    for job, (kind, (_, path)) in zip(jobs, ODD_RESULTS.items(), strict=True):
        assert (job.status, job.result) == (Status.SUCCEEDED, None), kind
        assert f"`{path}" in str(job.meta["result_error"]), kind
    assert sorted(runs) == sorted(ODD_RESULTS)


async def test_b50_nul_and_lone_surrogates_in_an_exception_are_replaced(
    app: App,
) -> None:
    odd_text = "bad\0 and \ud800 worse"
    Odd = type("OddError", (Exception,), {"__module__": "m\0"})  # noqa: N806 - a class

    @app.task(max_attempts=1)
    async def fail() -> None:
        raise Odd(odd_text)

    async with app.worker():
        job = await ended(app, await fail.enqueue())

    assert job.status is Status.FAILED
    assert str(job.last_error).endswith("m\ufffd.OddError: bad\ufffd and \ufffd worse")
    (error,) = job.errors
    assert error["message"] == "bad\ufffd and \ufffd worse"
    assert "\0" not in repr(job)


async def test_b50_nul_is_refused_where_it_comes_in(app: App) -> None:
    @app.task
    async def take(value: object) -> None: ...

    with pytest.raises(PayloadError, match=r"`\$\.value\.a\[1\]`"):
        await take.enqueue(value={"a": ["", "\0"]})
    with pytest.raises(PayloadError, match=r"`\$\.value"):
        await take.enqueue(value={"\0": 1})
    with pytest.raises(UsageError, match="can't hold NUL"):
        take.options(queue="q\0")
    with pytest.raises(UsageError, match="can't hold NUL"):
        take.options(idempotency_key="k\0")
    with pytest.raises(UsageError, match="can't hold NUL"):
        app.task(queue="q\0")
    with pytest.raises(UsageError, match="can't hold NUL"):
        app.task(name="t\0")(take.function)
    with pytest.raises(UsageError, match="can't hold NUL"):
        app.worker(queues=["q\0"])

    assert (await app.list()).jobs == ()


LIMIT = 8 * 2**20


@pytest.fixture
async def elsewhere(database_url: str) -> AsyncIterator[App]:
    """The same database as another process has it, with a connection of its own."""
    async with App(database_url, max_payload=LIMIT) as elsewhere:
        yield elsewhere


async def test_b51_five_megabytes_pass_where_the_limit_is_raised(
    app: App, elsewhere: App
) -> None:
    @elsewhere.task
    async def echo(text: str) -> str:
        return text

    big = "ü" * (5 * 2**19)
    with pytest.raises(PayloadError, match=r"`\$\.text`.*raise max_payload"):
        await app.task(echo.function).enqueue(text=big)
    async with elsewhere.worker():
        job = await ended(elsewhere, await echo.enqueue(text=big))

    assert job.payload == {"text": big}
    assert job.result == big


async def test_b51_thousands_of_jobs_in_300_queues_wake_a_worker_and_all_run(
    app: App, elsewhere: App, scale: int
) -> None:
    jobs = 1500 if scale == 1 else 5000
    started: dict[int, float] = {}

    def register(app: App) -> None:
        @app.task
        async def note(number: int) -> None:
            started[number] = time.monotonic()

    register(app)
    register(elsewhere)
    note = app.find_task("note")
    queues = [f"{'队' * 57}{number:03}" for number in range(300)]
    assert {len(queue) for queue in queues} == {60}
    slept_for = []

    async with elsewhere.worker(concurrency=250):
        for number in range(-9, 0):
            await asyncio.sleep(0.1)  # until the worker sleeps, and looks seldom
            await note.options(queue=queues[number]).enqueue(number=number)
            enqueued = time.monotonic()
            await eventually(partial(started.__contains__, number))
            slept_for.append(started[number] - enqueued)
        ids = await app.enqueue_many(
            note.options(queue=queues[number % 300]).job(number=number)
            for number in range(jobs)
        )
        enqueued = time.monotonic()
        await all_over(app, within=60)

    assert len(set(ids)) == jobs
    assert started.keys() == set(range(-9, jobs))
    assert statistics.median(slept_for) < 0.2
    first = min(at for number, at in started.items() if number >= 0)
    assert first - enqueued < 1
