"""What SQLite refuses, on a connection of each kind."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from rowlock import App, KeyedTask, StoreUnavailable, WrongConnection

from .callers import ORDER, Caller
from .kinds import KINDS

Mail = KeyedTask[..., Any]

pytestmark = pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.store == "sqlite"],
    ids=lambda kind: kind.name,
)

ALL_OF_IT = "roll your transaction back, and try all of it again"
# Which begins a transaction that reads, in each of the libraries.
READS = ("SAVEPOINT own", "SELECT item FROM orders")


def test_one_that_has_read_before_another_wrote_is_to_be_rolled_back(
    app: App, mail: Mail, caller: Caller
) -> None:
    for statement in READS:
        caller.run(statement)
    mail.enqueue_sync(to="Ada")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=f"{ALL_OF_IT}.*BEGIN IMMEDIATE"):
            caller.enqueue(mail, to="Bo")
    caller.rollback()
    caller.enqueue(mail, to="Cy")
    caller.commit()

    assert len(app.list_sync().jobs) == 2


def test_one_that_has_read_while_another_writes_is_to_be_rolled_back(
    app: App, mail: Mail, caller: Caller, address: str
) -> None:
    app.list_sync()
    caller.run("PRAGMA busy_timeout = 10")
    for statement in READS:
        caller.run(statement)
    with closing(sqlite3.connect(address, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute(ORDER)
        with pytest.raises(StoreUnavailable, match=f"locked.*{ALL_OF_IT}"):
            caller.enqueue(mail, to="Ada")
        other.execute("COMMIT")
    caller.rollback()


def test_one_that_only_reads_is_told_so(
    app: App, mail: Mail, caller: Caller, quick_caller: Caller
) -> None:
    for each in (caller, quick_caller):
        each.run("PRAGMA query_only = 1")
        with pytest.raises(WrongConnection, match=r"only reads, by mode=ro"):
            each.enqueue(mail, to="Ada")
        each.rollback()
        each.run("PRAGMA query_only = 0")
        each.enqueue(mail, to="Bo")
        each.commit()

    assert len(app.list_sync().jobs) == 2


def test_in_no_transaction_the_call_alone_is_to_be_tried_again(
    mail: Mail, quick_caller: Caller, address: str
) -> None:
    quick_caller.run("PRAGMA busy_timeout = 10")
    with closing(sqlite3.connect(address, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="nothing was written, try again"):
            quick_caller.enqueue(mail, to="Ada")
        other.execute("COMMIT")
    quick_caller.enqueue(mail, to="Ada")
