"""What is lent in a connection's place is told the step to one."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import psycopg2
import psycopg2.pool
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from rowlock import App, WrongConnection
from rowlock.stores import guests

from .callers import mail_to
from .django_caller import django_wrapper


def told(app: App, lent: Any) -> str:
    """Say with what it is refused by a call that isn't awaited."""
    with pytest.raises(WrongConnection) as raised:
        app.tasks["mail"].options(connection=lent).enqueue_sync(to="Ada")
    return str(raised.value)


async def told_awaited(app: App, lent: Any) -> str:
    """Say with what it is refused by a call that is."""
    with pytest.raises(WrongConnection) as raised:
        await app.tasks["mail"].options(connection=lent).enqueue(to="Ada")
    return str(raised.value)


@pytest.fixture
def app(url: str) -> App:
    app = App(url)
    app.task(name="mail")(mail_to)
    return app


def test_what_makes_connections_or_comes_of_one_is_told_its_step(
    app: App, url: str
) -> None:
    from django.db import connections, transaction  # noqa: PLC0415 - once configured

    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with ExitStack() as stack, app:
        own = stack.enter_context(engine.connect())
        session = stack.enter_context(Session(engine))
        raw = stack.enter_context(closing(engine.raw_connection()))
        other = stack.enter_context(psycopg.connect(url))
        second = stack.enter_context(closing(psycopg2.connect(url)))
        wrapper = stack.enter_context(django_wrapper(url))
        pool = psycopg2.pool.SimpleConnectionPool(1, 1, url)
        stack.callback(pool.closeall)
        steps = {
            "`with engine.begin() as connection`": engine,
            "`session = make_session()`": sessionmaker(engine),
            "its `.driver_connection`": raw,
            "what it gives, as in `with ... as connection`": engine.begin(),
            "its `.connection`": own.begin(),
            "its `.session`": session.begin(),
            "the connection that gave it": session.execute(text("SELECT 1")),
            "`pool.getconn()`": pool,
            '`connections["default"]`': connections,
            "`connection` of django.db": wrapper.cursor(),
        }
        for step, lent in steps.items():
            assert re.search(
                f"is no connection: lend (.* as in )?{re.escape(step)}", told(app, lent)
            )
        begun = stack.enter_context(other.transaction())
        for lent in (other.cursor(), second.cursor(), begun):
            assert "lend its `.connection`, and call enqueue_sync" in told(app, lent)
        atomic = transaction.atomic(wrapper.alias)
        assert "lend `connection` of django.db" in told(app, atomic)
        assert not app.list_sync().jobs
    engine.dispose()


async def test_what_has_to_be_awaited_is_told_its_step(app: App, url: str) -> None:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    async with (
        app,
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as own,
        await psycopg.AsyncConnection.connect(url) as other,
        engine.connect() as third,
        AsyncSession(engine) as session,
    ):
        coming = asyncio.sleep(0)
        raw = await third.get_raw_connection()
        adapted: Any = raw.dbapi_connection
        steps = {
            "with engine.begin() as connection`, and await enqueue with it": engine,
            "with make_session.begin() as session`, and await": async_sessionmaker(
                engine
            ),
            "with pool.acquire() as connection`, and await enqueue": pool,
            "async with ... as connection": engine.begin(),
            "lend what it gives once it is awaited": coming,
            "lend the connection that began it, and await": own.transaction(),
            "lend its `.connection`, and await": other.cursor(),
            "lend its `.connection`, and await enqueue with": third.begin(),
            "lend its `.session`, and await": session.begin(),
            "lend its `.driver_connection`.": raw,
            "lend its `.driver_connection`, and await": adapted,
        }
        for step, lent in steps.items():
            assert step in await told_awaited(app, lent)
        await coming
        with pytest.raises(WrongConnection, match="await enqueue with it"):
            app.tasks["mail"].options(connection=pool).enqueue_sync(to="Ada")
        assert not (await app.list()).jobs
    await engine.dispose()


def test_what_comes_of_a_connection_to_a_file_is_told_its_step(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app = App(f"sqlite:///{path}")
    app.task(name="mail")(mail_to)

    async def of_aiosqlite() -> str:
        async with aiosqlite.connect(path) as own, app:
            return await told_awaited(app, await own.execute("SELECT 1"))

    with closing(sqlite3.connect(path)) as own:
        assert "lend its `.connection`, and call" in told(app, own.cursor())
    app.close_sync()
    assert "lend the connection that made it" in asyncio.run(of_aiosqlite())


@pytest.mark.parametrize("driver", ["postgresql+asyncpg", "postgresql+psycopg"])
async def test_the_inner_one_of_what_is_awaited_is_told_at_once_to_lend_the_outer_one(
    app: App, url: str, driver: str
) -> None:
    engine = create_async_engine(make_url(url).set(drivername=driver))
    said = "lend that, to the awaited call"
    async with app, AsyncSession(engine) as session, engine.connect() as own:
        made: Any = partial(getattr, session, "sync_session")
        scoped = scoped_session(made)
        for lent in (session.sync_session, own.sync_connection, scoped):
            assert said in await told_awaited(app, lent)
            assert said in told(app, lent)
    await engine.dispose()


@pytest.mark.parametrize("proxy", [False, True])
def test_djangos_in_an_awaited_call_is_told_of_sync_to_async(
    app: App, url: str, *, proxy: bool
) -> None:
    async def enqueue() -> str:
        async with app:
            return await told_awaited(app, wrapper)

    with django_wrapper(url, proxy=proxy) as wrapper:
        said = asyncio.run(enqueue())

    assert "call enqueue_sync with it, in a function that sync_to_async runs." in said


@pytest.mark.parametrize(
    ("make", "one"),
    [
        (object, "An object"),
        (lambda: 1, "An int"),
        (lambda: "postgresql:///shop", "A str"),
        (lambda: sqlite3.connect(":memory:"), "A sqlite3.Connection"),
    ],
)
def test_it_is_named_with_its_article(
    app: App, make: Callable[[], Any], one: str
) -> None:
    lent = make()

    assert told(app, lent).startswith(f"{one} can't be lent to the Postgres store")
    assert guests.one(lent) == one
    if isinstance(lent, sqlite3.Connection):
        lent.close()
    app.close_sync()
