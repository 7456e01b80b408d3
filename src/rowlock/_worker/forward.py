"""Sending what a child process logs to the log of its worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from rowlock._log import attempt_fields
from rowlock._worker.messages import Logged


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
    """Keep what is plain; put all else into words, as its class may fail over there."""
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {str(key): _sendable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(each) for each in value]
    return repr(value)
