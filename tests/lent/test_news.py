"""Workers hear of a job once its caller has committed, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rowlock import App, KeyedTask

from .callers import ORDER, Caller
from .kinds import KINDS, ON_POSTGRES

Mail = KeyedTask[..., Any]
Own = psycopg.Connection[Any]

on_postgres = pytest.mark.parametrize("kind", ON_POSTGRES, ids=lambda kind: kind.name)


@pytest.fixture
def listening(address: str) -> Iterator[Own]:
    """A connection that hears what is told."""
    with psycopg.connect(address, autocommit=True) as own:
        own.execute('LISTEN "rowlock:rowlock"')
        yield own


def heard(listening: Own) -> list[str]:
    listening.execute("SELECT 1")
    return [notice.payload for notice in listening.notifies(timeout=0.2)]


@on_postgres
def test_the_notification_comes_with_the_commit(
    mail: Mail, caller: Caller, listening: Own
) -> None:
    caller.run(ORDER)
    caller.enqueue(mail.options(queue="letters"), to="Ada")
    assert heard(listening) == []
    caller.commit()

    (notice,) = heard(listening)
    assert '"letters"' in notice


@on_postgres
def test_no_notification_comes_of_what_is_rolled_back(
    mail: Mail, caller: Caller, listening: Own
) -> None:
    caller.enqueue(mail, to="Ada")
    caller.rollback()
    with caller.undone():
        caller.enqueue(mail, to="Bo")
    caller.commit()

    assert heard(listening) == []


@on_postgres
def test_in_autocommit_the_notification_follows_at_once(
    mail: Mail, quick_caller: Caller, listening: Own
) -> None:
    quick_caller.enqueue(mail, to="Ada")

    assert len(heard(listening)) == 1


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.store == "sqlite"],
    ids=lambda kind: kind.name,
)
def test_on_sqlite_a_sleeper_is_woken_by_the_commit(
    app: App, mail: Mail, caller: Caller
) -> None:
    async def woken(seconds: float) -> bool:
        return await sleeper.wait(timedelta(seconds=seconds))

    sleeper = app._store.wakeups()
    caller.run(ORDER)
    caller.enqueue(mail, to="Ada")
    while app._portal.wait(woken(0.1)):
        """What was told before the transaction is of no interest."""
    caller.commit()

    assert app._portal.wait(woken(10))
    sleeper.close()
