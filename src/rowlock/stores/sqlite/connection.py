"""
A connection as Rowlock needs it, and what a path must be for one.
"""

from __future__ import annotations

import logging
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from rowlock._errors import ConfigError
from rowlock.stores.sqlite import errors

MEMORY = ":memory:"

Trace: TypeAlias = Callable[[str], None]

_log = logging.getLogger("rowlock.store")

_FLOOR = (3, 35)  # RETURNING
_PATIENCE = 1.0
# Locks of these are known to fail, and WAL needs memory shared by all processes.
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "9p", "fuse.sshfs"}
)


def check_version() -> None:
    """Refuse an SQLite that lacks what the statements need."""
    if sqlite3.sqlite_version_info < _FLOOR:
        msg = (
            f"Rowlock needs SQLite {_FLOOR[0]}.{_FLOOR[1]} or newer, and this Python"
            f" has {sqlite3.sqlite_version}: use a newer Python build."
        )
        raise ConfigError(msg)


def check_path(path: str) -> None:
    """Refuse what can't be a database file, in one sentence; warn of a network."""
    file = Path(path)
    if file.is_dir():
        msg = f"The database {path} is a folder: add a file name to the URL."
        raise ConfigError(msg)
    if not file.parent.is_dir():
        msg = (
            f"The database {path} can't be made, there is no folder {file.parent}:"
            " create it, or correct the URL."
        )
        raise ConfigError(msg)
    if (kind := network_of(path)) is not None:
        _log.warning(
            "The database %s lies on a network file system (%s), where SQLite's locks"
            " fail and jobs may be lost: put it on a local disk.",
            path,
            kind,
        )


def network_of(path: str, mounts: str = "/proc/mounts") -> str | None:
    """Name the network file system a path lies on; None where it is local."""
    try:
        lines = Path(mounts).read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    here = Path(path).resolve()
    best, found = -1, ""
    for line in lines:
        _, folder, kind, *_ = line.split(" ")
        # Later mounts cover earlier ones at the same place.
        folder = folder.replace("\\040", " ")
        if here.is_relative_to(folder) and len(folder) >= best:
            best, found = len(folder), kind
    return found if found in _NETWORK else None


def connect_writer(path: str, *, synchronous: str, trace: Trace | None) -> sqlite3.Connection:
    """Connect for writing; the file is made where there is none."""
    connection = _connect(path, trace, timeout=0)
    try:
        if path != MEMORY:
            _use_wal(connection, path)
        for pragma in (*_PRAGMAS[synchronous], "PRAGMA wal_autocheckpoint = 0"):
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: str, *, trace: Trace | None) -> sqlite3.Connection:
    """Connect for reading; SQLite itself refuses a write on it."""
    connection = _connect(path, trace, timeout=_PATIENCE)
    connection.execute("PRAGMA query_only = ON")
    return connection


_PRAGMAS = {
    "full": (
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
        "PRAGMA temp_store = MEMORY",
        # A reset shortens the log to this, so that its size tells what is in it.
        "PRAGMA journal_size_limit = 4194304",
    ),
}
_PRAGMAS["normal"] = ("PRAGMA synchronous = NORMAL", *_PRAGMAS["full"][1:])


def _connect(path: str, trace: Trace | None, *, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=timeout,
        isolation_level=None,
        # Each connection is used by its own thread only; it is closed by another
        # where that thread is gone.
        check_same_thread=False,
        cached_statements=256,
    )
    connection.set_trace_callback(trace)
    return connection


def _use_wal(connection: sqlite3.Connection, path: str) -> None:
    """
    Switch to the write-ahead log, once per file.

    The switch needs the file alone and doesn't wait by itself.
    """
    give_up_at = time.monotonic() + _PATIENCE
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.Error as error:
            if not errors.is_locked(error) or time.monotonic() >= give_up_at:
                raise
        else:
            if mode != "wal":
                msg = (
                    f"The database {path} can't use a write-ahead log on this file"
                    " system: put it on a local disk."
                )
                raise ConfigError(msg)
            return
        time.sleep(random.uniform(0.0005, 0.002))  # noqa: S311 - no secret
