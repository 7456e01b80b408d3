"""On SQLite the first job of a file brings the schema with it, on any kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from rowlock import App

from .callers import ORDER, Caller, mail_to
from .conftest import calling
from .kinds import KINDS, Kind

ON_SQLITE = [kind for kind in KINDS if kind.store == "sqlite"]
RAW = [kind for kind in ON_SQLITE if kind.name == "sqlite3"]


@pytest.fixture
def unopened(address: str) -> Iterator[App]:
    """An app that has done nothing yet."""
    app = App(f"sqlite:///{address}")
    app.task(name="mail")(mail_to)
    yield app
    app.close_sync()


@pytest.fixture
def caller(kind: Kind, address: str, unopened: App) -> Iterator[Caller]:
    yield from calling(kind.make(address, autocommit=False), unopened)


def has_schema(address: str) -> bool:
    with closing(sqlite3.connect(address)) as own:
        found = own.execute("SELECT 1 FROM sqlite_master WHERE name = 'rowlock_rows'")
        return bool(found.fetchall())


@pytest.mark.parametrize("kind", ON_SQLITE, ids=lambda kind: kind.name)
def test_in_a_transaction_that_writes(
    unopened: App, caller: Caller, address: str
) -> None:
    caller.run(ORDER)
    caller.enqueue(unopened.tasks["mail"], to="Ada")
    caller.rollback()
    assert not has_schema(address)
    caller.run(ORDER)
    job_id = caller.enqueue(unopened.tasks["mail"], to="Ada")
    caller.commit()

    assert [job.id for job in unopened.list_sync().jobs] == [job_id]


# The others leave no cursor half read.
@pytest.mark.parametrize("kind", RAW, ids=lambda kind: kind.name)
def test_beside_what_the_caller_reads(
    unopened: App, caller: Caller, address: str
) -> None:
    with closing(sqlite3.connect(address)) as own:
        own.executemany("INSERT INTO orders VALUES (?)", [("lamp",), ("desk",)])
        own.commit()
    reading = caller.lent.execute("SELECT item FROM orders")
    reading.fetchone()
    job_id = caller.enqueue(unopened.tasks["mail"], to="Ada")
    caller.commit()
    reading.close()

    assert [job.id for job in unopened.list_sync().jobs] == [job_id]
