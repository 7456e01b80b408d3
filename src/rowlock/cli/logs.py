"""
The log of a process that the command line started: text for people, JSON for machines.

The library itself installs no handler.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import click

from rowlock._log import AttemptFilter
from rowlock.cli import colour
from rowlock.cli.documents import plain

Format: TypeAlias = Literal["text", "json"]

LEVELS = ("debug", "info", "warning", "error")
ATTEMPT = ("job_id", "task", "queue", "attempt")
COLOURS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


def set_up(level: str, kind: Format) -> None:
    """
    Log everything of this process to stderr.

    Before the app is imported: an app that sets its log up itself has the last word.
    """
    handler = logging.StreamHandler()
    handler.addFilter(AttemptFilter())
    handler.setFormatter(JSONLines() if kind == "json" else Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class Lines(logging.Formatter):
    """One line a record: when in UTC, how bad, what, and by which attempt."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        level = f"{record.levelname.lower():<7}"
        if record.levelname in COLOURS and colour.shows(sys.stderr):
            level = click.style(level, fg=COLOURS[record.levelname])
        line = f"{_at(record)} {level} {record.getMessage()}"
        if not hasattr(record, "rowlock"):
            line += "".join(
                f" {name}={value}" for name, value in _attempt_of(record).items()
            )
        return "\n".join([line, *_traces(self, record)])


class JSONLines(logging.Formatter):
    """
    One JSON object a record: `at`, `level`, `logger`, then an event's fields by name.

    What isn't an event of Rowlock's has a `message`; what a handler logs has its
    attempt's `job_id`, `task`, `queue` and `attempt`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        told: dict[str, object] = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        values = getattr(record, "rowlock", None)
        # An event names its own job, which a handler may just have enqueued.
        if values is None:
            values = {"message": record.getMessage(), **_attempt_of(record)}
        told |= values
        if traces := _traces(self, record):
            told["traceback"] = "\n".join(traces)
        return json.dumps(plain(told), default=str)


def _attempt_of(record: logging.LogRecord) -> dict[str, object]:
    return {name: vars(record)[name] for name in ATTEMPT if name in vars(record)}


def _at(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _traces(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    traces = []
    if record.exc_info:
        traces.append(formatter.formatException(record.exc_info))
    elif record.exc_text:  # what a child process has sent has no traceback but in words
        traces.append(record.exc_text)
    if record.stack_info:
        traces.append(formatter.formatStack(record.stack_info))
    return traces
