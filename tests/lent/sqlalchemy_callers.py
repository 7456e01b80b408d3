"""Programs with a connection or a session of SQLAlchemy's, or one of SQLModel's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlmodel
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlmodel.ext.asyncio.session import AsyncSession as SQLModelAsyncSession

from .callers import Awaited, Sync


def engine_url(address: str, driver: str) -> URL:
    url = address if "://" in address else f"sqlite:///{address}"
    return make_url(url).set(drivername=driver)


def engine_options(*, autocommit: bool) -> dict[str, Any]:
    return {"isolation_level": "AUTOCOMMIT"} if autocommit else {}


class SQLAlchemy(Sync):
    """A Connection, a Session, a scoped one or SQLModel's, on a driver."""

    def __init__(self, url: str, driver: str, kind: str, *, autocommit: bool) -> None:
        self.engine: Engine = create_engine(
            engine_url(url, driver), **engine_options(autocommit=autocommit)
        )
        kinds: dict[str, Callable[[], Any]] = {
            "Connection": self.engine.connect,
            "Session": lambda: Session(self.engine),
            "scoped_session": lambda: scoped_session(sessionmaker(self.engine)),
            "SQLModel": lambda: sqlmodel.Session(self.engine),
        }
        self.lent = kinds[kind]()

    def run(self, statement: str) -> None:
        # By any name: SQLModel calls its own session's deprecated.
        connection = self.lent
        if not hasattr(connection, "exec_driver_sql"):
            connection = connection.connection()
        connection.execute(text(statement))

    def commit(self) -> None:
        self.lent.commit()

    def rollback(self) -> None:
        self.lent.rollback()

    @contextmanager
    def undone(self) -> Iterator[None]:
        inner = self.lent.begin_nested()
        yield
        inner.rollback()

    def close(self) -> None:
        self.lent.close()
        self.engine.dispose()


class AsyncSQLAlchemy(Awaited):
    """The same of those that are awaited."""

    def __init__(self, url: str, driver: str, kind: str, *, autocommit: bool) -> None:
        super().__init__()
        self.engine: AsyncEngine = create_async_engine(
            engine_url(url, driver), **engine_options(autocommit=autocommit)
        )
        makers = async_sessionmaker(self.engine)
        kinds: dict[str, Callable[[], Any]] = {
            "AsyncConnection": lambda: AsyncConnection(self.engine),
            "AsyncSession": lambda: AsyncSession(self.engine),
            "async_scoped_session": lambda: async_scoped_session(
                makers, scopefunc=lambda: self
            ),
            "SQLModel": lambda: SQLModelAsyncSession(self.engine),
        }
        self.lent = kinds[kind]()
        if kind == "AsyncConnection":
            self.wait(self.lent.start())

    def run(self, statement: str) -> None:
        async def run() -> None:
            connection = self.lent
            if not hasattr(connection, "exec_driver_sql"):
                connection = await connection.connection()
            await connection.execute(text(statement))

        self.wait(run())

    def commit(self) -> None:
        self.wait(self.lent.commit())

    def rollback(self) -> None:
        self.wait(self.lent.rollback())

    @contextmanager
    def undone(self) -> Iterator[None]:
        inner = self.lent.begin_nested()
        self.wait(inner.start())
        yield
        self.wait(inner.rollback())

    def close(self) -> None:
        self.wait(self.lent.close())
        self.wait(self.engine.dispose())
