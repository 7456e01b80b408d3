"""Success in the handler's transaction, whatever its connection is."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from rowlock import (
    App,
    ClaimLost,
    KeyedTask,
    Status,
    StoreUnavailable,
    WrongConnection,
    _outcome,
)
from rowlock._job import Claim, ClaimKey

from .callers import ORDER, Awaited, Caller
from .claims import claim, run
from .kinds import KINDS, ON_POSTGRES, Kind

Mail = KeyedTask[..., Any]


class Base(DeclarativeBase): ...


class Order(Base):
    """An order, as a session has it that hasn't written it yet."""

    __tablename__ = "orders"
    item: Mapped[str] = mapped_column(primary_key=True)


@pytest.fixture
def held(app: App, mail: Mail) -> Claim:
    """A claim of a job."""
    mail.enqueue_sync(to="Ada")
    return claim(app)


def complete(app: App, caller: Caller, key: ClaimKey) -> None:
    outcome, lent = _outcome.succeeded(key, "1"), app._store.lent
    if caller.is_awaited:
        caller.wait(lent.complete(outcome, caller.lent))  # type: ignore[attr-defined]  # of those
    else:
        lent.complete_sync(outcome, caller.lent)


def hold(app: App, caller: Caller, key: ClaimKey) -> None:
    if caller.is_awaited:
        caller.wait(app._store.lent.hold(key, caller.lent))  # type: ignore[attr-defined]  # of those
    else:
        app._store.lent.hold_sync(key, caller.lent)


def orders(kind: Kind, address: str) -> int:
    own: Any = (sqlite3 if kind.store == "sqlite" else psycopg).connect(address)
    with closing(own):
        ((count,),) = own.execute("SELECT count(*) FROM orders").fetchall()
    return int(count)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_success_and_the_handlers_rows_are_one(
    app: App, caller: Caller, held: Claim, kind: Kind, address: str, ends: str
) -> None:
    caller.run(ORDER)
    complete(app, caller, held.key)
    getattr(caller, ends)()
    caller.commit()

    job = app.get_sync(held.job_id)
    stands = ends == "commit"
    assert job.status is (Status.SUCCEEDED if stands else Status.RUNNING)
    assert job.result == (1 if stands else None)
    assert orders(kind, address) == int(stands)


def test_law_10_a_completed_job_keeps_its_key_where_it_was_to(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k", idempotency_for=3600)
    keyed.enqueue_sync(to="Ada")
    held = claim(app)
    complete(app, caller, held.key)
    caller.commit()

    assert keyed.enqueue_sync(to="Bo") is None
    job = app.find_sync(mail, "k")
    assert job is not None
    assert (job.id, job.status) == (held.job_id, Status.SUCCEEDED)
    assert job.finished_at is not None
    assert job.key_until == job.finished_at + timedelta(hours=1)


def test_a_savepoint_takes_a_success_back(
    app: App, caller: Caller, held: Claim
) -> None:
    caller.run(ORDER)
    with caller.undone():
        complete(app, caller, held.key)
    caller.commit()

    assert app.get_sync(held.job_id).status is Status.RUNNING


def test_law_6_what_was_written_without_the_claim_cant_be_committed(
    app: App, caller: Caller, held: Claim, kind: Kind, address: str
) -> None:
    run(app, app._store.finish([_outcome.snoozed(held.key, timedelta(0))]))
    second = claim(app)

    caller.run(ORDER)
    with pytest.raises(ClaimLost) as error:
        complete(app, caller, held.key)
    # As who catches everything may do; some libraries say then that it has failed.
    with suppress(Exception):
        caller.commit()

    assert (error.value.job_id, error.value.claim) == held.key
    assert orders(kind, address) == 0
    # The connection is of use again, once its transaction is over.
    caller.rollback()
    caller.run(ORDER)
    complete(app, caller, second.key)
    caller.commit()
    assert app.get_sync(held.job_id).status is Status.SUCCEEDED
    assert orders(kind, address) == 1


@pytest.fixture
def lost(app: App, held: Claim) -> Claim:
    """A claim whose job is another's."""
    run(app, app._store.finish([_outcome.snoozed(held.key, timedelta(0))]))
    return held


@pytest.mark.parametrize(
    "kind", [each for each in KINDS if each.opens_again], ids=lambda kind: kind.name
)
def test_law_6_what_a_session_was_to_write_isnt_written_without_the_claim(
    app: App, caller: Caller, lost: Claim, kind: Kind, address: str
) -> None:
    """Nor by Django, whose `atomic` goes on where the error is swallowed."""
    if hasattr(caller.lent, "add"):
        caller.lent.add(Order(item="lamp"))
    with pytest.raises(ClaimLost):
        complete(app, caller, lost.key)
    if not hasattr(caller.lent, "add"):
        with suppress(Exception):
            caller.run(ORDER)
    with suppress(Exception):
        caller.commit()

    assert orders(kind, address) == 0


def test_in_autocommit_there_is_nothing_to_join(
    app: App, quick_caller: Caller, held: Claim
) -> None:
    with pytest.raises(WrongConnection, match="begin one"):
        complete(app, quick_caller, held.key)

    assert app.get_sync(held.job_id).status is Status.RUNNING


@pytest.mark.parametrize("kind", ON_POSTGRES, ids=lambda kind: kind.name)
def test_what_is_held_is_passed_by_and_can_be_completed(
    app: App, caller: Caller, held: Claim
) -> None:
    hold(app, caller, held.key)
    lost = _outcome.lost(held)
    (settled,) = run(app, app._store.finish([lost]))
    complete(app, caller, held.key)
    caller.commit()

    assert settled.is_locked
    assert app.get_sync(held.job_id).status is Status.SUCCEEDED


@pytest.mark.parametrize("kind", ON_POSTGRES, ids=lambda kind: kind.name)
def test_one_attempt_holds_and_completes_on_one_connection(
    app: App, caller: Caller, held: Claim, kind: Kind, address: str
) -> None:
    elsewhere = kind.make(address, autocommit=False)
    hold(app, elsewhere, held.key)
    for call in (hold, complete):
        with pytest.raises(
            WrongConnection, match=r"holds job .* on another connection"
        ):
            call(app, caller, held.key)
        caller.rollback()
    elsewhere.rollback()
    complete(app, caller, held.key)
    caller.commit()
    elsewhere.close()
    if isinstance(elsewhere, Awaited):
        elsewhere.end()

    assert app.get_sync(held.job_id).status is Status.SUCCEEDED


@pytest.mark.parametrize("kind", ON_POSTGRES[:1], ids=lambda kind: kind.name)
def test_a_row_that_somebody_else_locks_is_no_fault_of_the_handlers(
    app: App, caller: Caller, held: Claim, address: str
) -> None:
    hold(app, caller, held.key)
    caller.rollback()
    with psycopg.connect(address) as other:
        other.execute("SELECT FROM rowlock.live FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="Somebody's transaction locks"):
            complete(app, caller, held.key)
