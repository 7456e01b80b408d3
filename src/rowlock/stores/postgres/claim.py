"""
Claiming: which lines a demand is served from, and taking due jobs of them.

Most claims are one statement, from where the last one ended. Queues take turns, and
share what there is room for, so that a busy one doesn't starve the others. A claim of
suspects is like any other, from bounds of its own; any other tells of those that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import NamedTuple

from rowlock._job import Claim
from rowlock._store import Claimed, Demand
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.bounds import Bounds, Line, Place, Plan, earliest
from rowlock.stores.postgres.due import ask_when_due
from rowlock.stores.postgres.sessions import Session
from rowlock.stores.postgres.suspects import Suspects


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """Who claims, and how."""

    worker: str
    lease: timedelta
    alone: bool


class Look(NamedTuple):
    """What one statement got, and what it said of the store."""

    claims: list[Claim]
    now: datetime
    paused: object


class Serving(NamedTuple):
    """A queue, and the most that it gets of one look."""

    queue: str
    most: int


class Claimer:
    """The claims of one process on one store."""

    def __init__(
        self, others: Bounds, suspects: Bounds, monotonic: Callable[[], float]
    ) -> None:
        self._others: Claiming = Claiming(others, monotonic)
        self._suspects: Claiming = Claiming(suspects, monotonic)
        self._waiting: Suspects = Suspects(suspects, monotonic)

    async def claim(
        self,
        session: Session,
        demand: Demand,
        taker: Taker,
        look_again: Callable[[float], None],
    ) -> Claimed:
        """
        Take due jobs, and tell of suspects that wait.

        `look_again` is told in how many seconds another claim may find what this one
        could not see.
        """
        if demand.suspects:
            self._waiting.forget()
            return await self._suspects.claim(session, demand, taker, look_again)
        claimed = await self._others.claim(session, demand, taker, look_again)
        waiting = await self._waiting.look(session, demand, taker.worker, claimed)
        if waiting is None:
            return claimed
        return replace(
            claimed,
            next_due=earliest(claimed.next_due, waiting.next_due),
            suspect_since=waiting.since,
            chosen_since=waiting.chosen_since,
        )


class Claiming:
    """The claims of suspects, or of all other jobs."""

    def __init__(self, bounds: Bounds, monotonic: Callable[[], float]) -> None:
        self._bounds = bounds
        self._monotonic = monotonic
        self._turn = 0

    async def claim(
        self,
        session: Session,
        demand: Demand,
        taker: Taker,
        look_again: Callable[[float], None],
    ) -> Claimed:
        """Take due jobs (laws 3, 4, 5, 11, 13, 16)."""
        # On by as many queues as it may serve, or its neighbours would be served again.
        self._turn += demand.total
        plan = self._bounds.plan(demand.tasks, demand.queues, self._monotonic())
        if plan is not None:
            look, is_sound = await self._look(session, demand, taker, plan)
            if look.claims or demand.total <= 0:
                if len(look.claims) < demand.total:
                    look_again(self._gap_left(demand) if is_sound else 0.0)
                return self._claimed(demand, plan, look)
            if is_sound and (left := self._gap_left(demand)) > 0:
                look_again(left)
                due = await self._next_due(session, demand, plan, look.now)
                return Claimed(claims=(), now=look.now, next_due=due)
        return await self._claim_fully(session, demand, taker)

    async def _claim_fully(
        self, session: Session, demand: Demand, taker: Taker
    ) -> Claimed:
        began = self._monotonic()
        moment = self._bounds.moment(demand.tasks)
        queues = None if demand.queues is None else rows.texts(list(demand.queues))
        found = await session.run("lines", queues=queues)
        plan = self._bounds.plan_full(
            demand.tasks, demand.queues, [Line(*row) for row in found], moment
        )
        look, is_sound = await self._look(session, demand, taker, plan)
        if not is_sound:
            # Everything was forgotten, this look's lines too.
            return self._claimed(demand, plan, look)
        due = None
        if len(look.claims) < demand.total:
            due = await self._next_due(session, demand, plan, look.now)
        ended = self._monotonic()
        self._bounds.looked_fully(demand.tasks, monotonic=ended, cost=ended - began)
        if len(look.claims) == demand.total:
            return self._claimed(demand, plan, look)
        return Claimed(claims=tuple(look.claims), now=look.now, next_due=due)

    def _claimed(self, demand: Demand, plan: Plan, look: Look) -> Claimed:
        """Answer without another question; what isn't known is worth a look at once."""
        is_known, due = self._bounds.next_due(demand.tasks, plan, look.now)
        return Claimed(
            claims=tuple(look.claims),
            now=look.now,
            next_due=due if is_known else look.now,
        )

    async def _look(
        self, session: Session, demand: Demand, taker: Taker, plan: Plan
    ) -> tuple[Look, bool]:
        """Take what is due, and move the bounds; False where they were in doubt."""
        servings = self._share(demand, plan)
        if len(plan.busy) <= 1:
            look, exhausted = await self._serve(session, demand, taker, plan, servings)
        else:
            # Shares that are not used up go to the others: perhaps two statements.
            async with session.transaction():
                look, exhausted = await self._serve(
                    session, demand, taker, plan, servings
                )
        # A later one of its line is further on.
        last = {(claim.queue, claim.priority): claim for claim in look.claims}
        found = {
            Line(*line): Place(claim.run_at, claim.job_id)
            for line, claim in last.items()
        }
        is_sound = self._bounds.looked(
            demand.tasks,
            plan,
            now=look.now,
            paused=look.paused,
            found=found,
            exhausted=exhausted,
        )
        return look, is_sound

    async def _serve(
        self,
        session: Session,
        demand: Demand,
        taker: Taker,
        plan: Plan,
        servings: Sequence[Serving],
    ) -> tuple[Look, set[Line]]:
        """Give each queue its share, and what is left to those that may want more."""
        look = await self._take(
            session, demand, taker, plan, servings, total=demand.total
        )
        exhausted = _exhausted(plan, servings, look.claims, demand.total)
        rest = demand.total - len(look.claims)
        more = _unserved(demand, plan, servings, look.claims) if rest else []
        if more:
            further = await self._take(session, demand, taker, plan, more, total=rest)
            exhausted |= _exhausted(plan, more, further.claims, rest)
            look.claims.extend(further.claims)
        return look, exhausted

    async def _take(
        self,
        session: Session,
        demand: Demand,
        taker: Taker,
        plan: Plan,
        servings: Sequence[Serving],
        *,
        total: int,
    ) -> Look:
        """Run the claim once."""
        served = {serving.queue: turn for turn, serving in enumerate(servings)}
        lines = [line for line in plan.lines if line.queue in served]
        after = [plan.lines[line] for line in lines]
        found = await session.run(
            "claim",
            tasks=rows.texts(list(demand.tasks)),
            suspects=str(demand.suspects),
            queues=rows.texts(list(served)),
            limits=rows.numbers([serving.most for serving in servings]),
            line_queues=rows.texts([line.queue for line in lines]),
            priorities=rows.numbers([line.priority for line in lines]),
            after_ats=rows.instants([place.at for place in after]),
            after_ids=rows.numbers([place.id for place in after]),
            total=str(total),
            lease=str(rows.micros(taker.lease)),
            worker=taker.worker,
            alone=str(taker.alone),
        )
        now, *paused = found[0][-3:]
        if found[0][0] is None:
            return Look([], now, paused)
        found.sort(key=_by_due_time)
        if len(lines) > 1:
            found.sort(key=lambda row: (served[row[3]], -row[4]))
        return Look([rows.claim(row) for row in found], now, paused)

    def _share(self, demand: Demand, plan: Plan) -> list[Serving]:
        """Let busy queues take turns and share alike; the others get what is left."""
        limits = _limits(demand, plan)
        queues = [queue for queue, limit in limits.items() if limit > 0]
        busy = [queue for queue in queues if queue in plan.busy]
        start = self._turn % max(1, len(busy))
        each, over = divmod(demand.total, max(1, len(busy)))
        return [
            Serving(queue, min(limits[queue], each + (place < over)))
            for place, queue in enumerate([*busy[start:], *busy[:start]])
        ] + [
            Serving(queue, min(limits[queue], demand.total))
            for queue in queues
            if queue not in plan.busy
        ]

    async def _next_due(
        self, session: Session, demand: Demand, plan: Plan, now: datetime
    ) -> datetime | None:
        is_known, due = self._bounds.next_due(demand.tasks, plan, now)
        if is_known:
            return due
        return await ask_when_due(
            session,
            self._bounds,
            demand,
            plan,
            looked_at=now,
            suspects=demand.suspects,
        )

    def _gap_left(self, demand: Demand) -> float:
        return self._bounds.gap_left(demand.tasks, self._monotonic())


_by_due_time = itemgetter(16, 0)  # of the rows that `rows.claim` reads


def _limits(demand: Demand, plan: Plan) -> Mapping[str, int]:
    """Tell the most that each queue with a line may get."""
    queues = dict.fromkeys(line.queue for line in plan.lines)
    if demand.queues is None:
        return dict.fromkeys(queues, demand.total)
    return {queue: demand.queues[queue] for queue in queues}


def _unserved(
    demand: Demand, plan: Plan, servings: Sequence[Serving], claims: Sequence[Claim]
) -> list[Serving]:
    """Name the queues that got all of their share, and may have more."""
    limits = _limits(demand, plan)
    got = _counts(claims)
    return [
        Serving(queue, limits[queue] - most)
        for queue, most in servings
        if most < limits[queue] and got.get(queue, 0) == most
    ]


def _exhausted(
    plan: Plan, servings: Sequence[Serving], claims: Sequence[Claim], total: int
) -> set[Line]:
    """Name the lines that a look has read to their end."""
    got = _counts(claims)
    # Of a queue that gave all that it might, the last line that gave a job; a queue
    # that gave less was read to its end.
    last_read: dict[str, int | None] = {}
    worst = {claim.queue: claim.priority for claim in claims}
    for queue, most in servings:
        count = got.get(queue, 0)
        last_read[queue] = worst.get(queue) if count >= min(most, total) else None
        if count >= min(most, total) and not count:
            del last_read[queue]
        total -= count
        if total <= 0:
            break
    return {
        line
        for line in plan.lines
        if line.queue in last_read
        and ((last := last_read[line.queue]) is None or line.priority > last)
    }


def _counts(claims: Sequence[Claim]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for claim in claims:
        counts[claim.queue] = counts.get(claim.queue, 0) + 1
    return counts
