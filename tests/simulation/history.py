"""What has happened in one simulation, in order; what the laws are judged by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rowlock._store import Demand

from .clock import SOME_DAY, Clock

LONGEST = 30
# What the laws need, and no reader.
DULL = {
    "is connected",
    "is seen",
    "is to bury",
    "is to recover",
    "has recovered",
    "finds left",
    "hears of",
}


class Event(NamedTuple):
    """
    Somebody did something, at a time of the loop and of the store.

    `note` is whatever the laws need to know of it.
    """

    time: float
    ahead: float
    who: str
    verb: str
    job: int = 0
    claim: int = 0
    note: Any = None

    @property
    def now(self) -> datetime:
        """The time of the store."""
        return SOME_DAY + timedelta(seconds=self.time + self.ahead)

    def __str__(self) -> str:
        of = f" job {self.job}" if self.job else ""
        of += f" (claim {self.claim})" if self.claim else ""
        note = "" if self.note is None else f": {_in_words(self.note)}"
        return f"{self.time:9.3f}  {self.who:<9} {self.verb}{of}{note}"


def _in_words(note: object) -> str:
    match note:
        case Demand():
            return "a suspect" if note.suspects else f"room for {note.total}"
        case datetime():
            return f"{note:%H:%M:%S.%f}"[:-3]
    return str(note)


class History:
    """The events of one run; closed, it hears no more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_closed = False
        self.events: list[Event] = []

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def add(
        self,
        who: str,
        verb: str,
        job: int = 0,
        claim: int = 0,
        note: object = None,
    ) -> None:
        if not self._is_closed:
            clock = self._clock
            self.events.append(
                Event(clock.time, clock.ahead, who, verb, job, claim, note)
            )

    def close(self) -> None:
        self._is_closed = True

    def about(self, job: int | None, until: float = math.inf) -> list[str]:
        """Tell of one job, None: of all, and of what befell everybody: 30 lines."""
        told = [
            event
            for event in self.events
            if event.time <= until
            and (job is None or event.job in (0, job))
            and event.verb not in DULL
        ]
        return list(map(str, _shortened(told)))


def _shortened(events: list[Event]) -> Iterable[Event]:
    """Keep the last ones, and of leases that are extended again and again the first."""
    kept: list[Event] = []
    for event in events:
        before = kept[-1] if kept else None
        # The same worker, verb, job and claim.
        is_again = before is not None and before[2:6] == event[2:6]
        if not (is_again and event.verb == "extends"):
            kept.append(event)
    return kept[-LONGEST:]
