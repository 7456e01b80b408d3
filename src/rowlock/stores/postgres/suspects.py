"""
Looking for suspects that a claim passes by: since when they wait, and who gives way.

Nearly always it is known that there are none, and nothing is asked. Where some wait, a
claim that got all that it had room for is told what was true a moment ago: its worker
can't take one now, and asks again before it gives way.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from rowlock._store import Claimed, Demand
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.bounds import Bounds, Line, Plan
from rowlock.stores.postgres.due import ask_when_due
from rowlock.stores.postgres.sessions import Row, Session

# The age of what a claim may be told; then workers that came and went are seen.
MEMORY_S = 1.0


class Waiting(NamedTuple):
    """Suspects that a demand passes by: since when, and when the next is due."""

    since: datetime | None
    chosen_since: datetime | None
    next_due: datetime | None


class Asker(NamedTuple):
    """Who looks, and for what: a demand without its numbers."""

    tasks: frozenset[str]
    queues: frozenset[str] | None
    worker: str


class Memory(NamedTuple):
    """What a look found, after which news of suspects, and when."""

    asker: Asker
    news: int
    at: float
    waiting: Waiting


class Suspects:
    """The looks of one process for suspects."""

    def __init__(self, bounds: Bounds, monotonic: Callable[[], float]) -> None:
        self._bounds = bounds
        self._monotonic = monotonic
        self._memory: Memory | None = None

    def forget(self) -> None:
        """Forget what was found: this process takes one."""
        self._memory = None

    async def look(
        self, session: Session, demand: Demand, worker: str, claimed: Claimed
    ) -> Waiting | None:
        """Look for those that a claim of others passed by; None: there are none."""
        began = self._monotonic()
        plan = self._bounds.plan(demand.tasks, demand.queues, began)
        if plan is None:
            return await self._look_fully(session, demand, worker)
        is_known, due = self._bounds.next_due(demand.tasks, plan, claimed.now)
        if is_known and not plan.busy:
            return None if due is None else Waiting(None, None, due)
        asker = Asker(demand.tasks, _queues(demand), worker)
        has_all = 0 < demand.total == len(claimed.claims)
        if has_all and (told := self._remembered(asker, plan.began, began)):
            return told
        waiting = await self._ask(session, demand, worker, plan)
        self._memory = Memory(asker, plan.began, began, waiting)
        return waiting

    def _remembered(self, asker: Asker, news: int, now: float) -> Waiting | None:
        memory = self._memory
        if memory is None or (memory.asker, memory.news) != (asker, news):
            return None
        return memory.waiting if now - memory.at < MEMORY_S else None

    async def _look_fully(
        self, session: Session, demand: Demand, worker: str
    ) -> Waiting:
        began = self._monotonic()
        moment = self._bounds.moment(demand.tasks)
        queues = None if demand.queues is None else rows.texts(list(demand.queues))
        found = await session.run("lines", queues=queues)
        plan = self._bounds.plan_full(
            demand.tasks, demand.queues, [Line(*row) for row in found], moment
        )
        waiting = await self._ask(session, demand, worker, plan)
        ended = self._monotonic()
        self._bounds.looked_fully(
            demand.tasks, demand.queues, monotonic=ended, cost=ended - began
        )
        return waiting

    async def _ask(
        self, session: Session, demand: Demand, worker: str, plan: Plan
    ) -> Waiting:
        found = await session.run(
            "suspects",
            tasks=rows.texts(list(demand.tasks)),
            queues=rows.texts([line.queue for line in plan.lines]),
            priorities=rows.numbers([line.priority for line in plan.lines]),
        )
        now, *paused = found[0][-3:]
        due = [row for row in found if row[0] is not None]
        self._bounds.looked(
            demand.tasks,
            plan,
            now=now,
            paused=paused,
            found={},
            exhausted=set(plan.lines) - {Line(row[0], row[1]) for row in due},
        )
        is_known, next_due = self._bounds.next_due(demand.tasks, plan, now)
        if not is_known:
            next_due = await ask_when_due(
                session, self._bounds, demand, plan, looked_at=now, suspects=True
            )
        return Waiting(*_since(due, worker), next_due)


def _queues(demand: Demand) -> frozenset[str] | None:
    if demand.queues is None:
        return None
    return frozenset(queue for queue, most in demand.queues.items() if most > 0)


def _since(due: list[Row], worker: str) -> tuple[datetime | None, datetime | None]:
    """Tell since when the first waits, and the first that this worker is chosen for."""
    first: dict[str, Row] = {}
    for row in due:
        # One worker a queue: the one that is chosen for the suspect that is due first.
        if row[0] not in first or row[2] < first[row[0]][2]:
            first[row[0]] = row
    chosen = [row[2] for row in first.values() if row[3] in (worker, None)]
    return (
        min((row[2] for row in due), default=None),
        min(chosen, default=None),
    )
