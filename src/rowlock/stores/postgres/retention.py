"""
Letting go of the history's old days: a partition is detached, then dropped.

Nobody waits for it. A detach waits itself until every transaction that reads the
history is over, at most `PATIENCE`; where one isn't, the next pruning goes on there.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from psycopg import sql

from rowlock._durations import iso
from rowlock._errors import StoreUnavailable
from rowlock._store import Retention
from rowlock.stores.postgres import rows
from rowlock.stores.postgres.errors import Locked
from rowlock.stores.postgres.sessions import Session

_log = logging.getLogger("rowlock.store")

PATIENCE = timedelta(seconds=5)

# A finish just before midnight, or after the server's clock was corrected, still finds
# the day before.
_SHORTEST = timedelta(hours=1)


class Day(NamedTuple):
    """A partition of which nothing is to be kept; `jobs` is an estimate."""

    name: str
    is_attached: bool
    is_pending: bool
    is_dropped_whole: bool
    jobs: int
    ends_at: datetime


async def past_days(session: Session, retention: Retention) -> Sequence[Day]:
    """Name the days that are past, in the order in which they have to go."""
    kept = max(retention.succeeded, retention.cancelled, _SHORTEST)
    found = await session.run("past_days", kept=str(rows.micros(kept)))
    return [Day(*row) for row in found]


async def drop(
    session: Session, retention: Retention, names: Collection[str], shown: str
) -> int:
    """
    Drop these days, on a connection for it alone; about how many jobs went.

    None where another process is at it. Where a reader is in the way it is named in the
    log, and the rest is left for the next time: no other day can be detached before.
    """
    if session.is_pooled:
        return await _drop_in_transactions(session, retention, names)
    span = f"{rows.micros(PATIENCE) // 1000}ms"
    ((is_ours, *_),) = await session.run("retiring", span=span)
    if not is_ours:
        return 0
    count = 0
    for day in await past_days(session, retention):
        if day.name not in names:
            continue
        try:
            await _drop(session, day)
        except StoreUnavailable:
            if not session.is_usable:
                raise
            await _name_the_reader(session, day, shown)
            break
        count += day.jobs if day.is_dropped_whole else 0
    return count


async def _drop_in_transactions(
    session: Session, retention: Retention, names: Collection[str]
) -> int:
    """
    Drop them through a pooler, which keeps nothing but a transaction together.

    That can't detach beside readers, so it waits for them for a moment only, as
    everybody who finishes a job waits behind it.
    """
    count = 0
    for day in await past_days(session, retention):
        if day.name not in names:
            continue
        try:
            async with session.transaction():
                ((is_ours, _),) = await session.run("retiring_briefly")
                if not is_ours:
                    break
                if day.is_pending:
                    await _change(session, "finalize_partition", day)
                await _change(session, "drop_partition", day)
        except Locked as error:
            _log.warning(
                "%s is past its retention and can't be dropped yet. It is tried again"
                " with the next pruning; past a pooler, where ROWLOCK_DIRECT_URL leads,"
                " it would be dropped beside who reads the history. (%s)",
                day.name,
                error,
            )
            break
        count += day.jobs if day.is_dropped_whole else 0
    return count


async def _drop(session: Session, day: Day) -> None:
    if day.is_pending:
        await _change(session, "finalize_partition", day)
    elif day.is_attached:
        await _change(session, "mark_partition", day)
        await _change(session, "detach_partition", day)
    await _change(session, "drop_partition", day)


async def _change(session: Session, operation: str, day: Day) -> None:
    name = sql.Identifier(day.name).as_string()
    statement = session.text(operation).replace("{partition}", name)
    await session.execute(statement.encode(), {})


async def _name_the_reader(session: Session, day: Day, shown: str) -> None:
    found = await session.run("in_the_way", partition=day.name)
    who = "a session that has just ended"
    if found:
        pid, user, application, client, state, since = found[0]
        told = [
            f"user {user}" if user else "",
            application or "",
            f"from {client}" if client else "",
            state or "",
            f"its transaction began at {iso(since)}" if since else "",
        ]
        who = f"session {pid} ({', '.join(filter(None, told))})"
    _log.warning(
        "%s of %s is past its retention and can't be dropped yet: %s reads the"
        " history. It is tried again with the next pruning.",
        day.name,
        shown,
        who,
    )
