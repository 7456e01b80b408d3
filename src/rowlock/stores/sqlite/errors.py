"""
The one place where an error of sqlite3 becomes one of Rowlock's.

StoreUnavailable is what passes by itself or with a full disk emptied; ConfigError,
only while opening, what the user must correct; StoreError the rest.
"""

from __future__ import annotations

import sqlite3

from rowlock._errors import (
    AGAIN,
    PERHAPS,
    ConfigError,
    OutcomeUnknown,
    RowlockError,
    StoreError,
    StoreUnavailable,
)

# What SQLite's primary result codes mean for a caller who can try again.
_PASSING = {
    sqlite3.SQLITE_BUSY: "is locked by another connection",
    sqlite3.SQLITE_LOCKED: "is locked by another connection",
    sqlite3.SQLITE_PROTOCOL: "is locked by another connection",
    sqlite3.SQLITE_FULL: "can't grow, the disk is full; free some space",
    sqlite3.SQLITE_IOERR: "can't be read or written, the disk reports an error",
    sqlite3.SQLITE_NOMEM: "can't be used, there is no memory left",
    sqlite3.SQLITE_INTERRUPT: "was interrupted",
    sqlite3.SQLITE_SCHEMA: "is being changed by another connection",
    sqlite3.SQLITE_READONLY: "can't be written any more; check its permissions",
    sqlite3.SQLITE_CANTOPEN: "can't be opened any more; check that it is there",
    sqlite3.SQLITE_PERM: "can't be opened any more; check its permissions",
}

# What must be corrected before it can be opened at all.
_WRONG = {
    sqlite3.SQLITE_NOTADB: "isn't an SQLite database: correct the URL, or move the"
    " file away",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a copy",
    sqlite3.SQLITE_READONLY: "can't be written: correct the permissions of the file"
    " and of its folder",
    sqlite3.SQLITE_CANTOPEN: "can't be opened: check that its folder is there and"
    " can be written",
    sqlite3.SQLITE_PERM: "can't be opened: correct its permissions",
    sqlite3.SQLITE_AUTH: "can't be opened: correct its permissions",
}


def primary(error: sqlite3.Error) -> int:
    """Give SQLite's primary result code, SQLITE_ERROR where there is none."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def is_locked(error: sqlite3.Error) -> bool:
    """Say whether somebody else holds the lock."""
    return primary(error) in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PROTOCOL,
    )


def is_read_only(error: sqlite3.Error) -> bool:
    """Say whether the connection may only read, whatever others may."""
    code = getattr(error, "sqlite_errorcode", None)
    return code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_READONLY_DIRECTORY)


def translate(
    error: sqlite3.Error, path: str, *, opening: bool = False, again: str = AGAIN
) -> RowlockError:
    """
    Say as one of Rowlock's errors what went wrong; the caller chains the cause.

    `again`: what to do about what passes.
    """
    code = primary(error)
    if opening and code in _WRONG:
        return ConfigError(f"The database {path} {_WRONG[code]}. ({error})")
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY_SNAPSHOT:
        # Of a user's alone: ours have the lock from their beginning.
        return StoreUnavailable(
            f"The transaction of the connection lent has read {path} before another"
            f" wrote to it, so it can't write any more: {again}. One that begins with"
            f" BEGIN IMMEDIATE is spared that. ({error})"
        )
    if code in _PASSING:
        return StoreUnavailable(
            f"The database {path} {_PASSING[code]}: {again}. ({error})"
        )
    return StoreError(
        f"The database {path} refused a statement, and nothing was written: {error}."
    )


def translate_commit(error: sqlite3.Error, path: str) -> StoreError:
    """
    Say what a failed commit means.

    A full disk or a lock left nothing behind. After an error of the disk the frames
    may be in the write-ahead log, and count once it is read anew.
    """
    if primary(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY):
        return StoreUnavailable(
            f"The database {path} {_PASSING[primary(error)]}: nothing was written,"
            f" try again. ({error})"
        )
    return OutcomeUnknown(
        f"The database {path} failed during a commit: {PERHAPS} ({error})"
    )
