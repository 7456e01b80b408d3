"""What can't be lent is refused in one sentence, and nothing is written."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlmodel
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)

from rowlock import App, KeyedTask, SchemaMismatch, StoreUnavailable, WrongConnection
from tests.cluster_fixtures import FreshDatabase

from .callers import ORDER, Caller, mail_to
from .conftest import calling
from .django_caller import django_wrapper
from .kinds import KINDS, ON_POSTGRES, Kind

Mail = KeyedTask[..., Any]


class Base(DeclarativeBase):
    """The user's tables."""


class Order(Base):
    """One of them."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    item: Mapped[str]


SAYS_CLOSED = "is closed: lend an open one"


def ids(app: App) -> list[int]:
    return sorted(job.id for job in app.list_sync().jobs)


def test_b147_in_the_other_call_it_is_told_which_one_is_meant(
    app: App, mail: Mail, caller: Caller
) -> None:
    task = mail.options(connection=caller.lent)

    async def awaited() -> None:
        try:
            await task.enqueue(to="Ada")
        finally:
            await app.close()

    if caller.is_awaited:
        with pytest.raises(WrongConnection, match="await enqueue with it"):
            task.enqueue_sync(to="Ada")
        with pytest.raises(WrongConnection, match="await enqueue with it"):
            app.enqueue_many_sync([mail.job(to="Ada")], connection=caller.lent)
    else:
        with pytest.raises(WrongConnection, match="call enqueue_sync with it"):
            asyncio.run(awaited())
    caller.commit()

    assert ids(app) == []


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.opens_again], ids=lambda kind: kind.name
)
def test_one_that_is_closed_is_refused(
    app: App, mail: Mail, kind: Kind, address: str
) -> None:
    caller = kind.make(address, autocommit=True)
    before = caller.enqueue(mail, to="Ada")
    caller.close()
    with pytest.raises(WrongConnection, match=SAYS_CLOSED):
        caller.enqueue(mail, to="Bo")
    if caller.is_awaited:
        caller.end(app)  # type: ignore[attr-defined]  # those that are awaited have it

    assert ids(app) == [before]


def test_one_of_another_thread_is_refused_with_where_it_works(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with App(f"sqlite:///{path}") as app, closing(sqlite3.connect(path)) as own:
        mail = app.task(name="mail")(mail_to).options(connection=own)
        with (
            ThreadPoolExecutor(1) as thread,
            pytest.raises(WrongConnection, match="call in the one that has made it"),
        ):
            thread.submit(mail.enqueue_sync, "Ada").result()
        mail.enqueue_sync("Bo")
        own.commit()
        assert len(ids(app)) == 1


@pytest.mark.parametrize("kind", ON_POSTGRES, ids=lambda kind: kind.name)
def test_a_transaction_that_has_failed_is_refused(
    app: App, mail: Mail, caller: Caller
) -> None:
    caller.run(ORDER)
    with pytest.raises(Exception, match="division by zero"):
        caller.run("SELECT 1 / 0")
    with pytest.raises(WrongConnection, match="roll it back first"):
        caller.enqueue(mail, to="Ada")
    caller.rollback()
    job_id = caller.enqueue(mail, to="Bo")
    caller.commit()

    assert ids(app) == [job_id]


@pytest.fixture
def there(kind: Kind, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Another database."""
    if kind.store == "sqlite":
        address = str(tmp_path / "other.db")
        with closing(sqlite3.connect(address)) as own:
            own.execute("CREATE TABLE orders (item TEXT)")
        return address
    fresh_database: FreshDatabase = request.getfixturevalue("fresh_database")
    return fresh_database()


@pytest.fixture
def elsewhere(kind: Kind, there: str, app: App) -> Iterator[Caller]:
    """A program that is connected to it."""
    yield from calling(kind.make(there, autocommit=False), app)


def test_another_database_than_the_stores_is_refused(
    app: App, mail: Mail, elsewhere: Caller, there: str, address: str
) -> None:
    # By the name of a file, or of the database behind a URL's last slash.
    names = [re.escape(Path(each.partition("?")[0]).name) for each in (there, address)]
    said = "to .*{}.*, and the jobs are in .*{}.*: lend one to that".format(*names)
    for _ in range(2):
        with pytest.raises(WrongConnection, match=said):
            elsewhere.enqueue(mail, to="Ada")
    elsewhere.commit()

    assert ids(app) == []


def test_what_is_no_connection_is_refused_with_the_list_of_those_that_work(
    tmp_path: Path, url: str
) -> None:
    with closing(sqlite3.connect(":memory:")) as memory:
        for address in (url, f"sqlite:///{tmp_path / 'jobs.db'}"):
            app = App(address)
            mail = app.task(name="mail")(mail_to)
            for lent in (object(), "postgresql:///shop", app, memory):
                if lent is memory and address != url:
                    continue
                with pytest.raises(WrongConnection, match=r"SQLAlchemy's Connection"):
                    mail.options(connection=lent).enqueue_sync(to="Ada")
            app.close_sync()


def test_a_driver_that_isnt_spoken_to_is_refused_with_those_that_are(url: str) -> None:
    engine = create_engine("sqlite://")
    app = App(url)
    mail = app.task(name="mail")(mail_to)
    with (
        Session(engine) as session,
        pytest.raises(WrongConnection, match=r"sqlite3.*use psycopg under it"),
    ):
        mail.options(connection=session).enqueue_sync(to="Ada")
    engine.dispose()
    assert ids(app) == []
    app.close_sync()


def test_a_session_whose_flush_failed_is_refused(url: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    Base.metadata.create_all(engine)
    app = App(url)
    mail = app.task(name="mail")(mail_to)
    with Session(engine) as session:
        session.add_all([Order(id=1, item="lamp"), Order(id=1, item="lamp")])
        with pytest.raises(IntegrityError):
            session.flush()
        with pytest.raises(WrongConnection, match="roll it back first"):
            mail.options(connection=session).enqueue_sync(to="Ada")
        session.rollback()
        job_id = mail.options(connection=session).enqueue_sync(to="Ada")
        session.commit()
    engine.dispose()

    assert ids(app) == [job_id]
    app.close_sync()


# A port that nobody listens on.
NOWHERE = "postgresql://127.0.0.1:1/nowhere"


def test_a_session_that_cant_connect_says_so(url: str) -> None:
    engine = create_engine(make_url(NOWHERE).set(drivername="postgresql+psycopg"))
    app = App(url)
    mail = app.task(name="mail")(mail_to)
    with (
        Session(engine) as session,
        django_wrapper(NOWHERE) as wrapper,
    ):
        for lent in (session, wrapper):
            with pytest.raises(StoreUnavailable, match="can't reach its database"):
                mail.options(connection=lent).enqueue_sync(to="Ada")
    engine.dispose()
    app.close_sync()


async def test_an_async_session_that_cant_connect_says_so(url: str) -> None:
    async with App(url) as app:
        mail = app.task(name="mail")(mail_to)
        for driver in ("postgresql+asyncpg", "postgresql+psycopg"):
            engine = create_async_engine(make_url(NOWHERE).set(drivername=driver))
            async with AsyncSession(engine) as session:
                task = mail.options(connection=session)
                with pytest.raises(StoreUnavailable, match="can't reach its database"):
                    await task.enqueue(to="Ada")
            await engine.dispose()


def test_a_session_of_several_databases_has_to_say_which(url: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    app = App(url)
    mail = app.task(name="mail")(mail_to)
    with Session(binds={Order: engine}) as session:
        with pytest.raises(WrongConnection, match="has several databases"):
            mail.options(connection=session).enqueue_sync(to="Ada")
        one = session.connection(bind_arguments={"mapper": Order})
        job_id = mail.options(connection=one).enqueue_sync(to="Ada")
        session.commit()
    engine.dispose()

    assert ids(app) == [job_id]
    app.close_sync()


def test_a_session_without_a_database_has_to_be_bound(url: str) -> None:
    app = App(url)
    mail = app.task(name="mail")(mail_to)
    for made in (Session, sqlmodel.Session, scoped_session(sessionmaker())):
        with (
            made() as session,
            pytest.raises(WrongConnection, match=r"bind it, as in Session\(engine\)"),
        ):
            mail.options(connection=session).enqueue_sync(to="Ada")
    app.close_sync()


async def test_an_async_session_without_a_database_has_to_be_bound(url: str) -> None:
    async with App(url) as app, AsyncSession() as session:
        mail = app.task(name="mail")(mail_to).options(connection=session)
        with pytest.raises(WrongConnection, match="bind it"):
            await mail.enqueue(to="Ada")


async def test_the_inner_session_of_an_async_one_is_refused(url: str) -> None:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    async with App(url) as app, AsyncSession(engine) as session:
        mail = app.task(name="mail")(mail_to)

        def place_order(inner: Session) -> None:
            mail.options(connection=inner).enqueue_sync(to="Ada")

        with pytest.raises(WrongConnection, match="lend that, to the awaited call"):
            await session.run_sync(place_order)
    await engine.dispose()


async def test_one_with_a_statement_under_way_is_refused(url: str) -> None:
    own = await asyncpg.connect(url)
    async with App(url) as app:
        mail = app.task(name="mail")(mail_to).options(connection=own)
        await mail.enqueue(to="Ada")
        busy = asyncio.create_task(own.execute("SELECT pg_sleep(0.3)"))
        await asyncio.sleep(0)  # until that is sent
        with pytest.raises(WrongConnection, match="await one after the other"):
            await mail.enqueue(to="Bo")
        await busy
        assert len((await app.list()).jobs) == 1
    await own.close()


@pytest.mark.parametrize("before", ["", "connected", "begun"])
async def test_a_session_that_two_coroutines_use_is_refused(
    url: str, before: str
) -> None:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    async with App(url) as app, AsyncSession(engine) as session:
        mail = app.task(name="mail")(mail_to).options(connection=session)
        if before:
            await session.connection()
        if before == "begun":
            await session.execute(text("SELECT 1"))
        found = await asyncio.gather(
            *(mail.enqueue(to=name) for name in ("Ada", "Bo", "Cy")),
            return_exceptions=True,
        )
        await session.commit()
        assert len((await app.list()).jobs) == 1
    await engine.dispose()

    refused = [each for each in found if isinstance(each, WrongConnection)]
    assert len(refused) == 2
    assert all("enqueue_many()" in str(each) for each in refused)


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_one_of_another_event_loop_is_refused_and_is_of_use_there(
    url: str, *, wrapped: bool, is_begun: bool
) -> None:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    app = App(url)
    mail = app.task(name="mail")(mail_to)

    async def connect() -> Any:
        if not wrapped:
            return await asyncpg.connect(url)
        own = await engine.connect()
        if is_begun:
            await own.execute(text("SELECT 1"))
        return own

    async def enqueue(own: Any, to: str) -> None:
        await mail.options(connection=own).enqueue(to=to)

    async def end(own: Any) -> None:
        await enqueue(own, "Bo")
        if wrapped:
            await own.commit()
        await own.close()
        await engine.dispose()

    with asyncio.Runner() as first:
        own = first.run(connect())
        with (
            asyncio.Runner() as second,
            pytest.raises(WrongConnection, match="in another event loop"),
        ):
            second.run(enqueue(own, "Ada"))
        first.run(end(own))

    assert [job.payload for job in app.list_sync().jobs] == [{"to": "Bo"}]
    app.close_sync()


def test_django_doesnt_commit_what_failed_inside_of_atomic(url: str) -> None:
    from django.db import transaction  # noqa: PLC0415 - once it is configured

    app = App(url)
    mail = app.task(name="mail")(mail_to)
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("CREATE TABLE orders (item text)")
        app.open_sync()
        own.execute("ALTER TABLE rowlock.live RENAME TO gone")
    with django_wrapper(url) as wrapper:

        @transaction.atomic(wrapper.alias)
        def place_order() -> None:
            with pytest.raises(SchemaMismatch):
                mail.options(connection=wrapper).enqueue_sync(to="Ada")
            wrapper.cursor().execute(ORDER)

        with pytest.raises(transaction.TransactionManagementError):
            place_order()
    app.close_sync()
