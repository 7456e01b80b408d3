"""
The log: a listener that writes events, and a filter that names the attempt.

The library installs no filter, and no handler that writes where any is configured; the
command line does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING

from rowlock._attempt import the_attempt
from rowlock._durations import iso

if TYPE_CHECKING:
    from rowlock._events import Event

# More ids than these are counted on a line; a record's fields have all.
MOST_SHOWN = 10


def log(event: Event) -> None:
    """
    Write an event to the log; `extra["rowlock"]` has its name (`event`) and fields.

    Loggers are `rowlock` and `rowlock.worker`. What was raised is in `exc_text`, where
    an event has the traceback.
    """
    if not event.logger.isEnabledFor(event.level):
        return
    values = {
        f.name: getattr(event, f.name)
        for f in fields(event)
        if f.metadata.get("logged", True)
    }
    told = " ".join(
        f"{name}={_tell(value)}"
        for name, value in values.items()
        if value is not None and value != {}
    )
    extra = {"rowlock": {"event": event.name, **values}}
    trace = getattr(event, "traceback", None)
    if trace is None:
        event.logger.log(event.level, "%s %s", event.name, told, extra=extra)
        return
    record = event.logger.makeRecord(
        event.logger.name,
        event.level,
        __file__,
        0,
        "%s %s",
        (event.name, told),
        None,
        extra=extra,
    )
    # As that of any exception is written, which is gone by now.
    record.exc_text = "\n".join(map(_in_a_trace, trace.splitlines()))
    event.logger.handle(record)


def attempt_fields() -> Mapping[str, object]:
    """Name the attempt that the caller belongs to; empty outside of handlers."""
    attempt = the_attempt()
    if attempt is None:
        return {}
    return {
        "job_id": attempt.job_id,
        "task": attempt.task,
        "queue": attempt.queue,
        "attempt": attempt.number,
    }


class Unheard(logging.Handler):
    """
    Stands in where a program has configured no logging: events aren't written then.

    Python would write the bare text of warnings to stderr, among what the program
    prints there. An error that is no event is a mistake in the program or a breakdown,
    and is written so, as asyncio's are: it is all that anybody would ever see of it.
    The command line, whose stderr is our own, has warnings written as well.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record that is no event, where nobody else hears it."""
        last = logging.lastResort
        if hasattr(record, "rowlock") or last is None:
            return
        at: logging.Logger | None = logging.getLogger(record.name)
        while at is not None:
            if any(handler is not self for handler in at.handlers):
                return
            at = at.parent if at.propagate else None
        last.handle(record)


UNHEARD = Unheard(logging.ERROR)
logging.getLogger("rowlock").addHandler(UNHEARD)


class AttemptFilter(logging.Filter):
    """
    Adds `job_id`, `task`, `queue` and `attempt` to what a handler logs.

    Add it to a logging handler, not to a logger: those of a library would be passed
    by. It reads a context variable, so it works in async handlers, in threads of plain
    ones, and in what they call; not in threads that a handler starts by itself. Where
    a record has a field of that name already, that stays.

        >>> import logging
        >>> handler = logging.StreamHandler()
        >>> handler.addFilter(AttemptFilter())
        >>> record = logging.makeLogRecord({"msg": "no attempt here"})
        >>> handler.filter(record) and hasattr(record, "job_id")
        False
    """

    # Not a record factory: it would have to set the fields before `extra` does, and
    # logging refuses an `extra` that overwrites one (a user's own "task", say).
    def filter(self, record: logging.LogRecord) -> bool:
        """Name the attempt; nothing is ever left out."""
        for name, value in attempt_fields().items():
            record.__dict__.setdefault(name, value)
        return True


def _in_a_trace(line: str) -> str:
    line = line.expandtabs(4)
    # Indented, so that no text of an error's stands where a line of the log begins.
    return f"  {line if line.isprintable() else repr(line)[1:-1]}"


def _tell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, tuple):
        more = len(value) - MOST_SHOWN
        shown = ",".join(map(str, value[:MOST_SHOWN])) or "-"
        return f"{shown},...{more}_more" if more > 0 else shown
    if isinstance(value, Mapping):
        return _tell(tuple(f"{name}:{_tell(each)}" for name, each in value.items()))
    text = str(value)
    # An error's text is anybody's: it must not forge a line, nor steer a terminal.
    return text if text.isprintable() and " " not in text else repr(text)
