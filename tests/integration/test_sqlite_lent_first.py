"""A lent connection whose transaction is the first that Rowlock sees of a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowlock import App, SchemaMismatch, Status, Task
from rowlock.testing import drain_sync


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that doesn't exist yet."""
    return tmp_path / "shop.db"


@pytest.fixture
def app(path: Path) -> Iterator[App]:
    """An app on it that has made no call."""
    app = App(f"sqlite:///{path}")
    yield app
    app.close_sync()


@pytest.fixture
def receipt(app: App) -> Task[[int], None]:
    """Its one task."""

    @app.task
    def send_receipt(order_id: int) -> None: ...

    return send_receipt


@pytest.fixture
def own(path: Path) -> Iterator[sqlite3.Connection]:
    """The user's own connection, which holds the lock."""
    with closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE orders (id INTEGER)")
        own.execute("INSERT INTO orders VALUES (42)")
        yield own


def orders(own: sqlite3.Connection) -> int:
    (count,) = own.execute("SELECT count(*) FROM orders").fetchone()
    return int(count)


def test_its_commit_brings_the_job_and_the_schema(
    app: App, receipt: Task[[int], None], own: sqlite3.Connection
) -> None:
    lending = receipt.options(connection=own)
    assert [lending.enqueue_sync(42), lending.enqueue_sync(43)] == [1, 2]
    assert own.in_transaction
    own.commit()

    assert drain_sync(app).succeeded == 2
    assert app.get_sync(1).status is Status.SUCCEEDED


def test_its_rollback_takes_both_away_and_the_next_call_makes_the_schema(
    app: App, receipt: Task[[int], None], own: sqlite3.Connection
) -> None:
    receipt.options(connection=own).enqueue_sync(42)
    own.rollback()

    assert own.execute("SELECT name FROM sqlite_master").fetchall() == [("orders",)]
    assert app.list_sync().jobs == ()
    receipt.options(connection=own).enqueue_sync(42)
    own.commit()
    assert len(app.list_sync().jobs) == 1


def test_a_second_program_finds_the_schema_there(
    path: Path, receipt: Task[[int], None], own: sqlite3.Connection
) -> None:
    receipt.options(connection=own).enqueue_sync(42)
    own.commit()
    other = App(f"sqlite:///{path}")
    again = other.task(receipt.function)
    own.execute("INSERT INTO orders VALUES (43)")

    assert again.options(connection=own).enqueue_sync(43) == 2
    own.commit()
    assert len(other.list_sync().jobs) == 2
    other.close_sync()


def test_what_the_caller_has_set_on_the_connection_is_kept(
    app: App, receipt: Task[[int], None], own: sqlite3.Connection
) -> None:
    own.text_factory, own.row_factory = bytes, sqlite3.Row
    receipt.options(connection=own).enqueue_sync(42)
    own.commit()
    own.execute("INSERT INTO orders VALUES (43)")

    assert (
        App(app.url).task(receipt.function).options(connection=own).enqueue_sync(43)
        == 2
    )
    assert (own.text_factory, own.row_factory) == (bytes, sqlite3.Row)


def test_of_a_schema_that_isnt_ours_it_says_so_and_the_transaction_lives(
    receipt: Task[[int], None], own: sqlite3.Connection
) -> None:
    receipt.options(connection=own).enqueue_sync(42)
    own.execute("UPDATE rowlock_migrations SET version = 99")
    own.commit()
    own.execute("INSERT INTO orders VALUES (43)")

    with pytest.raises(SchemaMismatch, match="upgrade Rowlock"):
        receipt.options(connection=own).enqueue_sync(43)

    own.commit()
    assert orders(own) == 2
