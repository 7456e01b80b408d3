"""Deaths of processes: of those that were started here, and of those they left."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

PR_SET_CHILD_SUBREAPER = 36
# As `os.waitpid` has it.
ANY = -1


def adopt_orphans() -> None:
    """
    Become the parent of what a worker process leaves behind, as process 1 is.

    Where process 1 reaps nobody, as a script in a container, a dead group would seem to
    live for ever. Only Linux can; elsewhere process 1 does it.
    """
    if sys.platform == "linux":
        # Not every Python has ctypes, nor every kernel this.
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(before: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """
    Reap all that have died; give each one's id and exit code, negative for a signal.

    `before` is told of a process whose id can't be another's yet. Where only reaping
    tells who has died, as by a Python before 3.13 on macOS, it is told right behind.
    """
    while (dead := _dead()) is not None:
        if dead != ANY:
            before(dead)
        try:
            pid, status = os.waitpid(dead, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        if dead == ANY:
            before(pid)
        yield pid, os.waitstatus_to_exitcode(status)


def _dead() -> int | None:
    """Find one that has died and isn't reaped; `ANY` where only reaping tells."""
    if not hasattr(os, "waitid"):
        return ANY
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid
