"""Sending what a child process logs to the log of its worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from rowlock._log import attempt_fields
from rowlock._worker.messages import Logged

# As the log's JSON shows them.
_AS_TEXT = (datetime, date, timedelta, Decimal, UUID)


class Forward(logging.Handler):
    """Sends records in words: what is in them may mean nothing to the worker."""

    def __init__(self, send: Callable[[object], None]) -> None:
        super().__init__()
        self._send = send
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, with the attempt that it belongs to."""
        try:
            told: dict[str, Any] = {**attempt_fields(), **vars(record)}
            told |= {"msg": record.getMessage(), "args": None, "exc_info": None}
            if record.exc_info:
                told["exc_text"] = self._formatter.formatException(record.exc_info)
            self._send(Logged({name: _sendable(told[name]) for name in told}))
        except Exception:  # noqa: BLE001 - as every handler of logging's does
            self.handleError(record)


def forward_logs(send: Callable[[object], None], levels: Mapping[str, int]) -> None:
    """Send the records of every logger, at the worker's levels, and nowhere else."""
    for name, level in levels.items():
        logging.getLogger(name or None).setLevel(level)
    for logger in tuple(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True
            logger.disabled = False
    logging.root.handlers[:] = [Forward(send)]


def levels_of_loggers() -> dict[str, int]:
    """Tell the levels that are set in this process; "" is the root's."""
    loggers = tuple(logging.root.manager.loggerDict.items())
    set_here = {
        name: logger.level
        for name, logger in loggers
        if isinstance(logger, logging.Logger) and logger.level
    }
    return {**set_here, "": max(logging.root.level, logging.root.manager.disable)}


def handle(record: Mapping[str, Any]) -> None:
    """Log what a child has sent, as if it had been logged here."""
    made = logging.makeLogRecord(dict(record))
    logger = logging.getLogger(made.name)
    if logger.isEnabledFor(made.levelno):
        logger.handle(made)


def _sendable(value: object) -> object:
    # What is of somebody's class may go into a pickle, and yet not come out of it.
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, list | tuple):
        return [_sendable(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _sendable(each) for name, each in value.items()}
    return str(value) if type(value) in _AS_TEXT else repr(value)
