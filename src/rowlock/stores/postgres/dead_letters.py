"""Dead letters as groups, and their automatic replay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from rowlock._answers import DeadGroup
from rowlock._dead_letters import (
    MOST_REPLAYS,
    Probed,
    ReplayRule,
    ReplayState,
    Turn,
    read_group,
)
from rowlock._store import Answer
from rowlock.stores._json import read_json
from rowlock.stores.postgres import operate, rows
from rowlock.stores.postgres.database import Database
from rowlock.stores.postgres.sessions import Session


class PostgresDeadLetters:
    """A `DeadLetters` for one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def groups(
        self, *, task: str | None, queue: str | None, limit: int
    ) -> Sequence[DeadGroup]:
        """Group dead letters; see `DeadLetters.groups`."""
        return await self._database.read(
            partial(groups, task=task, queue=queue, limit=limit)
        )

    async def take_turn(self, rule: ReplayRule, *, worker: str) -> Turn:
        """Take the turn with a rule; see `DeadLetters.take_turn`."""
        return await self._database.write(partial(take_turn, rule=rule, worker=worker))

    async def replayable(self, task: str, *, limit: int) -> Sequence[int]:
        """Give dead letters to replay; see `DeadLetters.replayable`."""
        return await self._database.read(partial(replayable, task=task, limit=limit))

    async def replay(
        self, ids: Sequence[int], *, by: str, pace: timedelta
    ) -> Sequence[Answer]:
        """Replay dead letters, and count it; see `DeadLetters.replay`."""
        return await self._database.announce(
            partial(
                operate.replay,
                ids=ids,
                by=by,
                delay=timedelta(0),
                pace=pace,
                most=MOST_REPLAYS,
            )
        )

    async def tell(self, probed: Probed) -> bool:
        """Note what a probe said; see `DeadLetters.tell`."""
        return await self._database.write(partial(tell, probed=probed))

    async def rules(self) -> Sequence[ReplayState]:
        """Tell the rules; see `DeadLetters.rules`."""
        return await self._database.read(rules)


async def groups(
    session: Session, *, task: str | None, queue: str | None, limit: int
) -> tuple[DeadGroup, ...]:
    """Group dead letters."""
    async with session.reading():
        found = await session.run(
            "dead_groups", task=task, queue=queue, limit=str(limit)
        )
    return tuple(
        read_group(
            row[1],
            row[0],
            count=row[2],
            seen=(row[3], row[4]),
            newest=row[5],
            entry=read_json(row[6]) or {},
        )
        for row in found
    )


async def take_turn(session: Session, *, rule: ReplayRule, worker: str) -> Turn:
    """Take the turn with a rule, where it is nobody's."""
    every = rows.micros(rule.every)
    found = await session.run(
        "take_turn",
        task=rule.task,
        every=str(every),
        limit=str(rule.limit),
        rate=str(rule.rate),
        worker=worker,
    )
    is_ours, left = found[0]
    # Without an answer a row was just made by another, and not seen yet.
    return Turn(is_ours, timedelta(microseconds=every if is_ours else left or 0))


async def replayable(session: Session, *, task: str, limit: int) -> tuple[int, ...]:
    """Give dead letters that may be replayed automatically."""
    found = await session.run(
        "replayable", task=task, most=str(MOST_REPLAYS), limit=str(limit)
    )
    return tuple(job_id for (job_id,) in found)


async def tell(session: Session, *, probed: Probed) -> bool:
    """Note what a probe said, if the turn is still that worker's."""
    found = await session.run(
        "tell_probed",
        task=probed.task,
        worker=probed.worker,
        passed=str(probed.passed),
        error=None if probed.error is None else rows.clean(probed.error),
        replayed=str(probed.replayed),
    )
    return bool(found)


async def rules(session: Session) -> tuple[ReplayState, ...]:
    """Tell the rules of which a worker has had the turn."""
    return tuple(
        ReplayState(
            task=row[0],
            every=row[1],
            limit=row[2],
            rate=row[3],
            turn_at=row[4],
            worker=row[5],
            probed_at=row[6],
            passed=row[7],
            error=row[8],
            replayed=row[9],
        )
        for row in await session.run("replay_rules")
    )
