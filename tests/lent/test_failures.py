"""What goes wrong at the server, on a connection of each kind."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
import pytest

from rowlock import (
    App,
    KeyedTask,
    OutcomeUnknown,
    RowlockError,
    SchemaMismatch,
    StoreUnavailable,
    WrongConnection,
)

from .callers import ORDER, Awaited, Caller
from .kinds import ON_POSTGRES, Kind

Mail = KeyedTask[..., Any]

pytestmark = pytest.mark.parametrize("kind", ON_POSTGRES, ids=lambda kind: kind.name)

# What ends the session that inserts a job, once it is inserted or as it is committed.
DEADLY = """
CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
CREATE TRIGGER die AFTER INSERT ON rowlock.live
    FOR EACH STATEMENT EXECUTE FUNCTION die();
"""


LOST = "your transaction is lost, so do all of it again, on a new connection"


@pytest.mark.parametrize(
    ("autocommit", "expected", "said"),
    [
        (True, OutcomeUnknown, "without one look first whether the job is there"),
        (False, StoreUnavailable, LOST),
    ],
)
# What each library says of a connection that is gone is its own.
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_law_15_where_the_insert_is_the_commit_its_end_may_be_unknown(
    app: App,
    mail: Mail,
    kind: Kind,
    address: str,
    expected: type[Exception],
    said: str,
    *,
    autocommit: bool,
) -> None:
    with psycopg.connect(address, autocommit=True) as own:
        own.execute(DEADLY)
    caller = kind.make(address, autocommit=autocommit)
    with pytest.raises(expected, match=said):
        caller.enqueue(mail, to="Ada")
    with suppress(Exception):
        caller.close()
    if isinstance(caller, Awaited):
        caller.end(app)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_one_that_the_server_has_ended_is_told_so(
    app: App, mail: Mail, kind: Kind, address: str
) -> None:
    caller = kind.make(address, autocommit=False)
    caller.run("SET application_name TO 'lent'")
    caller.commit()
    with psycopg.connect(address, autocommit=True) as own:
        ended = own.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'lent'"
        ).fetchall()
    said = f"{LOST}|lend an open one|roll your transaction back, and try all of it"
    with pytest.raises((StoreUnavailable, WrongConnection), match=said):
        caller.enqueue(mail, to="Ada")
    with suppress(Exception):
        caller.close()
    if isinstance(caller, Awaited):
        caller.end(app)

    assert ended == [(True,)]


def test_a_transaction_that_only_reads_is_told_so(
    app: App, mail: Mail, caller: Caller
) -> None:
    caller.run("SET TRANSACTION READ ONLY")
    with pytest.raises(WrongConnection, match=r"is READ ONLY, or .* to a standby"):
        caller.enqueue(mail, to="Ada")
    caller.rollback()
    caller.enqueue(mail, to="Bo")
    caller.commit()

    assert len(app.list_sync().jobs) == 1


@pytest.mark.parametrize("setting", ["lock_timeout", "statement_timeout"])
def test_after_the_callers_own_timeout_all_of_its_transaction_is_to_be_tried_again(
    app: App, mail: Mail, caller: Caller, address: str, setting: str
) -> None:
    caller.run(ORDER)
    caller.run(f"SET LOCAL {setting} = '100ms'")
    with psycopg.connect(address) as other:
        other.execute("LOCK TABLE rowlock.live")
        with pytest.raises(
            StoreUnavailable, match="roll your transaction back, and try all of it"
        ) as raised:
            caller.enqueue(mail, to="Ada")
    with pytest.raises(WrongConnection, match="roll it back first"):
        caller.enqueue(mail, to="Ada")
    caller.rollback()
    caller.enqueue(mail, to="Bo")
    caller.commit()

    assert "nothing was written" not in str(raised.value)
    assert len(app.list_sync().jobs) == 1


def test_a_duplicate_that_the_snapshot_lacks_raises_the_drivers_own_error(
    app: App, mail: Mail, caller: Caller
) -> None:
    keyed = mail.options(idempotency_key="k")
    caller.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    caller.run("SELECT 1")
    keyed.enqueue_sync(to="Ada")
    with pytest.raises(Exception, match="could not serialize") as raised:
        caller.enqueue(keyed, to="Bo")
    caller.rollback()

    assert not isinstance(raised.value, RowlockError)
    state = {getattr(raised.value, name, None) for name in ("sqlstate", "pgcode")}
    assert state - {None} == {"40001"}
    assert len(app.list_sync().jobs) == 1


def test_a_schema_that_isnt_there_is_told_with_what_to_run(
    mail: Mail, caller: Caller, address: str
) -> None:
    mail.enqueue_sync(to="Ada")
    with psycopg.connect(address, autocommit=True) as own:
        own.execute("ALTER TABLE rowlock.live RENAME TO gone")
    with pytest.raises(SchemaMismatch, match="rowlock migrate"):
        caller.enqueue(mail, to="Bo")
    caller.rollback()
