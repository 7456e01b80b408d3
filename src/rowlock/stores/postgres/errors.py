"""
The one place where an error of psycopg becomes one of Rowlock's.

StoreUnavailable is what passes by itself; ConfigError, only while opening, what the
user must correct; SchemaMismatch a schema that isn't ours; StoreError the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from psycopg import errors as pg

from rowlock._errors import (
    AGAIN,
    PERHAPS,
    ConfigError,
    OutcomeUnknown,
    RowlockError,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)


class NoPartition(StoreUnavailable):
    """
    The history has no partition for the day of a row.

    It passes by itself: what can't be made is a day whose detach isn't over.
    """


class Misled(StoreUnavailable):
    """The direct URL leads to another database; somebody has to correct it."""


class Pooled(StoreUnavailable):
    """A pooler is where LISTEN has to go; somebody has to say a direct URL."""


class Locked(StoreUnavailable):
    """Somebody's transaction held a lock for longer than we wait, or than it let us."""


class Forbidden(StoreError):
    """This user has no right to what was tried."""


class Taken(StoreError):
    """A key was taken meanwhile; never leaves this store."""


# What this store tells apart.
_OURS: Mapping[type[pg.Error], tuple[type[StoreError], str]] = {
    pg.LockNotAvailable: (
        Locked,
        "Somebody's transaction locks a part of {}: {again}.",
    ),
    pg.DeadlockDetected: (
        Locked,
        "Another transaction and this one waited for each other in {}: {again}.",
    ),
    pg.InsufficientPrivilege: (
        Forbidden,
        "The database {} doesn't let this user do that, and nothing was written.",
    ),
    pg.UniqueViolation: (
        Taken,
        "A key in {} was taken meanwhile, and nothing was written.",
    ),
}

# By SQLSTATE, or its first two characters: what passes by itself.
_PASSING = {
    "08": "is out of reach",
    "25006": "only reads: it is a standby, or was made read-only",
    "40": "undid this for the sake of another transaction",
    "53": "has run out of memory, disk or connections",
    "55006": "is being changed by another connection",
    "57014": "took too long, and was stopped",
    "57P": "is shutting down or starting",
    "58": "can't read or write its files",
}

# What isn't there, because the schema is another one or none.
_MISSING = ("3F000", "42P01", "42703", "42883", "42P10", "42704")

# What must be corrected before it can be opened at all. libpq gives a failed
# connection's text alone, and the server writes that in its own language: a text that
# isn't known is taken for something passing.
_WRONG = {
    "password authentication failed": "refuses the user or the password: correct"
    " them in the URL",
    "no password supplied": "wants a password: give it in the URL, or in PGPASSWORD",
    r"pg_hba\.conf": "refuses this user from this host: correct the URL, or the"
    " server's pg_hba.conf",
    "is not permitted to log in": "doesn't let this user in: ALTER ROLE ... LOGIN",
    "permission denied for database": "doesn't let this user in: GRANT CONNECT on it",
    # Or a limit on connections, which names the role or the database too, would be one.
    r'role ".*" does not exist': "doesn't know this user: correct it in the URL",
    r'database ".*" does not exist': "isn't there: correct the URL, or run createdb",
    "certificate": "couldn't prove who it is: correct sslmode and sslrootcert",
    "does not support SSL": "has no TLS: correct sslmode in the URL",
    "invalid connection option": "can't be reached with these options: correct the URL",
    "invalid sslmode": "can't be reached with this sslmode: correct the URL",
    "invalid integer value": "can't be reached with these options: correct the URL",
    "invalid port number": "can't be reached on this port: correct the URL",
}


def translate(
    error: pg.Error,
    shown: str,
    *,
    is_over: bool = False,
    commits: bool = False,
    again: str = AGAIN,
) -> RowlockError:
    """
    Say as one of Rowlock's errors what went wrong; the caller chains the cause.

    `is_over`: the connection ended with it; `commits`: while a commit was under way;
    `again`: what to do about what passes.
    """
    if isinstance(error, pg.IdleInTransactionSessionTimeout):
        return StoreUnavailable(
            f"The database {shown} ended a transaction that stood still, since"
            f" something blocked the event loop: {AGAIN}. Call"
            " what blocks, such as a synchronous driver, in a thread"
            f" (asyncio.to_thread). ({told(error)})"
        )
    # libpq's own errors have no state.
    if is_over or (
        error.sqlstate is None
        and isinstance(error, (pg.OperationalError, pg.InterfaceError))
    ):
        return _broken(error, shown, commits=commits, again=again)
    return _refused(error, shown, again)


def is_stale(error: pg.Error) -> bool:
    """
    Say whether a connection is to be replaced, as what it prepared no longer holds.

    A migration changed the type of a column, or somebody discarded it. Or the server
    has become a standby, and a new connection leads to the one that took its place.
    """
    # One SQLSTATE for all that isn't supported; the server's texts are translated.
    return (
        isinstance(error, (pg.InvalidSqlStatementName, pg.ReadOnlySqlTransaction))
        or error.diag.source_function == "RevalidateCachedQuery"
    )


def _refused(error: pg.Error, shown: str, again: str) -> RowlockError:
    """Say why the server refused a statement."""
    if is_stale(error) and not isinstance(error, pg.ReadOnlySqlTransaction):
        return StoreUnavailable(
            f"A statement was prepared before {shown} was migrated: {again}."
            f" ({told(error)})"
        )
    # A row that breaks a CHECK names it.
    if isinstance(error, pg.CheckViolation) and error.diag.constraint_name is None:
        return NoPartition(
            f"The history of {shown} lacks the partition of a day: run `rowlock"
            " migrate`."
        )
    for kind, (ours, sentence) in _OURS.items():
        if isinstance(error, kind):
            return ours(f"{sentence.format(shown, again=again)} ({told(error)})")
    state = error.sqlstate or ""
    for prefix, what in _PASSING.items():
        if state.startswith(prefix):
            return StoreUnavailable(
                f"The database {shown} {what}: {again}. ({told(error)})"
            )
    if state in _MISSING:
        return SchemaMismatch(
            f"The schema of {shown} isn't the one that this Rowlock works with: run"
            f" `rowlock migrate`, or correct ?schema= in the URL. ({told(error)})"
        )
    return StoreError(
        f"The database {shown} refused a statement, and nothing was written:"
        f" {told(error)}."
    )


def _broken(error: pg.Error, shown: str, *, commits: bool, again: str) -> StoreError:
    if commits:
        return OutcomeUnknown(
            f"The connection to {shown} broke during a commit: {PERHAPS}"
            f" ({told(error)})"
        )
    return StoreUnavailable(
        f"The database {shown} is out of reach: {again}. ({told(error)})"
    )


def partly(error: StoreError) -> OutcomeUnknown:
    """Say that an operation failed after a part of it was committed."""
    return OutcomeUnknown(
        "A part of this was written before it failed: call it again. An enqueue without"
        " an idempotency key would add jobs twice: look first which are there."
        f" ({error})"
    )


def translate_connecting(error: pg.Error, shown: str) -> RowlockError:
    """Say why no connection could be made."""
    text = str(error)
    if isinstance(error, pg.InterfaceError) and "ProactorEventLoop" in text:
        return ConfigError(
            f"The database {shown} can't be reached from a ProactorEventLoop, the"
            " default on Windows: run the program with"
            " asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)."
        )
    if isinstance(error, pg.InterfaceError):
        return ConfigError(f"The database {shown} can't be reached from here: {text}")
    for part, what in _WRONG.items():
        if re.search(part, text):
            return ConfigError(f"The database {shown} {what}. ({told(error)})")
    return StoreUnavailable(
        f"The database {shown} is out of reach: check that it runs, and the host and"
        f" port of the URL. ({told(error)})"
    )


def told_by_us(error: BaseException) -> str | None:
    """Give the sentence with which a function of the schema refused a call."""
    cause = error.__cause__
    return told(cause) if isinstance(cause, pg.InvalidParameterValue) else None


def told(error: pg.Error) -> str:
    """Give the server's own words, in one line."""
    text = error.diag.message_primary or str(error)
    return " ".join(text.split())
