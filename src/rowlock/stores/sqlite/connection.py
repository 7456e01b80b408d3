"""A connection as Rowlock needs it, and what a path must be for one."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from rowlock._chance import CHANCE
from rowlock._errors import ConfigError
from rowlock.stores.sqlite import errors
from rowlock.stores.sqlite.payload import fits
from rowlock.stores.sqlite.peers import Peers
from rowlock.stores.sqlite.statements import SQL

T = TypeVar("T")

Trace: TypeAlias = Callable[[str], None]

MEMORY = ":memory:"
PATIENCE = 1.0  # seconds for a lock that somebody else holds (law 18)
_GLANCE = 0.1  # the same for who only looks
_LONGEST_QUEUE = 10.0  # seconds in a crowd; one in which nobody gets his turn is none

# SQLite resets the write-ahead log once all of it is copied; it then shortens the file
# to this, so that the file's size tells how much is in it.
WAL_LIMIT = 4 * 2**20

_log = logging.getLogger("rowlock.store")

_FLOOR = (3, 35)  # RETURNING
# Locks of these are known to fail, and the log needs memory that all processes share.
_NETWORK = frozenset(
    {"9p", "afs", "ceph", "cifs", "fuse.sshfs", "nfs", "nfs4", "smb3", "smbfs"}
)
_SYNCHRONOUS = {
    "full": "PRAGMA synchronous = FULL",
    "normal": "PRAGMA synchronous = NORMAL",
}


def check_version(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Refuse an SQLite that lacks what the statements need."""
    if version < _FLOOR:
        found, floor = (".".join(map(str, numbers)) for numbers in (version, _FLOOR))
        msg = (
            f"Rowlock needs SQLite {floor} or newer, and this Python has {found}: use a"
            " Python that is built with a newer one."
        )
        raise ConfigError(msg)


def check_path(path: str) -> None:
    """Refuse what can't be a database file, in one sentence; warn of a network."""
    file = Path(path)
    try:
        is_folder, has_folder = file.is_dir(), file.parent.is_dir()
    except OSError as error:
        msg = f"The database {path} can't be reached: {error.strerror}."
        raise ConfigError(msg) from error
    if is_folder:
        msg = f"The database {path} is a folder: add a file name to the URL."
        raise ConfigError(msg)
    if not has_folder:
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


def file_of(path: str) -> tuple[int, int] | None:
    """Tell which file a path leads to now; None where it leads to none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - once a transaction, and a Path costs more
    except OSError:
        return None
    return found.st_dev, found.st_ino


def network_of(path: str, mounts: str = "/proc/mounts") -> str | None:
    """Name the network file system a path lies on; None where it is local."""
    try:
        text = Path(mounts).read_text("utf-8", "replace")
    except OSError:
        return None
    here = Path(path).resolve()
    longest, found = -1, ""
    # By line feeds alone: a folder's name may hold any other end of a line.
    for line in filter(None, text.split("\n")):
        _, folder, kind, *_ = line.split(" ")
        folder = folder.replace("\\040", " ")
        # A later mount at the same place covers the earlier one.
        if here.is_relative_to(folder) and len(folder) >= longest:
            longest, found = len(folder), kind
    return found if found in _NETWORK else None


def is_synchronous(value: str) -> bool:
    """Say whether this is a value for `?synchronous=`."""
    return value in _SYNCHRONOUS


def connect_writer(
    path: str, *, synchronous: str, autocheckpoint: bool, trace: Trace | None
) -> sqlite3.Connection:
    """Connect for writing; the file is made where there is none."""
    connection = _connect(path, trace, timeout=0)
    try:
        if path != MEMORY:
            patiently(lambda: _use_wal(connection, path))
        connection.execute(_SYNCHRONOUS[synchronous])
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
        if not autocheckpoint:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: str, *, trace: Trace | None) -> sqlite3.Connection:
    """Connect for reading a file that is there; SQLite itself refuses a write on it."""
    uri = f"{Path(path).as_uri()}?mode=rw"  # in WAL mode readers write to its index
    connection = _connect(uri, trace, timeout=PATIENCE)
    connection.execute("PRAGMA query_only = ON")
    return connection


def connect_observer(path: str) -> sqlite3.Connection:
    """Connect to a file that is there without a right to write, and wait for nobody."""
    connection = _connect(f"{Path(path).as_uri()}?mode=ro", None, timeout=_GLANCE)
    connection.execute("PRAGMA query_only = ON")
    return connection


def begin(connection: sqlite3.Connection, peers: Peers | None = None) -> None:
    """Begin to write; the lock is taken now, so that no later statement waits."""
    patiently(
        lambda: connection.execute("BEGIN IMMEDIATE"),
        commits=lambda: _commits_of_others(connection),
        peers=peers,
    )


def patiently(
    act: Callable[[], T],
    commits: Callable[[], object] = int,
    peers: Peers | None = None,
) -> T:
    """
    Try until nobody else holds the lock, for a second at most.

    Where `commits` changes, others have committed meanwhile: that is no lock which
    somebody holds but a crowd, whose turns go by chance, and it begins the second
    anew; so does a peer whose turn takes long. SQLite's own handler sleeps up to 100 ms
    between two tries, and isn't asked where the switch to the write-ahead log needs the
    file alone.
    """
    began = time.monotonic()
    give_up_at = began + PATIENCE
    seen: object = None  # asked for only once somebody is in the way
    while True:
        try:
            return act()
        except sqlite3.Error as error:
            if not errors.is_locked(error):
                raise
            now = time.monotonic()
            if (others := commits()) != seen or (
                now >= give_up_at and peers is not None and peers.is_one_writing()
            ):
                give_up_at, seen = min(now + PATIENCE, began + _LONGEST_QUEUE), others
            if now >= give_up_at:
                raise
        time.sleep(CHANCE.uniform(0.0005, 0.002))


def _commits_of_others(connection: sqlite3.Connection) -> object:
    try:
        return connection.execute(SQL["data_version"]).fetchone()
    except sqlite3.Error:  # the file is locked whole: nobody has committed
        return None


def _connect(path: str, trace: Trace | None, *, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=timeout,
        isolation_level=None,
        # One thread uses it; but whoever drops the last reference closes it.
        check_same_thread=False,
        cached_statements=256,
        uri=path.startswith("file:"),
    )
    connection.create_function("rowlock_fits", 2, fits, deterministic=True)
    connection.set_trace_callback(trace)
    return connection


def _use_wal(connection: sqlite3.Connection, path: str) -> None:
    """Switch to the write-ahead log, which stays with the file."""
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        msg = (
            f"The database {path} can't use a write-ahead log on this file system: put"
            " it on a local disk."
        )
        raise ConfigError(msg)
