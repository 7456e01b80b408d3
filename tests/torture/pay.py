"""
What a handler does in a transaction of its own: one effect, and its own success.

An attempt's steps are written once, for threads and for what awaits. Each step that
decides what can be in the database is written down before it, and after it what it
came to: who was killed between the two leaves a doubt, and nobody else does.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, Literal, NamedTuple, TypeAlias

import aiosqlite
import psycopg
from psycopg import AsyncConnection, IsolationLevel

from rowlock import Attempt, ClaimLost, current_attempt
from tests.torture.page import FAULT, Page

LEVELS = [
    *(IsolationLevel.READ_COMMITTED,) * 2,
    *(IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE),
]
# How the storm's laws tell them from one another: see `history`.
REFUSALS = (ClaimLost, psycopg.errors.SerializationFailure)
TABLE = "CREATE TABLE effects (mark text, job_id bigint, claim integer)"
# Of the jobs' own database, either of them: the values are numbers and our own marks.
EFFECT = "INSERT INTO effects VALUES ('{mark}', {job_id}, {claim})"


class Changed(Exception):
    """What a handler raises that has made up its mind, before its commit or after."""


class Plan(NamedTuple):
    """What an attempt is to do, and for how long it rests where, in seconds."""

    holds: bool
    level: IsolationLevel
    works_s: float
    open_s: float
    rests_s: float
    rolls_back: bool
    raises: bool
    is_stubborn: bool


class Step(NamedTuple):
    """The next thing to be done on the connection."""

    do: Literal["hold", "insert", "rest", "complete", "commit", "rollback"]
    seconds: float = 0.0


Steps: TypeAlias = Generator[Step, None, None]


def drawn(chance: random.Random) -> Plan:
    """Draw a plan; a transaction that holds its job may outlast the lease."""
    is_server = not _path()
    holds = is_server and chance.random() < 0.5
    is_long = chance.random() < 0.15
    # One that writes to SQLite keeps all others out meanwhile.
    longest = (3.0 if is_long else 0.4) if is_server else 0.05
    return Plan(
        holds=holds,
        level=chance.choice(LEVELS),
        works_s=chance.uniform(0, longest),
        open_s=chance.uniform(0, longest),
        rests_s=chance.uniform(0, 0.3),
        rolls_back=chance.random() < 0.15,
        raises=chance.random() < 0.15,
        is_stubborn=chance.random() < 0.5,
    )


def steps(page: Page, plan: Plan) -> Steps:
    """Give the steps of an attempt, and write down what is known of them."""
    of = current_attempt()._key._asdict()
    page.record("effect begins", **of)
    try:
        if plan.holds:
            yield Step("hold")
        yield Step("insert")
        yield Step("rest", plan.works_s)
        page.record("effect completes", **of)
        yield Step("complete")
        yield Step("rest", plan.open_s)
        yield from _end(page, plan, of)
    except REFUSALS as error:
        page.record("effect refused", **of, error=type(error).__name__)
        if plan.is_stubborn:
            yield Step("commit")
        raise
    except Exception as error:
        page.record("effect broke", **of, error=type(error).__name__)
        raise
    yield Step("rest", plan.rests_s)
    if plan.raises:
        raise Changed


def _end(page: Page, plan: Plan, of: dict[str, int]) -> Steps:
    if plan.rolls_back:
        page.record("effect rolled back", **of)
        yield Step("rollback")
        return
    page.record("effect commits", **of)
    yield Step("commit")
    page.record("effect committed", **of)


def pay(page: Page, mark: str, chance: random.Random) -> None:
    """Go through the steps on a synchronous connection."""
    attempt, plan = current_attempt(), drawn(chance)
    with closing(_connect(plan)) as own:
        acts: dict[str, Callable[[], object]] = {
            "hold": lambda: attempt.hold_sync(connection=own),
            "insert": lambda: _where(own, plan, attempt, mark),
            "complete": lambda: attempt.complete_sync(connection=own),
            "commit": own.commit,
            "rollback": own.rollback,
        }

        def act(step: Step) -> None:
            if step.do == "rest":
                threading.Event().wait(step.seconds)
            else:
                acts[step.do]()

        todo = steps(page, plan)
        step = next(todo, None)
        while step is not None:
            try:
                act(step)
            except Exception as error:  # noqa: BLE001 - theirs to judge
                step = todo.throw(error)
            else:
                step = next(todo, None)


async def pay_awaited(page: Page, mark: str, chance: random.Random) -> None:
    """Go through the steps on a connection that is awaited."""
    attempt, plan = current_attempt(), drawn(chance)
    own = await _connect_awaited(plan)
    acts: dict[str, Callable[[], Any]] = {
        "hold": lambda: attempt.hold(connection=own),
        "insert": lambda: _where_awaited(own, plan, attempt, mark),
        "complete": lambda: attempt.complete(connection=own),
        "commit": own.commit,
        "rollback": own.rollback,
    }
    todo = steps(page, plan)
    try:
        step = next(todo, None)
        while step is not None:
            try:
                if step.do == "rest":
                    await asyncio.sleep(step.seconds)
                else:
                    await acts[step.do]()
            except Exception as error:  # noqa: BLE001 - theirs to judge
                step = todo.throw(error)
            else:
                step = next(todo, None)
    finally:
        await own.close()


def _where(own: Any, plan: Plan, attempt: Attempt, mark: str) -> None:  # noqa: ANN401 - of either database
    """Write the effect in the transaction, or, as a fault, in one of its own."""
    if os.environ.get(FAULT) != "effect":
        own.execute(_effect(attempt, mark))
        return
    with closing(_connect(plan)) as another:
        another.execute(_effect(attempt, mark))
        another.commit()


async def _where_awaited(own: Any, plan: Plan, attempt: Attempt, mark: str) -> None:  # noqa: ANN401 - as above
    if os.environ.get(FAULT) == "effect":
        _where(own, plan, attempt, mark)
    else:
        await own.execute(_effect(attempt, mark))


def _effect(attempt: Attempt, mark: str) -> str:
    return EFFECT.format(mark=mark, **attempt._key._asdict())


def _connect(plan: Plan) -> Any:  # noqa: ANN401 - of either database
    if path := _path():
        return sqlite3.connect(path, timeout=1)
    own = psycopg.connect(os.environ["ROWLOCK_DATABASE_URL"], connect_timeout=3)
    own.isolation_level = plan.level
    return own


async def _connect_awaited(plan: Plan) -> Any:  # noqa: ANN401 - of either database
    if path := _path():
        return await aiosqlite.connect(path, timeout=1)
    url = os.environ["ROWLOCK_DATABASE_URL"]
    own = await AsyncConnection.connect(url, connect_timeout=3)
    await own.set_isolation_level(plan.level)
    return own


def _path() -> str:
    """Give the file that the jobs are in; empty: a server has them."""
    url = os.environ["ROWLOCK_DATABASE_URL"]
    return url.removeprefix("sqlite:///") if url.startswith("sqlite:///") else ""
