"""
Who reads a database at this moment, where the kernel tells it.

A reader holds a shared lock on one of five bytes of the log's index file, the
write-ahead log's read marks (sqlite.org/walformat.html); Linux lists all locks.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_READ_MARKS = range(123, 128)
# Of a line: 1: POSIX ADVISORY READ <process> <device>:<device>:<inode> <first> <last>
_FIELDS = 8


def readers(path: str, locks: str = "/proc/locks") -> list[str]:
    """Name the processes, other than this one, that read the database at `path`."""
    try:
        index = Path(f"{path}-shm").stat().st_ino
        lines = Path(locks).read_text("utf-8").splitlines()
    except OSError:
        return []
    found = set()
    for line in lines:
        fields = line.split()
        # A lock that is waited for has an arrow, and so a field more.
        if len(fields) == _FIELDS and fields[3] == "READ":
            process, place, first = int(fields[4]), fields[5], int(fields[6])
            is_here = place.rpartition(":")[2] == str(index) and first in _READ_MARKS
            if is_here and process != os.getpid():
                found.add(process)
    return [_named(process) for process in sorted(found)]


def _named(process: int) -> str:
    with contextlib.suppress(OSError):
        name = Path(f"/proc/{process}/comm").read_text("utf-8", "replace").strip()
        return f"process {process} ({name})"
    return f"process {process}"
