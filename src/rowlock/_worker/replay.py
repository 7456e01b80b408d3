"""
Replaying dead letters while a probe passes.

Each rule has a loop of its own, or a slow probe would hold the others up. The database
gives the turn to one worker for as long as `every`; a worker that dies with it leaves
nothing to tidy up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from rowlock._chance import CHANCE
from rowlock._dead_letters import Probed, ReplayRule
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock._events.operators import JobsReplayed
from rowlock._events.worker import ReplayProbed
from rowlock._worker.probe import Probes

if TYPE_CHECKING:
    from rowlock._worker.outage import Outage
    from rowlock._worker.settings import Settings

# However long a turn is, or where a clock was set back nobody would look for hours.
LONGEST_PAUSE_S = 60.0
# Of a turn's length, so that workers don't come all at once.
SPREAD = 0.05


class Replay:
    """The loops of automatic replay of one worker."""

    def __init__(self, settings: Settings, outage: Outage) -> None:
        self._letters = settings.store.dead_letters
        self._emit = settings.extensions.emit
        self._worker = settings.worker
        self._rules = settings.rules
        self._outage = outage
        self._probes = Probes()

    def loops(self) -> list[Callable[[], Coroutine[None, None, None]]]:
        """Give a loop for each rule; it goes on until it is cancelled."""
        return [partial(self._loop, rule) for rule in self._rules]

    def close(self) -> None:
        """Let idle threads end; a probe that hangs is left behind."""
        self._probes.close()

    async def _loop(self, rule: ReplayRule) -> None:
        while True:
            turn = await self._outage.outlast(
                lambda: self._letters.take_turn(rule, worker=self._worker)
            )
            if turn.is_ours:
                await self._work(rule)
            every = rule.every.total_seconds()
            spread = every * CHANCE.uniform(0, SPREAD)
            pause = turn.next_in.total_seconds() + spread
            await asyncio.sleep(min(pause, LONGEST_PAUSE_S))

    async def _work(self, rule: ReplayRule) -> None:
        """Ask the probe, and replay where it passes, while the turn lasts."""
        until = time.monotonic() + rule.every.total_seconds()
        passed, error = await self._probes.ask(rule)
        replayed = 0
        try:
            # First, as a slow probe may have taken longer than the turn.
            is_ours = await self._tell(rule, until, passed, error, replayed)
            if passed and is_ours:
                replayed = await self._replay(rule, until)
            if replayed:
                await self._tell(rule, until, passed, error, replayed)
        except (StoreUnavailable, OutcomeUnknown):
            # The store is away for longer than the turn: what the probe said is old.
            return
        self._emit(
            ReplayProbed(
                worker=self._worker,
                task=rule.task,
                passed=passed,
                replayed=replayed,
                error=error,
            )
        )

    async def _tell(
        self,
        rule: ReplayRule,
        until: float,
        passed: bool,  # noqa: FBT001 - as the probe answered it
        error: str | None,
        replayed: int,
    ) -> bool:
        probed = Probed(
            task=rule.task,
            worker=self._worker,
            passed=passed,
            error=error,
            replayed=replayed,
        )
        return await self._outage.outlast(
            lambda: self._letters.tell(probed), until=until
        )

    async def _replay(self, rule: ReplayRule, until: float) -> int:
        ids = await self._outage.outlast(
            lambda: self._letters.replayable(rule.task, limit=rule.limit),
            until=until,
            writing=False,
        )
        if not ids:
            return 0
        by = f"probe of {rule.task}"
        answers = await self._outage.outlast(
            lambda: self._letters.replay(ids, by=by, pace=rule.pace), until=until
        )
        done = tuple(answer.job_id for answer in answers if answer.done)
        if done:
            self._emit(JobsReplayed(by=by, ids=done))
        return len(done)
