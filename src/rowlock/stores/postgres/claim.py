"""
Claiming: which lines a demand is served from, and taking due jobs of them.

Most claims are one statement, from where the last one ended. Queues take turns, and
share what there is room for, so that a busy one doesn't starve the others. A claim of
suspects is like any other, from bounds of its own; any other tells of those that wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from rowlock._job import Claim
from rowlock._store import Claimed, Demand
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.bounds import Bounds, Line, Place, Plan, earliest
from rowlock.stores.postgres.due import ask_when_due
from rowlock.stores.postgres.sessions import Session
from rowlock.stores.postgres.suspects import Suspects
from rowlock.stores.turns import Turn, Turns


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
        self._turns = Turns()

    async def claim(
        self,
        session: Session,
        demand: Demand,
        taker: Taker,
        look_again: Callable[[float], None],
    ) -> Claimed:
        """Take due jobs (laws 3, 4, 5, 11, 13, 16)."""
        plan = self._bounds.plan(demand.tasks, demand.queues, self._monotonic())
        if plan is not None:
            plan = plan.within(demand.queues)
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
        ).within(demand.queues)
        look, is_sound = await self._look(session, demand, taker, plan)
        if not is_sound:
            # Everything was forgotten, this look's lines too.
            return self._claimed(demand, plan, look)
        due = None
        if len(look.claims) < demand.total:
            due = await self._next_due(session, demand, plan, look.now)
        ended = self._monotonic()
        self._bounds.looked_fully(
            demand.tasks, demand.queues, monotonic=ended, cost=ended - began
        )
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
        if len(plan.busy) <= 1:
            look, exhausted = await self._serve(session, demand, taker, plan)
        else:
            # Shares that are not used up go to the others: perhaps more statements.
            async with session.transaction():
                look, exhausted = await self._serve(session, demand, taker, plan)
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
        self, session: Session, demand: Demand, taker: Taker, plan: Plan
    ) -> tuple[Look, set[Line]]:
        """Give each queue its share, and what is left to those that may want more."""
        limits = _limits(demand, plan)
        turn = self._turns.take(plan.busy, demand.weights, demand.total)
        # What is believed to be empty comes first: it costs a probe, and what nobody
        # told of, or has become due, doesn't wait until the others leave some room.
        others = {queue: limits[queue] for queue in limits if queue not in plan.busy}
        most = {**others, **turn.shares(limits)}
        look = await self._take(session, demand, taker, plan, most, total=demand.total)
        exhausted = _exhausted(plan, most, look.claims, demand.total)
        asked = Counter(most)
        # In proportion once more, then to whoever has it.
        for is_shared in (True, False):
            rest = demand.total - len(look.claims)
            hungry = _hungry(limits, asked, look.claims)
            if not (rest and hungry):
                break
            more = turn.more(hungry, rest) if is_shared else hungry
            further = await self._take(session, demand, taker, plan, more, total=rest)
            exhausted |= _exhausted(plan, more, further.claims, rest)
            look.claims.extend(further.claims)
            asked.update(more)
        if len(limits) > 1:
            look = look._replace(claims=_in_turn(turn, plan.busy, look.claims))
        return look, exhausted

    async def _take(
        self,
        session: Session,
        demand: Demand,
        taker: Taker,
        plan: Plan,
        most: Mapping[str, int],
        *,
        total: int,
    ) -> Look:
        """Run the claim once, for queues with the most that each may get of it."""
        served = {queue: turn for turn, queue in enumerate(most)}
        lines = [line for line in plan.lines if line.queue in served]
        after = [plan.lines[line] for line in lines]
        found = await session.run(
            "claim",
            tasks=rows.texts(list(demand.tasks)),
            suspects=str(demand.suspects),
            queues=rows.texts(list(served)),
            limits=rows.numbers(list(most.values())),
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
        return self._bounds.gap_left(demand.tasks, demand.queues, self._monotonic())


_by_due_time = itemgetter(16, 0)  # of the rows that `rows.claim` reads


def _limits(demand: Demand, plan: Plan) -> Mapping[str, int]:
    """Tell the most that each queue with a line may get."""
    queues = dict.fromkeys(line.queue for line in plan.lines)
    if demand.queues is None:
        return dict.fromkeys(queues, demand.total)
    return {queue: min(demand.queues[queue], demand.total) for queue in queues}


def _hungry(
    limits: Mapping[str, int], asked: Mapping[str, int], claims: Sequence[Claim]
) -> Mapping[str, int]:
    """Tell which queues gave all that they were asked for, and what each may yet."""
    got = Counter(claim.queue for claim in claims)
    return {
        queue: limits[queue] - most
        for queue, most in asked.items()
        if got[queue] == most < limits[queue]
    }


def _in_turn(turn: Turn, busy: frozenset[str], claims: Sequence[Claim]) -> list[Claim]:
    """Order claims as the queues take turns; those of one queue remain in order."""
    jobs: dict[str, list[Claim]] = {queue: [] for queue in busy}
    for claim in claims:
        jobs.setdefault(claim.queue, []).append(claim)
    dealt = turn.deal({queue: iter(jobs.pop(queue)) for queue in busy})
    return [*dealt, *chain(*jobs.values())]


def _exhausted(
    plan: Plan, most: Mapping[str, int], claims: Sequence[Claim], total: int
) -> set[Line]:
    """Name the lines that a look has read to their end."""
    got = Counter(claim.queue for claim in claims)
    # Of a queue that gave all that it might, the last line that gave a job; a queue
    # that gave less was read to its end.
    last_read: dict[str, int | None] = {}
    worst = {claim.queue: claim.priority for claim in claims}
    for queue, limit in most.items():
        count = got[queue]
        if count < min(limit, total):
            last_read[queue] = None
        elif count:
            last_read[queue] = worst[queue]
        total -= count
        if total <= 0:
            break
    return {
        line
        for line in plan.lines
        if line.queue in last_read
        and ((last := last_read[line.queue]) is None or line.priority > last)
    }
