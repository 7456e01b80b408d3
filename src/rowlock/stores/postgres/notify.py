"""
Telling other processes of news.

A commit that notifies holds a lock of the whole cluster, so most writes don't: where
little is told it is told at once, after the write; else what came within some
milliseconds is told together.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta

from rowlock.stores.postgres.bounds import Arrival, Line

QUIET = 0.005  # seconds in which a queue is told of once
LONGEST = 7900  # bytes; Postgres takes less than 8000
MOST_QUEUES = 1000  # remembered at a time
EVERYTHING = "*"  # look everywhere: too much to name, or nothing known

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def write(arrivals: Iterable[Arrival]) -> str:
    """Write news as they travel."""
    text = json.dumps(
        [
            [*line, _micros(first_at), _micros(deferred_at)] + [True] * is_suspect
            for line, first_at, deferred_at, is_suspect in arrivals
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return text if len(text.encode()) <= LONGEST else EVERYTHING


def read(text: str) -> list[Arrival] | None:
    """Read news; None is that anything may have come."""
    if text == EVERYTHING:
        return None
    try:
        return [
            Arrival(
                Line(queue, priority),
                _instant(first_at),
                _maybe(deferred_at),
                is_suspect=bool(suspect),
            )
            for queue, priority, first_at, deferred_at, *suspect in json.loads(text)
        ]
    except (ValueError, TypeError, OverflowError):
        # Somebody else's, or a later version's: worth a look in any case.
        return None


class Teller:
    """What one event loop has to tell."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._told_at: dict[str, float] = {}
        self._gathered: dict[tuple[Line, bool], Arrival] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def at_once(self, arrivals: Iterable[Arrival]) -> str | None:
        """Give what is to be told now, or gather it, to be told soon."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if len(self._told_at) > MOST_QUEUES:
            self._told_at.clear()
        is_urgent = False
        for arrival in arrivals:
            told_at = self._told_at.get(arrival.line.queue)
            is_urgent |= told_at is None or now - told_at >= QUIET
            self._gather(arrival)
        if is_urgent:
            self._stop_timer()
            return self._taken()
        if self._gathered and self._timer is None:
            self._timer = loop.call_later(QUIET, self._begin_sending)
        return None

    async def flush(self) -> None:
        """Tell what is gathered, now."""
        self._stop_timer()
        if self._sending is not None:
            await asyncio.wait([self._sending])
        if self._gathered:
            await self._send(self._taken())

    def _gather(self, arrival: Arrival) -> None:
        name = arrival.line, arrival.is_suspect
        before = self._gathered.get(name)
        if before is not None:
            deferred = [
                at for at in (before.deferred_at, arrival.deferred_at) if at is not None
            ]
            arrival = arrival._replace(
                first_at=min(before.first_at, arrival.first_at),
                deferred_at=min(deferred, default=None),
            )
        self._gathered[name] = arrival

    def _taken(self) -> str:
        gathered, self._gathered = self._gathered, {}
        now = asyncio.get_running_loop().time()
        self._told_at.update((line.queue, now) for line, _ in gathered)
        return write(gathered.values())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin_sending(self) -> None:
        self._timer = None
        if self._gathered:
            self._sending = asyncio.ensure_future(self._send(self._taken()))


def _micros(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // _MICROSECOND


def _instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _maybe(micros: int | None) -> datetime | None:
    return None if micros is None else _instant(micros)
