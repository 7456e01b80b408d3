"""What a handler forks, where it comes out of the handler that made it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from rowlock._errors import UsageError


@contextmanager
def home(pid: int) -> Iterator[None]:
    """
    Run a handler so that it comes out in the process `pid` alone.

    A fork in which it returns or raises as well would go on as a second worker, with
    the pipes and connections of the first: it ends instead.
    """
    try:
        yield
    except SystemExit as error:
        if os.getpid() != pid:
            os._exit(error.code if isinstance(error.code, int) else bool(error.code))
        raise
    except BaseException:
        if os.getpid() != pid:
            traceback.print_exc()
            os._exit(1)
        raise
    if os.getpid() != pid:
        os._exit(0)


def check_home(pid: int) -> None:
    """
    Refuse to speak for an attempt from a fork.

    Raises:
        UsageError: this is one.
    """
    if os.getpid() != pid:
        msg = (
            "A process that a handler has forked can't speak for the attempt: do it in"
            " the handler itself."
        )
        raise UsageError(msg)
