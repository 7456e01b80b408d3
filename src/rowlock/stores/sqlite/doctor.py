"""
Examining an SQLite database: the library, the file, its folder, and what is in it.

A file is opened for reading alone. With a right to write, even a connection that writes
nothing copies the log as it closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import sqlite3
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock import _doctor
from rowlock._answers import Finding, unserved
from rowlock._doctor import warning, well, wrong
from rowlock._durations import span
from rowlock._errors import SchemaMismatch, StoreUnavailable
from rowlock.stores.sqlite import connection as connections
from rowlock.stores.sqlite import errors, figures, migrate, rows
from rowlock.stores.sqlite.connection import MEMORY
from rowlock.stores.sqlite.readers import readers
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    from rowlock._clock import Clock
    from rowlock.stores.sqlite.database import Database

_FAULT_SINCE, _FAULT_UNTIL = (3, 7, 0), (3, 51, 3)
_MENDED: Mapping[tuple[int, ...], int] = {
    (3, 44): 6,
    (3, 50): 7,
}  # release by which the fault was mended, too

_LONG_LOG = 16 * 2**20  # bytes, from which on a writer waits for readers to copy it
_VERY_LONG_LOG = 16 * _LONG_LOG
_LARGEST_CHECKED = 64 * 2**20
_LONGEST_CHECK_S = 5.0
_STEPS = 100_000  # of SQLite's machine between two looks at the time
_LITTLE, _TOO_LITTLE = 512 * 2**20, 64 * 2**20  # bytes free on the disk


class SQLiteDoctor:
    """Who examines an SQLite database; see `Doctor`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def examine(self) -> Sequence[Finding]:
        """Look at everything; see `Doctor.examine`."""
        path = self._database.path
        if path == MEMORY:
            # Nobody else can look at it, so it is there once it is opened.
            await self._database.open()
            inside = await self._database.read(partial(_inside, path=path))
            return _doctor.worst_first([version(), *inside])
        return await asyncio.to_thread(self._examine_file)

    def _examine_file(self) -> Sequence[Finding]:
        path = self._database.path
        if not Path(path).exists():
            msg = (
                f"There is no database {path}: run this where the worker runs, or"
                " correct the URL."
            )
            raise StoreUnavailable(msg)
        # Before we read ourselves.
        outside = [version(), *_outside(path)]
        now = rows.to_micros(self._clock.now())
        try:
            with contextlib.closing(connections.connect_observer(path)) as connection:
                # The first look at the file, by which it is known to be a database.
                mode = _journal_mode(connection)
                inside = [mode, *_whole(connection, path)]
                inside += _inside(connection, now, path=path)
        except sqlite3.Error as error:
            raise errors.translate(error, path, opening=True) from error
        return _doctor.worst_first([*outside, *inside])


def version(found: tuple[int, ...] = sqlite3.sqlite_version_info) -> Finding:
    """Judge the release of SQLite that this Python is built with."""
    named = ".".join(map(str, found))
    is_mended = found[2:] >= (_MENDED.get(found[:2], 1000),)
    if not _FAULT_SINCE <= found < _FAULT_UNTIL or is_mended:
        return well("version", f"SQLite {named} has no fault that is known here.")
    return warning(
        "version",
        f"SQLite {named} has the WAL-reset fault, by which a file may be damaged where"
        " two connections copy the log at one moment: Rowlock's own take turns, which"
        " avoids it; other programs that write to the file don't.",
        "Use a Python with SQLite 3.51.3 or later (or 3.50.7, 3.44.6); until then, run"
        " `PRAGMA wal_autocheckpoint = 0` on each connection of other programs.",
    )


def disk(folder: Path, free: int) -> Finding:
    """Judge how much is free on the disk."""
    said = f"The disk of {folder} has {free // 2**20:,} MB left"
    if free >= _LITTLE:
        return well("disk", f"{said}.")
    return (wrong if free < _TOO_LITTLE else warning)(
        "disk",
        f"{said}: where it is full, nothing can be enqueued, and no outcome written.",
        f"Free some space, or move {folder} to a larger disk while nothing runs.",
    )


def _outside(path: str) -> list[Finding]:
    """Look at the file and its folder."""
    folder = Path(path).parent
    found = [disk(folder, shutil.disk_usage(folder).free), _log(path)]
    kind = connections.network_of(path)
    if kind is None:
        found.append(well("file system", "The file lies on a disk of this machine."))
    else:
        found.append(
            wrong(
                "file system",
                f"The file lies on a network file system ({kind}), where SQLite's locks"
                " fail and jobs may be lost or run twice.",
                "Put it on a local disk, or use Postgres where several machines work.",
            )
        )
    unwritable = [name for name in (path, str(folder)) if not os.access(name, os.W_OK)]
    if unwritable:
        found.append(
            wrong(
                "rights",
                f"This user may not write to {' and '.join(unwritable)}.",
                f"`{shlex.join(('chown', _user(), *unwritable))}`, or be its owner.",
            )
        )
    else:
        found.append(well("rights", "This user may write to the file and its folder."))
    return found


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "USER"


def _log(path: str) -> Finding:
    """Judge the length of the write-ahead log, and name who reads it."""
    log = Path(f"{path}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size <= _LONG_LOG:
        return well("log", f"The write-ahead log is short ({size / 2**20:.1f} MB).")
    who = readers(path)
    reading = (
        f"at this moment {', '.join(who)} {'read' if len(who) > 1 else 'reads'} it"
        if who
        else "nobody is seen to read it at this moment"
    )
    return (wrong if size > _VERY_LONG_LOG else warning)(
        "log",
        f"The write-ahead log has grown to {size // 2**20:,} MB, as it can't be begun"
        f" anew while a reader still needs it: {reading}.",
        "End reads that take long and transactions left open; a worker's next commits"
        " then shorten it.",
    )


def _journal_mode(connection: sqlite3.Connection) -> Finding:
    ((mode,),) = connection.execute(SQL["journal_mode"]).fetchall()
    if mode == "wal":
        return well("journal", "Commits go by a write-ahead log.")
    return warning(
        "journal",
        f"The file's journal mode is {mode}: readers keep writers out, and each commit"
        " costs several flushes of the disk.",
        "`PRAGMA journal_mode = WAL`, which a worker also runs as it starts.",
    )


def _whole(connection: sqlite3.Connection, path: str) -> list[Finding]:
    """Check that the file is whole, where that is cheap."""
    size = Path(path).stat().st_size
    if size > _LARGEST_CHECKED:
        said = f"The file has {size // 2**20:,} MB, and wasn't checked for damage"
        return [well("integrity", f"{said}; `PRAGMA quick_check` does that.")]
    until = time.monotonic() + _LONGEST_CHECK_S
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        ((fault,),) = connection.execute(SQL["quick_check"]).fetchall()
    except sqlite3.Error as error:
        if errors.primary(error) == sqlite3.SQLITE_INTERRUPT:
            said = f"takes longer than {span(_LONGEST_CHECK_S)}, and was left off"
            return [well("integrity", f"To check the file for damage {said}.")]
        if errors.primary(error) != sqlite3.SQLITE_CORRUPT:
            raise
        fault = str(error)
    finally:
        connection.set_progress_handler(None, _STEPS)
    if fault == "ok":
        return [well("integrity", "The file is whole.")]
    return [
        wrong(
            "integrity",
            f"The file is damaged: {' '.join(fault.split())}.",
            f"Stop every worker, copy {path} with its -wal beside it, then restore a"
            " backup, or save what can be read:"
            f" `sqlite3 {shlex.quote(path)} .recover | sqlite3 mended.db`.",
        )
    ]


def _inside(connection: sqlite3.Connection, now: int, *, path: str) -> list[Finding]:
    """Look at the schema, and at what waits for a worker."""
    try:
        todo = migrate.pending(connection, path)
    except SchemaMismatch as error:
        return [_doctor.schema(error)]
    if todo:
        said = f"The next opening applies what is pending ({len(todo)} migrations)."
        return [well("schema", said)]
    try:
        tasks = _tasks(connection, now)
    except sqlite3.Error as error:
        tasks = [_doctor.unseen("tasks", errors.translate(error, path))]
    return [_doctor.schema(None), *tasks]


def _tasks(connection: sqlite3.Connection, now: int) -> list[Finding]:
    workers = figures.overview(connection, now).workers
    return _doctor.tasks(unserved(figures.due_tasks(connection, now), workers))
