"""
Claiming: which due jobs a demand gets, and taking them.

A queue is read as lines (a priority and a task each), so that lines nobody asked for
and jobs planned for later are stepped over. Lines of one priority are merged by due
time (law 4); queues take turns, so that a busy one doesn't starve the others. Suspects
stand in lines of their own, which a demand for others only looks at.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from rowlock._store import Claimed
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.statements import SQL
from rowlock.stores.sqlite.thread import PENDING
from rowlock.stores.turns import Turns

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence

    from rowlock._job import Claim
    from rowlock._store import Demand
    from rowlock.stores.sqlite.thread import Pending

_BEFORE_ALL = -(2**63)


class Line(NamedTuple):
    """Pending jobs of one priority and task: when the first is due, and the next."""

    priority: int
    task: str
    first_at: int
    later_at: int | None


@dataclass(frozen=True, slots=True)
class Pauses:
    """What is paused now, each until when; None is for good."""

    queues: Mapping[str, int | None]
    tasks: Mapping[str, int | None]

    def has(self, queue: str, task: str) -> bool:
        """Say whether a task is paused in a queue (law 11)."""
        return queue in self.queues or task in self.tasks

    def until(self, queue: str, task: str) -> int | None:
        """Tell when both pauses are over by themselves; None is never."""
        ends = [
            found[name]
            for found, name in ((self.queues, queue), (self.tasks, task))
            if name in found
        ]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None


@dataclass(frozen=True, slots=True)
class Look:
    """One look for what a demand may have: the most of each queue, what is paused."""

    connection: sqlite3.Connection
    now: int
    demand: Demand
    limits: Mapping[str, int]
    pauses: Pauses

    def lines(self, queue: str, *, suspects: bool) -> list[Line]:
        """Read the lines of a queue that fit the demand, the best priority first."""
        found = self.connection.execute(
            SQL["lines"], {"queue": queue, "now": self.now, "suspects": suspects}
        ).fetchall()
        tasks = self.demand.tasks
        return [line for line in map(Line._make, found) if line.task in tasks]

    def due(self, lines: Sequence[Line], queue: str) -> Sequence[Line]:
        """Leave out the lines that are paused, or have nothing due."""
        return [
            line
            for line in lines
            if line.first_at <= self.now and not self.pauses.has(queue, line.task)
        ]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Suspects that a demand passes by: since when, and when the next is due."""

    since: int | None = None
    chosen_since: int | None = None
    next_due: int | None = None


_NOBODY_WAITS = Waiting()


def peek(
    connection: sqlite3.Connection, now: int, demand: Demand, *, worker: str
) -> Claimed | Pending:
    """Answer a claim that gets nothing, without a write."""
    look = _look(connection, now, demand)
    lines, next_due = _served(look)
    # Of any queue: whose turn it is makes no difference, and remains what it is.
    if demand.total > 0 and any(
        any(_in_order(Reader(look, queue, 1), due)) for queue, due in lines.items()
    ):
        return PENDING
    return _claimed((), look, next_due, worker)


def claim(
    connection: sqlite3.Connection,
    now: int,
    demand: Demand,
    turns: Turns,
    *,
    worker: str,
    lease: int,
    alone: bool,
) -> Claimed:
    """Take the due jobs that the demand gets (laws 3, 5)."""
    # Chosen again: what was seen before the write lock may be taken or paused by now.
    look = _look(connection, now, demand)
    lines, next_due = _served(look)
    ids = _choose(look, lines, turns)
    taken = connection.execute(
        SQL["claim"],
        {
            "ids": json.dumps(ids),
            "worker": worker,
            "leased_until": now + lease,
            "alone": alone,
            "now": now,
        },
    ).fetchall()
    by_id = {row[0]: row for row in taken}
    claims = tuple(rows.claim(by_id[job_id]) for job_id in ids)
    return _claimed(claims, look, next_due, worker)


def _claimed(
    claims: tuple[Claim, ...], look: Look, next_due: int | None, worker: str
) -> Claimed:
    waiting = _waiting(look, worker)
    planned = [at for at in (next_due, waiting.next_due) if at is not None]
    return Claimed(
        claims=claims,
        now=rows.instant(look.now),
        next_due=rows.maybe_instant(min(planned, default=None)),
        suspect_since=rows.maybe_instant(waiting.since),
        chosen_since=rows.maybe_instant(waiting.chosen_since),
    )


def _waiting(look: Look, worker: str) -> Waiting:
    """Look for the suspects that a demand passes by."""
    if look.demand.suspects or not _has_suspects(look.connection):
        return _NOBODY_WAITS
    since: list[int] = []
    chosen_since: list[int] = []
    next_due: list[int] = []
    for queue in look.limits:
        lines = look.lines(queue, suspects=True)
        next_due.extend(_next_due(lines, queue, look.pauses))
        due = look.due(lines, queue)
        if not due:
            continue
        # One worker a queue: the one that is chosen for the suspect that is due first.
        first = min(due, key=lambda line: line.first_at)
        since.append(first.first_at)
        if _chosen(look, queue, first.task) in (worker, None):
            chosen_since.append(first.first_at)
    return Waiting(
        min(since, default=None),
        min(chosen_since, default=None),
        min(next_due, default=None),
    )


def _has_suspects(connection: sqlite3.Connection) -> bool:
    return connection.execute(SQL["has_suspects"]).fetchone() is not None


def _chosen(look: Look, queue: str, task: str) -> str | None:
    found = look.connection.execute(
        SQL["chosen"], {"queue": queue, "task": task, "now": look.now}
    ).fetchone()
    return None if found is None else str(found[0])


def _served(look: Look) -> tuple[Mapping[str, Sequence[Line]], int | None]:
    """Tell which lines of which queues have due jobs, and when the next one will be."""
    served: dict[str, Sequence[Line]] = {}
    next_due: list[int] = []
    for queue, limit in look.limits.items():
        if limit > 0:
            lines = look.lines(queue, suspects=look.demand.suspects)
            next_due.extend(_next_due(lines, queue, look.pauses))
            if due := look.due(lines, queue):
                served[queue] = due
    return served, min(next_due, default=None)


def _choose(
    look: Look, served: Mapping[str, Sequence[Line]], turns: Turns
) -> Sequence[int]:
    """Choose due jobs, in the order to start them, as the queues take turns."""
    turn = turns.take(served, look.demand.weights, look.demand.total)
    most = turn.shares(look.limits)
    # What others can't use it may get too, up to its limit, and reads on for it.
    return turn.deal(
        {
            queue: islice(
                _in_order(Reader(look, queue, max(1, most[queue])), due),
                look.limits[queue],
            )
            for queue, due in served.items()
        }
    )


def _next_due(lines: Sequence[Line], queue: str, pauses: Pauses) -> Iterator[int]:
    """Tell when each line has its next job, or is no longer paused."""
    for line in lines:
        if not pauses.has(queue, line.task):
            if line.later_at is not None:
                yield line.later_at
        elif (until := pauses.until(queue, line.task)) is not None:
            yield max(until, line.first_at)


class Reader(NamedTuple):
    """Who reads the lines of a queue, `size` jobs at a time."""

    look: Look
    queue: str
    size: int

    def read(self, line: Line) -> Iterator[tuple[int, int]]:
        """Give a line's due jobs, each with when it was due."""
        after_run_at, after_id = _BEFORE_ALL, 0
        while True:
            found = self.look.connection.execute(
                SQL["due"],
                {
                    "queue": self.queue,
                    "suspects": self.look.demand.suspects,
                    "priority": line.priority,
                    "task": line.task,
                    "now": self.look.now,
                    "after_run_at": after_run_at,
                    "after_id": after_id,
                    "limit": self.size,
                },
            ).fetchall()
            yield from found
            if len(found) < self.size:
                return
            after_run_at, after_id = found[-1]


def _in_order(reader: Reader, due: Sequence[Line]) -> Iterator[int]:
    """Give a queue's due jobs in the order of law 4, read as they are asked for."""
    for _, lines in groupby(due, lambda line: line.priority):
        for _, job_id in heapq.merge(*map(reader.read, lines)):
            yield job_id


def _look(connection: sqlite3.Connection, now: int, demand: Demand) -> Look:
    return Look(
        connection, now, demand, _limits(connection, demand), _pauses(connection, now)
    )


def _limits(connection: sqlite3.Connection, demand: Demand) -> Mapping[str, int]:
    if demand.queues is not None:
        return demand.queues
    return {
        queue: demand.total for (queue,) in connection.execute(SQL["queues"]).fetchall()
    }


def _pauses(connection: sqlite3.Connection, now: int) -> Pauses:
    found = connection.execute(SQL["pausing"], {"now": now}).fetchall()
    return Pauses(
        queues={row[0]: row[2] for row in found if row[0] is not None},
        tasks={row[1]: row[2] for row in found if row[1] is not None},
    )
