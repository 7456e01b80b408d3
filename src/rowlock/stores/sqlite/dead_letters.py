"""Dead letters as groups, and their automatic replay."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from rowlock._dead_letters import MOST_REPLAYS, ReplayState, Turn, read_group
from rowlock.stores._json import read_json
from rowlock.stores.sqlite import operate, rows
from rowlock.stores.sqlite.statements import SQL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from rowlock._answers import DeadGroup
    from rowlock._dead_letters import Probed, ReplayRule
    from rowlock._job import JSON
    from rowlock._store import Answer
    from rowlock.stores.sqlite.database import Database


class SQLiteDeadLetters:
    """A `DeadLetters` for one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def groups(
        self, *, task: str | None, queue: str | None, limit: int
    ) -> Sequence[DeadGroup]:
        """Group dead letters; see `DeadLetters.groups`."""
        return await self._database.read(
            partial(_groups, task=task, queue=queue, limit=limit)
        )

    async def take_turn(self, rule: ReplayRule, *, worker: str) -> Turn:
        """Take the turn with a rule; see `DeadLetters.take_turn`."""
        return await self._database.write(partial(_take_turn, rule=rule, worker=worker))

    async def replayable(self, task: str, *, limit: int) -> Sequence[int]:
        """Give dead letters to replay; see `DeadLetters.replayable`."""
        return await self._database.read(partial(_replayable, task=task, limit=limit))

    async def replay(
        self, ids: Sequence[int], *, by: str, pace: timedelta
    ) -> Sequence[Answer]:
        """Replay dead letters, and count it; see `DeadLetters.replay`."""
        return await self._database.write(
            partial(
                operate.replay,
                ids=ids,
                by=by,
                delay=0,
                pace=rows.to_span(pace),
                most=MOST_REPLAYS,
            ),
            news=True,
        )

    async def tell(self, probed: Probed) -> bool:
        """Note what a probe said; see `DeadLetters.tell`."""
        return await self._database.write(partial(_tell, probed=probed))

    async def rules(self) -> Sequence[ReplayState]:
        """Tell the rules; see `DeadLetters.rules`."""
        return await self._database.read(_rules)


def _groups(
    connection: sqlite3.Connection,
    _now: int,
    *,
    task: str | None,
    queue: str | None,
    limit: int,
) -> tuple[DeadGroup, ...]:
    found = connection.execute(
        SQL["dead_groups"], {"task": task, "queue": queue, "limit": limit}
    ).fetchall()
    return tuple(
        read_group(
            row[1],
            row[0],
            count=row[2],
            seen=(rows.instant(row[3]), rows.instant(row[4])),
            newest=row[5],
            entry=_entry(row[6]),
        )
        for row in found
    )


def _entry(text: str | None) -> Mapping[str, JSON]:
    value = read_json(text)
    return value if isinstance(value, dict) else {}


def _take_turn(
    connection: sqlite3.Connection, now: int, *, rule: ReplayRule, worker: str
) -> Turn:
    every = rows.to_span(rule.every)
    row = {
        "task": rule.task,
        "every": every,
        "limit": rule.limit,
        "rate": rule.rate,
        "worker": worker,
        "now": now,
    }
    taken = connection.execute(SQL["take_turn"], row).fetchone()
    if taken is not None:
        return Turn(is_ours=True, next_in=rule.every)
    (turn_at,) = connection.execute(SQL["turn"], row).fetchone()
    return Turn(is_ours=False, next_in=timedelta(microseconds=turn_at + every - now))


def _replayable(
    connection: sqlite3.Connection, now: int, *, task: str, limit: int
) -> tuple[int, ...]:
    found = connection.execute(
        SQL["replayable"],
        {"task": task, "most": MOST_REPLAYS, "limit": limit, "now": now},
    ).fetchall()
    return tuple(job_id for (job_id,) in found)


def _tell(connection: sqlite3.Connection, now: int, *, probed: Probed) -> bool:
    row = {
        "task": probed.task,
        "worker": probed.worker,
        "passed": probed.passed,
        "error": probed.error,
        "replayed": probed.replayed,
        "now": now,
    }
    return connection.execute(SQL["tell_probed"], row).fetchone() is not None


def _rules(connection: sqlite3.Connection, _now: int) -> tuple[ReplayState, ...]:
    return tuple(
        ReplayState(
            task=row[0],
            every=timedelta(microseconds=row[1]),
            limit=row[2],
            rate=row[3],
            turn_at=rows.instant(row[4]),
            worker=row[5],
            probed_at=rows.maybe_instant(row[6]),
            passed=None if row[7] is None else bool(row[7]),
            error=row[8],
            replayed=row[9],
        )
        for row in connection.execute(SQL["replay_rules"]).fetchall()
    )
