"""
Claiming: which due jobs a demand gets, and taking them.

A queue is read as lines (a priority and a task each), so that lines nobody asked for
and jobs planned for later are stepped over. Lines of one priority are merged by due
time (law 4); queues take turns, so that a busy one doesn't starve the others.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from rowlock._store import Claimed, Demand
from rowlock.stores.sqlite import rows
from rowlock.stores.sqlite.statements import SQL
from rowlock.stores.sqlite.thread import PENDING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

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

    def until(self, queue: str, task: str) -> tuple[bool, int | None]:
        """Tell whether a line is paused, and until when both its pauses are over."""
        ends = [
            found[name]
            for found, name in ((self.queues, queue), (self.tasks, task))
            if name in found
        ]
        known = [end for end in ends if end is not None]
        is_for_good = len(known) < len(ends)
        return bool(ends), None if is_for_good or not ends else max(known)


@dataclass(frozen=True, slots=True)
class Choice:
    """The due jobs chosen, in the order to start them, and when to look again."""

    ids: Sequence[int]
    next_due: int | None


def peek(
    connection: sqlite3.Connection, now: int, demand: Demand, turn: int
) -> Claimed | Pending:
    """Answer a claim that gets nothing, without a write."""
    choice = choose(connection, now, demand, turn)
    if choice.ids:
        return PENDING
    return Claimed(
        claims=(),
        now=rows.instant(now),
        next_due=rows.maybe_instant(choice.next_due),
    )


def claim(
    connection: sqlite3.Connection,
    now: int,
    demand: Demand,
    turn: int,
    *,
    worker: str,
    lease: int,
    alone: bool,
) -> Claimed:
    """Take the due jobs that the demand gets (laws 3, 5)."""
    choice = choose(connection, now, demand, turn)
    taken = connection.execute(
        SQL["claim"],
        {
            "ids": json.dumps(choice.ids),
            "worker": worker,
            "leased_until": now + lease,
            "alone": alone,
            "now": now,
        },
    ).fetchall()
    by_id = {row[0]: row for row in taken}
    return Claimed(
        claims=tuple(rows.claim(by_id[job_id]) for job_id in choice.ids),
        now=rows.instant(now),
        next_due=rows.maybe_instant(choice.next_due),
    )


def choose(
    connection: sqlite3.Connection, now: int, demand: Demand, turn: int
) -> Choice:
    """Choose due jobs; `turn` says which of the queues is served first."""
    limits = _limits(connection, demand)
    pauses = _pauses(connection, now)
    names = sorted(name for name, limit in limits.items() if limit > 0)
    if names:
        turn %= len(names)
    served: list[tuple[Iterator[int], int]] = []
    next_due: list[int] = []
    share = max(1, demand.total // max(1, len(names)))
    for queue in names[turn:] + names[:turn]:
        due: list[Line] = []
        for line in _lines(connection, now, queue):
            if line.task not in demand.tasks:
                continue
            is_paused, until = pauses.until(queue, line.task)
            if not is_paused:
                if line.first_at <= now:
                    due.append(line)
                later = line.later_at
            else:
                later = None if until is None else max(until, line.first_at)
            if later is not None:
                next_due.append(later)
        if due:
            size = min(share, limits[queue])
            served.append((_in_order(connection, now, queue, due, size), limits[queue]))
    return Choice(_deal(served, demand.total), min(next_due, default=None))


def _deal(served: list[tuple[Iterator[int], int]], total: int) -> Sequence[int]:
    """Take one of each queue in turn, until there is enough or nothing left."""
    chosen: list[int] = []
    while served and len(chosen) < total:
        rest = []
        for jobs, limit in served:
            if len(chosen) >= total:
                break
            job_id = next(jobs, None)
            if job_id is None:
                continue
            chosen.append(job_id)
            if limit > 1:
                rest.append((jobs, limit - 1))
        served = rest
    return chosen


def _in_order(
    connection: sqlite3.Connection, now: int, queue: str, due: Sequence[Line], size: int
) -> Iterator[int]:
    """Give a queue's due jobs in the order of law 4, read as they are asked for."""
    for _, lines in groupby(due, lambda line: line.priority):
        readers = [_read_line(connection, now, queue, line, size) for line in lines]
        for _, job_id in heapq.merge(*readers):
            yield job_id


def _read_line(
    connection: sqlite3.Connection, now: int, queue: str, line: Line, size: int
) -> Iterator[tuple[int, int]]:
    after_run_at, after_id = _BEFORE_ALL, 0
    while True:
        found = connection.execute(
            SQL["due"],
            {
                "queue": queue,
                "priority": line.priority,
                "task": line.task,
                "now": now,
                "after_run_at": after_run_at,
                "after_id": after_id,
                "limit": size,
            },
        ).fetchall()
        yield from found
        if len(found) < size:
            return
        after_run_at, after_id = found[-1]


def _limits(connection: sqlite3.Connection, demand: Demand) -> Mapping[str, int]:
    if demand.queues is not None:
        return demand.queues
    return {queue: demand.total for (queue,) in connection.execute(SQL["queues"]).fetchall()}


def _pauses(connection: sqlite3.Connection, now: int) -> Pauses:
    found = connection.execute(SQL["pausing"], {"now": now}).fetchall()
    return Pauses(
        queues={row[0]: row[2] for row in found if row[0] is not None},
        tasks={row[1]: row[2] for row in found if row[1] is not None},
    )


def _lines(connection: sqlite3.Connection, now: int, queue: str) -> list[Line]:
    found = connection.execute(SQL["lines"], {"queue": queue, "now": now}).fetchall()
    return [Line(*row) for row in found]
