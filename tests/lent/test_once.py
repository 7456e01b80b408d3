"""`app.once`: for one caller only, in its own transaction, on every kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing

import psycopg
import pytest

from rowlock import App, UsageError, WrongConnection

from .callers import ORDER, Caller
from .conftest import calling
from .kinds import Kind


@pytest.fixture
def other(kind: Kind, address: str, app: App) -> Iterator[Caller]:
    """Another program of the same kind."""
    yield from calling(kind.make(address, autocommit=False), app)


def test_the_first_caller_is_told_so_and_every_other_is_not(
    app: App, caller: Caller, other: Caller
) -> None:
    assert caller.once(app, "k")
    assert not caller.once(app, "k")
    assert caller.once(app, "K")
    caller.commit()

    assert not other.once(app, "k")
    assert other.once(app, "another")
    other.rollback()
    assert caller.once(app, "another")


def test_a_key_is_gone_with_the_transaction_that_took_it(
    app: App, caller: Caller
) -> None:
    caller.run(ORDER)
    assert caller.once(app, "k")
    caller.rollback()

    assert caller.once(app, "k")


def test_a_key_is_gone_with_the_savepoint_in_which_it_was_taken(
    app: App, caller: Caller
) -> None:
    with caller.undone():
        assert caller.once(app, "k")

    assert caller.once(app, "k")
    caller.commit()
    assert not caller.once(app, "k")


def test_in_autocommit_there_is_no_effect_to_take_a_key_with(
    app: App, quick_caller: Caller, other: Caller
) -> None:
    with pytest.raises(
        WrongConnection, match=r"lent to once\(\) is in no .* begin one"
    ):
        quick_caller.once(app, "k")

    assert other.once(app, "k")


def ask(app: App, kind: Kind, address: str) -> bool:
    """Ask on a connection of one's own, and commit."""
    own: sqlite3.Connection | psycopg.Connection
    if kind.store == "sqlite":
        own = sqlite3.connect(address, timeout=20)
    else:
        own = psycopg.connect(address)
    with closing(own):
        is_first = app.once_sync("k", connection=own)
        own.commit()
    return is_first


@pytest.mark.parametrize("commits", [True, False])
def test_who_waits_is_the_first_where_the_other_rolls_back(
    app: App, kind: Kind, address: str, caller: Caller, *, commits: bool
) -> None:
    assert caller.once(app, "k")
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(ask, app, kind, address)
        assert not wait([waiting], timeout=0.2).done
        if commits:
            caller.commit()
        else:
            caller.rollback()

        assert waiting.result(20) is not commits
    assert not caller.once(app, "k")


def test_a_call_without_a_transaction_is_refused(app: App) -> None:
    with pytest.raises(UsageError, match=r"connection=connection.*stay where"):
        app.once_sync("k", connection=None)


@pytest.mark.parametrize("key", ["", "k" * 201, None, 7, "\0"])
def test_what_is_no_key_is_refused(app: App, caller: Caller, key: str) -> None:
    with pytest.raises(UsageError, match="key="):
        caller.once(app, key)
