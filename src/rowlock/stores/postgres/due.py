"""When to look again at lines, after a look at them that came back short."""

from __future__ import annotations

from datetime import datetime

from rowlock._store import Demand
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.bounds import Bounds, Line, Plan
from rowlock.stores.postgres.sessions import Session


async def ask_when_due(
    session: Session,
    bounds: Bounds,
    demand: Demand,
    plan: Plan,
    *,
    looked_at: datetime,
    suspects: bool,
) -> datetime | None:
    """Ask when to look again at these lines after a look, and note it."""
    found = await session.run(
        "next_due",
        tasks=rows.texts(list(demand.tasks)),
        suspects=str(suspects),
        # Not the moment of this question, or what became due between is in neither.
        looked_at=looked_at.isoformat(),
        queues=rows.texts([line.queue for line in plan.lines]),
        priorities=rows.numbers([line.priority for line in plan.lines]),
        after_ats=rows.instants([place.at for place in plan.lines.values()]),
        after_ids=rows.numbers([place.id for place in plan.lines.values()]),
    )
    planned = {Line(queue, priority): at for queue, priority, at in found}
    bounds.planned(demand.tasks, plan, planned)
    return min(planned.values(), default=None)
