"""Every kind of connection that may be lent, by its name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from . import callers, django_caller, sqlalchemy_callers
from .callers import Caller

PSYCOPG = "postgresql+psycopg"
PSYCOPG2 = "postgresql+psycopg2"
ASYNCPG = "postgresql+asyncpg"
SQLITE = "sqlite"
AIOSQLITE = "sqlite+aiosqlite"


class Kind(NamedTuple):
    """A kind; `make` is given the address of the database, and `autocommit=`."""

    name: str
    store: str
    make: Callable[..., Caller]

    @property
    def is_awaited(self) -> bool:
        """Whether it is lent to an awaited call."""
        return any(word in self.name for word in ("async", "Async", "aio"))

    @property
    def opens_again(self) -> bool:
        """Whether one that is closed is of use again: it connects anew."""
        return "ession" in self.name or "Model" in self.name or "django" in self.name


def _sync(driver: str, *kinds: str) -> list[Kind]:
    store = driver.partition("+")[0]
    return [
        Kind(
            f"sqlalchemy-{kind}-{driver}",
            store,
            partial(sqlalchemy_callers.SQLAlchemy, driver=driver, kind=kind),
        )
        for kind in kinds
    ]


def _awaited(driver: str, *kinds: str) -> list[Kind]:
    store = driver.partition("+")[0]
    return [
        Kind(
            f"sqlalchemy-{kind}-{driver}",
            store,
            partial(sqlalchemy_callers.AsyncSQLAlchemy, driver=driver, kind=kind),
        )
        for kind in kinds
    ]


KINDS = [
    Kind("psycopg", "postgresql", callers.Psycopg),
    Kind("psycopg-async", "postgresql", callers.AsyncPsycopg),
    Kind("psycopg2", "postgresql", callers.Psycopg2),
    Kind("asyncpg", "postgresql", callers.Asyncpg),
    Kind("asyncpg-pooled", "postgresql", callers.PooledAsyncpg),
    *_sync(PSYCOPG, "Connection", "Session", "scoped_session", "SQLModel"),
    *_sync(PSYCOPG2, "Connection", "Session"),
    *_awaited(PSYCOPG, "AsyncConnection", "AsyncSession"),
    *_awaited(
        ASYNCPG, "AsyncConnection", "AsyncSession", "async_scoped_session", "SQLModel"
    ),
    Kind("django-postgres", "postgresql", django_caller.Django),
    Kind("django-proxy", "postgresql", partial(django_caller.Django, proxy=True)),
    Kind("sqlite3", "sqlite", callers.SQLite),
    Kind("aiosqlite", "sqlite", callers.Aiosqlite),
    *_sync(SQLITE, "Connection", "Session", "scoped_session", "SQLModel"),
    *_awaited(
        AIOSQLITE, "AsyncConnection", "AsyncSession", "async_scoped_session", "SQLModel"
    ),
    Kind("django-sqlite", "sqlite", django_caller.Django),
]

ON_POSTGRES = [kind for kind in KINDS if kind.store == "postgresql"]
