"""Every error of psycopg becomes one of Rowlock's; what passes is told apart."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors as pg

from rowlock._errors import (
    ConfigError,
    OutcomeUnknown,
    RowlockError,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)
from rowlock.stores.postgres.errors import (
    Forbidden,
    Locked,
    NoPartition,
    Taken,
    translate,
    translate_connecting,
)

SHOWN = "postgresql://ada@host/shop"

ALL = sorted(
    {
        each
        for each in vars(pg).values()
        if isinstance(each, type) and issubclass(each, psycopg.Error)
    },
    key=lambda each: (each.sqlstate or "", each.__name__),
)

PASSING = {
    "CheckViolation",  # without a name: a day whose partition is being detached
    "AdminShutdown",
    "CannotConnectNow",
    "ConnectionFailure",
    "CrashShutdown",
    "DatabaseDropped",
    "DeadlockDetected",
    "DiskFull",
    "IdleSessionTimeout",
    "IoError",
    "LockNotAvailable",
    "ObjectInUse",
    "OutOfMemory",
    "QueryCanceled",
    "ReadOnlySqlTransaction",
    "SerializationFailure",
    "TooManyConnections",
}
LASTING = {
    "InsufficientPrivilege",
    "InternalError_",
    "InvalidTextRepresentation",
    "NotNullViolation",
    "ProgramLimitExceeded",
    "RaiseException",
    "StatementTooComplex",
    "SyntaxError",
    "UniqueViolation",
    "UntranslatableCharacter",
}
OURS: dict[type[psycopg.Error], type[StoreError]] = {
    pg.LockNotAvailable: Locked,
    pg.DeadlockDetected: Locked,
    pg.InsufficientPrivilege: Forbidden,
    pg.UniqueViolation: Taken,
    pg.CheckViolation: NoPartition,
    pg.UndefinedTable: SchemaMismatch,
    pg.InvalidSchemaName: SchemaMismatch,
    pg.UndefinedColumn: SchemaMismatch,
    pg.UndefinedFunction: SchemaMismatch,
}


@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_every_error_has_a_place(*, is_over: bool, commits: bool) -> None:
    assert len(ALL) > 200
    for kind in ALL:
        error = translate(
            kind("out of\norder"), SHOWN, is_over=is_over, commits=commits
        )

        assert isinstance(error, StoreError), kind
        assert "out of order" in str(error) or isinstance(error, NoPartition), kind
        assert "\n" not in str(error), kind
        is_unknown = commits and (is_over or is_libpqs_own(kind))
        # It was ended before the commit came.
        is_unknown &= kind is not pg.IdleInTransactionSessionTimeout
        assert isinstance(error, OutcomeUnknown) == is_unknown, kind
        if is_over and not commits:
            assert isinstance(error, StoreUnavailable), kind


def is_libpqs_own(kind: type[psycopg.Error]) -> bool:
    return kind.sqlstate is None and issubclass(
        kind, (psycopg.OperationalError, psycopg.InterfaceError)
    )


@pytest.mark.parametrize("name", sorted(PASSING))
def test_what_passes_by_itself_can_be_tried_again(name: str) -> None:
    assert isinstance(translate(getattr(pg, name)("x"), SHOWN), StoreUnavailable)


@pytest.mark.parametrize("name", sorted(LASTING))
def test_what_lasts_is_not_tried_again(name: str) -> None:
    error = translate(getattr(pg, name)("x"), SHOWN)

    assert not isinstance(error, (StoreUnavailable, OutcomeUnknown))


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_what_this_store_acts_on_has_a_class(kind: type[psycopg.Error]) -> None:
    assert type(translate(kind("x"), SHOWN)) is OURS[kind]


def test_every_error_has_a_place_while_connecting_too() -> None:
    for kind in ALL:
        error = translate_connecting(kind("out of order"), SHOWN)

        assert isinstance(error, RowlockError), kind
        assert isinstance(error, (StoreUnavailable, ConfigError)), kind


@pytest.mark.parametrize(
    "text",
    [
        'FATAL:  password authentication failed for user "ada"',
        "fe_sendauth: no password supplied",
        'FATAL:  role "ada" does not exist',
        'FATAL:  role "ada" is not permitted to log in',
        'FATAL:  permission denied for database "shop"',
        'FATAL:  database "shop" does not exist',
        'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "ada"',
        "server does not support SSL, but SSL was required",
        "SSL error: certificate verify failed",
        'invalid sslmode value: "maybe"',
        'invalid connection option "colour"',
    ],
)
def test_what_the_user_must_correct_is_told_while_connecting(text: str) -> None:
    error = translate_connecting(psycopg.OperationalError(text), SHOWN)

    assert isinstance(error, ConfigError)
    assert SHOWN in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "Connection refused",
        "FATAL:  the database system is starting up",
        "FATAL:  sorry, too many clients already",
        'FATAL:  too many connections for role "ada"',
        'FATAL:  too many connections for database "shop"',
        'FATAL:  database "shop" is not currently accepting connections',
        "connection timeout expired",
        "etwas in einer anderen Sprache",
    ],
)
def test_what_may_pass_is_tried_again_while_connecting(text: str) -> None:
    error = translate_connecting(psycopg.OperationalError(text), SHOWN)

    assert isinstance(error, StoreUnavailable)
