"""
Where a claim begins to look: what this process remembers of each line of jobs.

A line is the pending jobs of one queue and priority. Where a look ended, nothing was
left before, so the next one begins there; else every claim would walk over what is dead
but can't be removed yet, and over jobs of unknown tasks. It is a hint, which a careless
one makes hide jobs. So a bound

- is never younger than the store's now - 1 s, so that short transactions hide nothing;
- falls back to what another process tells of, and to the beginning on every doubt:
  after a resume, where the clock went back, where wake-ups may have been missed;
- is left out by a full look, which follows a look that found less than it had room for,
  after 20 times the cost of the last full one, between 1 s and `SAFETY_INTERVAL`; and
  where no look finds less, every `SAFETY_INTERVAL`.

Pure: it is told what was found, and never waits. What one set of tasks has passed by
another may want, so each set has a view of its own; and suspects have bounds of their
own, since a look is for them or for the others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

SAFETY_INTERVAL = 30.0  # seconds, as a worker's own
SHORTEST_GAP = 1.0
GAP_PER_COST = 20
YOUNGEST = timedelta(seconds=1)
MOST_VIEWS = 32


class Line(NamedTuple):
    """The pending jobs of one queue and priority."""

    queue: str
    priority: int


class Place(NamedTuple):
    """A place in a line: jobs after it count."""

    at: datetime
    id: int


BEGINNING = Place(datetime.min.replace(tzinfo=UTC), 0)


class Arrival(NamedTuple):
    """
    News of one line: when the first of its new jobs is due.

    `deferred_at` is when the first that was planned for later is, None without one.
    Suspects and others are told of apart.
    """

    line: Line
    first_at: datetime
    deferred_at: datetime | None
    is_suspect: bool = False


@dataclass(slots=True)
class Known:
    """What is known of a line: until where nothing is left, and what is planned."""

    after: Place = BEGINNING
    heard: int = 0  # the news that last touched it
    is_empty: bool = False  # nothing was found at the last look, nor heard of since
    planned: datetime | None = None
    is_planned_known: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """
    Where one look begins: lines by queue, the best priority first.

    `busy` are the queues that may have jobs. `began` tells news that came after from
    older ones.
    """

    lines: Mapping[Line, Place]
    busy: frozenset[str]
    began: int

    def within(self, limits: Mapping[str, int] | None) -> Plan:
        """Leave out queues without room: what waits there is nothing to look for."""
        if limits is None or all(limits.values()):
            return self
        return Plan(
            lines={
                line: place
                for line, place in self.lines.items()
                if limits[line.queue] > 0
            },
            busy=frozenset(queue for queue in self.busy if limits[queue] > 0),
            began=self.began,
        )


class Full(NamedTuple):
    """When the last full look ended, and after how long the next may begin."""

    at: float
    gap: float


@dataclass(slots=True)
class View:
    """What is known for one set of tasks."""

    lines: dict[Line, Known] = field(default_factory=dict)
    # Which queues a full look has covered since the last doubt: all, or some.
    covers_all: bool = False
    covers: set[str] = field(default_factory=set)
    # The last full look of each set of queues: that of another worker of this process,
    # which serves others, is no reason to put one off.
    full: dict[frozenset[str] | None, Full] = field(default_factory=dict)
    # Full looks that read the lines just now: news of any line may come after that.
    readings: int = 0

    def covers_queue(self, queue: str) -> bool:
        """Say whether a full look has covered this queue."""
        return self.covers_all or queue in self.covers

    def covers_queues(self, queues: Collection[str] | None) -> bool:
        """Say whether a full look has covered these queues; None is any."""
        return self.covers_all or (
            queues is not None and self.covers.issuperset(queues)
        )

    def plan(self, queues: Collection[str] | None, began: int) -> Plan:
        """Plan a look at what is known of these queues; None is any."""
        chosen = sorted(
            (line for line in self.lines if queues is None or line.queue in queues),
            key=_best_first,
        )
        return Plan(
            lines={line: self.lines[line].after for line in chosen},
            busy=frozenset(
                line.queue for line in chosen if not self.lines[line].is_empty
            ),
            began=began,
        )


class Bounds:
    """
    The bounds of one process on one store; any thread may use them.

    Of suspects, or of all other jobs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._views: OrderedDict[frozenset[str], View] = OrderedDict()
        self._news = 0
        self._doubted = 0  # the news of the last doubt
        self._now: datetime | None = None
        self._paused: object = None

    # Before a look

    def plan(
        self, tasks: frozenset[str], queues: Collection[str] | None, monotonic: float
    ) -> Plan | None:
        """Plan a bounded look; None where only a full one will do."""
        with self._lock:
            view = self._views.get(tasks)
            if view is None or not view.covers_queues(queues):
                return None
            full = view.full.get(_key(queues))
            if view.full and (full is None or monotonic - full.at >= SAFETY_INTERVAL):
                return None
            self._views.move_to_end(tasks)
            return view.plan(queues, self._news)

    def moment(self, tasks: frozenset[str]) -> int:
        """Tell the moment, before the lines are read for a full look."""
        with self._lock:
            self._views.setdefault(tasks, View()).readings += 1
            return self._news

    def plan_full(
        self,
        tasks: frozenset[str],
        queues: Collection[str] | None,
        lines: Iterable[Line],
        began: int,
    ) -> Plan:
        """Plan a full look at these lines, and those heard of since it `began`."""
        with self._lock:
            # A view that was forgotten meanwhile hasn't heard what was told before.
            is_whole = tasks in self._views and began >= self._doubted
            view = self._views.setdefault(tasks, View())
            view.readings = max(view.readings - 1, 0)
            self._views.move_to_end(tasks)
            while len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
            kept = {
                line: known
                for line, known in view.lines.items()
                if (
                    known.heard > began
                    if queues is None or line.queue in queues
                    else view.covers_queue(line.queue)
                )
            }
            for line in lines:
                kept.setdefault(line, Known())
            view.lines = kept
            if queues is None:
                view.covers_all |= is_whole
            elif is_whole:
                view.covers.update(queues)
            for line, known in kept.items():
                if queues is None or line.queue in queues:
                    known.after, known.is_empty = BEGINNING, False
            return view.plan(queues, began)

    def gap_left(
        self, tasks: frozenset[str], queues: Collection[str] | None, monotonic: float
    ) -> float:
        """Tell in how many seconds a full look is allowed; 0: now."""
        with self._lock:
            view = self._views.get(tasks)
            full = None if view is None else view.full.get(_key(queues))
            return 0.0 if full is None else max(0.0, full.at + full.gap - monotonic)

    # After a look

    def looked(
        self,
        tasks: frozenset[str],
        plan: Plan,
        *,
        now: datetime,
        paused: object,
        found: Mapping[Line, Place],
        exhausted: Collection[Line],
    ) -> bool:
        """
        Move the bounds to where the look ended.

        `found` is the last job found of each line, `exhausted` are the lines that had
        no more. False where the look may have been a wrong one, and everything is
        forgotten: the clock went back, or a pause began or ended.
        """
        with self._lock:
            is_doubtful = self._now is not None and (
                now < self._now or paused != self._paused
            )
            self._now, self._paused = now, paused
            if is_doubtful:
                self._doubt()
                return False
            view = self._views.get(tasks)
            if view is None or plan.began < self._doubted:
                return True
            youngest = Place(now - YOUNGEST, 0)
            for line in plan.lines:
                known = view.lines.get(line)
                if known is None or known.heard > plan.began:
                    continue
                # One that gave jobs, if all it had, is as likely to have more.
                known.is_empty = line in exhausted and line not in found
                if line in exhausted:
                    known.after = max(known.after, youngest)
                elif line in found:
                    known.after = max(known.after, min(found[line], youngest))
            return True

    def looked_fully(
        self,
        tasks: frozenset[str],
        queues: Collection[str] | None,
        *,
        monotonic: float,
        cost: float,
    ) -> None:
        """Note when a full look ended and what it cost, in seconds."""
        with self._lock:
            view = self._views.get(tasks)
            if view is not None:
                gap = min(max(GAP_PER_COST * cost, SHORTEST_GAP), SAFETY_INTERVAL)
                view.full[_key(queues)] = Full(monotonic, gap)

    def planned(
        self,
        tasks: frozenset[str],
        plan: Plan,
        due: Mapping[Line, datetime],
    ) -> None:
        """Note when the next job of each line is due; one that is missing has none."""
        with self._lock:
            view = self._views.get(tasks)
            if view is None:
                return
            for line in plan.lines:
                known = view.lines.get(line)
                if known is None:
                    continue
                known.is_planned_known = True
                if known.heard <= plan.began:
                    known.planned = due.get(line)
                else:
                    known.planned = earliest(known.planned, due.get(line))

    def next_due(
        self, tasks: frozenset[str], plan: Plan, now: datetime
    ) -> tuple[bool, datetime | None]:
        """Tell whether it is known when the next job is due, and when that is."""
        with self._lock:
            view = self._views.get(tasks)
            if view is None or plan.began < self._doubted:
                return False, None
            first: datetime | None = None
            for line in plan.lines:
                known = view.lines.get(line)
                if known is None:
                    continue
                if not known.is_planned_known or (
                    known.planned is not None and known.planned <= now
                ):
                    return False, None
                first = earliest(first, known.planned)
            return True, first

    # News

    def heard(self, arrivals: Iterable[Arrival]) -> bool:
        """
        Hear of new jobs, of this process or another.

        False where none of them is in a queue that anybody here has looked at.
        """
        with self._lock:
            self._news += 1
            concerns = not self._views
            for arrival in arrivals:
                for view in self._views.values():
                    concerns |= self._arrived(view, arrival)
            return concerns

    def doubt(self) -> None:
        """Forget everything: something may have been missed."""
        with self._lock:
            self._doubt()

    def _arrived(self, view: View, arrival: Arrival) -> bool:
        known = view.lines.get(arrival.line)
        if known is None:
            is_covered = view.covers_queue(arrival.line.queue)
            if not is_covered and not view.readings:
                return False
            # No job was there before, so none is planned but what is told.
            known = view.lines[arrival.line] = Known(is_planned_known=is_covered)
        known.heard, known.is_empty = self._news, False
        known.after = min(known.after, Place(arrival.first_at, 0))
        if arrival.deferred_at is not None:
            known.planned = earliest(known.planned, arrival.deferred_at)
        return True

    def _doubt(self) -> None:
        self._news += 1
        self._doubted = self._news
        self._views.clear()


def _key(queues: Collection[str] | None) -> frozenset[str] | None:
    return None if queues is None else frozenset(queues)


def _best_first(line: Line) -> tuple[str, int]:
    return line.queue, -line.priority


def earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    """Tell the earlier of two instants, either of which may be none."""
    if one is None or other is None:
        return one or other
    return min(one, other)
