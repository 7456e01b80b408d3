"""The log of a handler names its attempt, and no log ever holds a payload."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rowlock import (
    App,
    NewJob,
    Retry,
    Snooze,
    Task,
    Unrecoverable,
    current_attempt,
)
from rowlock.cli.logs import JSONLines, Lines
from rowlock.events import AttemptFilter, Ending, Event
from tests.endings import ended, known, rested

CANARY = "canary-4711"

logger = logging.getLogger("shop.orders")


@pytest.fixture(params=[JSONLines, Lines])
def formatter(request: pytest.FixtureRequest) -> logging.Formatter:
    """The formats of the command line."""
    kind: type[logging.Formatter] = request.param
    return kind()


@pytest.fixture
def log(formatter: logging.Formatter) -> Iterator[io.StringIO]:
    """What a process that the command line set up has logged, down to `debug`."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(formatter)
    handler.addFilter(AttemptFilter())
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)


def lines_of(log: io.StringIO, message: str) -> list[str]:
    return [line for line in log.getvalue().splitlines() if message in line]


async def test_what_a_handler_logs_names_its_attempt(
    app: App, log: io.StringIO, formatter: logging.Formatter
) -> None:
    @app.task(queue="mail")
    async def waits() -> None:
        logger.info("from the handler")
        await asyncio.to_thread(logger.info, "from a thread of it")
        await asyncio.create_task(in_a_task())

    async def in_a_task() -> None:
        await asyncio.sleep(0)
        logger.info("from a task of it")

    @app.task(queue="mail")
    def plain() -> None:
        logger.info("from a plain one")

    async with app.worker():
        ids = {
            "from the handler": (known(await waits.enqueue()), "waits"),
            "from a plain one": (known(await plain.enqueue()), "plain"),
        }
        for job_id, _ in ids.values():
            await ended(app, job_id)
        logger.info("from nowhere")

    for message in ("from a thread of it", "from a task of it"):
        ids[message] = ids["from the handler"]
    for message, (job_id, task) in ids.items():
        (line,) = lines_of(log, message)
        named = {"job_id": job_id, "task": task, "queue": "mail", "attempt": 1}
        if isinstance(formatter, JSONLines):
            assert json.loads(line).items() >= {"message": message, **named}.items()
        else:
            words = " ".join(f"{name}={value}" for name, value in named.items())
            assert line.endswith(f"{message} {words}")
    (line,) = lines_of(log, "from nowhere")
    assert "job_id" not in line


async def test_a_records_own_fields_stay(app: App, log: io.StringIO) -> None:
    @app.task
    async def work() -> None:
        logger.info("with its own", extra={"task": "the user's"})

    async with app.worker():
        await ended(app, await work.enqueue())

    (line,) = lines_of(log, "with its own")
    assert "the user's" in line
    assert "default" in line


async def test_an_event_inside_a_handler_is_of_its_own_job(
    app: App, log: io.StringIO, formatter: logging.Formatter
) -> None:
    @app.task(queue="other")
    async def child() -> None: ...

    @app.task
    async def parent() -> None:
        await child.enqueue()

    async with app.worker(queues=["default"]):
        await ended(app, await parent.enqueue())

    (line,) = [line for line in lines_of(log, "job.enqueued") if "child" in line]
    if isinstance(formatter, JSONLines):
        told = json.loads(line)
        assert (told["job_id"], told["task"], told["queue"]) == (2, "child", "other")
        assert "attempt" not in told
    else:
        assert line.endswith("job.enqueued job_id=2 task=child queue=other")


@dataclass
class Secret:
    """A payload of a user's own type."""

    text: str
    number: int


def add_work(app: App) -> tuple[Task[..., Any], Task[..., Any]]:
    """Add a task that ends in each way that Rowlock has a sentence for."""

    @app.task(max_attempts=1)
    async def work(secret: Secret, how: str) -> object:
        attempt = current_attempt()
        await attempt.checkpoint({"at": secret.text})
        attempt.progress(0.5, secret.text)
        attempt.spawn(other.job(secret.text))
        if how == "swallows":
            with suppress(Snooze):
                raise Snooze(60)
            return secret.text
        if how == "drops":
            return {secret.text: float("nan")}
        errors = {"fails": ValueError("x"), "gives up": Unrecoverable("x")}
        raise errors.get(how, Retry(delay=1))

    @app.task(queue="other")
    def other(text: str) -> None: ...

    return work, other


async def every_way(app: App, told: list[Event]) -> None:
    """Send a payload through all of them."""
    work, other = add_work(app)
    app.follow(lambda ending: [other.job(CANARY)] if ending.result else [])
    app.follow(broken)
    ways = ("swallows", "drops", "fails", "gives up", "retries")
    ids = [known(await work.enqueue(Secret(CANARY, 1), how)) for how in ways]
    job = work.job(Secret(CANARY, 1), "x")
    unfit = {"secret": {"text": CANARY, "number": CANARY}, "how": "x"}
    bad = [with_payload(job, unfit), with_payload(job, {"x": CANARY})]
    ids += [known(job_id) for job_id in await app._store.enqueue(bad)]
    async with app.worker(queues=["default"]):
        for job_id in ids:
            await rested(app, job_id)
        await app.move(ids, priority=1)
        await app.cancel(ids)
        await app.replay(ids[:1])
        await app.delete(ids)
    logger.info("%r %r %r", await app.list(), job, told)


def with_payload(job: NewJob, payload: object) -> NewJob:
    """Write a job as newer code, or a hand, might."""
    return replace(job, payload=json.dumps(payload))


def broken(ending: Ending) -> list[Any]:
    """Follow with what is no job."""
    return [ending.result] if ending.result else []


async def test_no_log_holds_a_payload_a_result_or_a_state(
    app: App, log: io.StringIO, told: list[Event]
) -> None:
    await every_way(app, told)

    text = log.getvalue()
    for name in ("signal.swallowed", "result.dropped", "job.dead_lettered", "follows"):
        assert name in text
    assert not lines_of(log, CANARY)
    assert CANARY not in repr(told)


def test_what_is_refused_at_the_door_doesnt_say_the_payload(app: App) -> None:
    @app.task
    def work(secret: Secret, at: int = 0) -> None: ...

    refused = []
    for arguments in (
        {"secret": CANARY},
        {"secret": Secret(CANARY, 2), "at": CANARY},
        {"secret": Secret(CANARY + "\0", 2)},
        {"secret": Secret(CANARY + "\ud800", 2)},
        {"secret": {"text": CANARY, "number": CANARY}},
        {"secret": Secret(CANARY * 100_000, 2)},
    ):
        with pytest.raises(ValueError, match=r"secret|at") as error:
            work.job(**arguments)
        refused.append(str(error.value))

    assert not [text for text in refused if CANARY in text]


async def test_a_long_error_is_logged_once(app: App, log: io.StringIO) -> None:
    @app.task(max_attempts=1)
    async def fail() -> None:
        raise ValueError("x" * 2000)

    async with app.worker():
        await ended(app, await fail.enqueue())

    assert log.getvalue().count("x" * 1500) == 1
    (line,) = lines_of(log, "job.dead_lettered")
    assert "ValueError" in line
