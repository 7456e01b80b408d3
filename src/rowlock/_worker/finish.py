"""
Writing outcomes as they come.

While one write is on its way the next gathers, so batches grow with the load and a
lone job waits for nothing. An outcome that may have to wait for somebody's transaction
is written apart from the others, and put off while it does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock._events import worker_logger
from rowlock._events.worker import ClaimRefused, OutcomeDropped
from rowlock._job import Outcome, Status
from rowlock._worker.report import told

if TYPE_CHECKING:
    from rowlock._store import Settled
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Run, Runs
    from rowlock._worker.save import Save
    from rowlock._worker.settings import Settings

LARGEST_BATCH = 1000
FIRST_PUT_OFF_S = 0.1
LONGEST_PUT_OFF_S = 2.0


@dataclass(slots=True, eq=False)
class Ended:
    """
    A run with the outcome to write; `tries` counts writes without an answer.

    `put_off_s` is for how long it was put off last, as its row or the key of a job it
    spawns is in somebody's open transaction; such a one stands apart.
    `ended_at` is when its handler ended, by this machine's clock. Delays are the
    store's, so they count from `delayed_from`, the same moment by the store's clock.
    """

    run: Run
    outcome: Outcome
    ended_at: float
    delayed_from: float
    tries: int = 0
    put_off_s: float = 0.0

    @property
    def stands_apart(self) -> bool:
        """Whether its write may have to wait for somebody's transaction."""
        return self.put_off_s > 0 or any(
            job.idempotency_key is not None for job in self.outcome.spawned
        )

    def due(self, now: float) -> Outcome:
        """Make the outcome to write now: its delay counts from the end, not now."""
        if not self.outcome.delay:
            return self.outcome
        waited = timedelta(seconds=now - self.delayed_from)
        left = max(self.outcome.delay - waited, timedelta(0))
        return self.outcome._replace(delay=left)


class Finish:
    """The finish loop of one worker."""

    def __init__(
        self, settings: Settings, runs: Runs, outage: Outage, save: Save
    ) -> None:
        self._store = settings.store
        self._clock = settings.clock
        self._lease_s = settings.lease_s
        self._extensions = settings.extensions
        self._runs = runs
        self._outage = outage
        self._save = save
        self._waiting: list[Ended] = []
        self._put_off = 0
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, run: Run, outcome: Outcome) -> None:
        """Hand over an outcome; it is written soon."""
        ended_at = time.monotonic() if run.ended_at is None else run.ended_at
        outcome = self._extensions.followed(run.claim, outcome)
        self._waiting.append(
            Ended(run, outcome, ended_at, delayed_from=self._clock.monotonic())
        )
        self._idle.clear()
        self._more.set()

    async def flush(self) -> None:
        """Wait until everything handed over is written, refused or dropped."""
        await self._idle.wait()

    async def loop(self) -> None:
        """Write until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                # In no variable of this frame: an idle worker would keep the jobs.
                await self._write(self._take())
            if not self._put_off:
                self._idle.set()

    def _take(self) -> list[Ended]:
        batch = self._waiting[:LARGEST_BATCH]
        if any(ended.stands_apart for ended in batch):
            batch = [e for e in batch if not e.stands_apart] or batch[:1]
            taken = set(batch)
            self._waiting = [e for e in self._waiting if e not in taken]
        else:
            del self._waiting[:LARGEST_BATCH]
        return batch

    async def _write(self, batch: list[Ended]) -> None:
        await self._save.flush([ended.run.key for ended in batch])
        while batch:
            # What can't be written is renewed until its lease would have ended, then
            # left to recovery. What stands apart is put off meanwhile.
            is_apart = len(batch) == 1 and batch[0].stands_apart
            until = min(ended.ended_at for ended in batch) + self._lease_s
            try:
                settled = await self._outage.outlast(
                    partial(self._try, batch), until=0.0 if is_apart else until
                )
            except (StoreUnavailable, OutcomeUnknown):
                if is_apart:
                    self._put_it_off(batch[0])
                    return
                batch = self._drop_overdue(batch)
                continue
            except Exception:  # noqa: BLE001 - whatever it is, one outcome is at fault
                if len(batch) > 1:
                    # Halve until it stands alone.
                    middle = len(batch) // 2
                    await self._write(batch[:middle])
                    await self._write(batch[middle:])
                    return
                worker_logger.exception(
                    "The outcome of job %d can't be written.", batch[0].run.key.job_id
                )
                self._drop(batch[0])
                return
            for ended, answer in zip(batch, settled, strict=True):
                self._settle(ended, answer)
            return

    def _put_it_off(self, ended: Ended) -> None:
        left = ended.ended_at + self._lease_s - time.monotonic()
        if left <= 0:
            self._drop(ended)
            return
        ended.put_off_s = min(
            max(2 * ended.put_off_s, FIRST_PUT_OFF_S), LONGEST_PUT_OFF_S, left
        )
        self._put_off += 1
        asyncio.get_running_loop().call_later(
            ended.put_off_s, self._take_up_again, ended
        )

    def _take_up_again(self, ended: Ended) -> None:
        self._put_off -= 1
        self._waiting.append(ended)
        self._more.set()

    async def _try(self, batch: list[Ended]) -> Sequence[Settled]:
        try:
            now = self._clock.monotonic()
            return await self._store.finish([ended.due(now) for ended in batch])
        except OutcomeUnknown:
            for ended in batch:
                ended.tries += 1
            raise

    def _drop_overdue(self, batch: list[Ended]) -> list[Ended]:
        now = time.monotonic()
        overdue = [ended for ended in batch if ended.ended_at + self._lease_s <= now]
        for ended in overdue:
            self._drop(ended)
        return [ended for ended in batch if ended not in overdue]

    def _drop(self, ended: Ended) -> None:
        key = ended.run.key
        self._runs.drop(key)
        self._extensions.emit(OutcomeDropped(job_id=key.job_id, claim=key.claim))

    def _settle(self, ended: Ended, settled: Settled) -> None:
        if settled.is_locked:
            self._put_it_off(ended)
            return
        self._runs.drop(settled.key)
        if ended.run.is_settled:
            return  # the watchdog, in the same moment, was first, and told
        # Refused only because an earlier write, whose answer was lost, had worked, if
        # only as the cancel that was asked (law 21).
        was_written = (
            ended.tries > 0
            and settled.claims == settled.key.claim
            and settled.status in (ended.outcome.status, Status.CANCELLED)
        )
        if not settled.accepted and not was_written:
            self._extensions.emit(
                ClaimRefused(
                    job_id=settled.key.job_id,
                    claim=settled.key.claim,
                    found_claims=settled.claims,
                    found_status=settled.status,
                )
            )
            return
        for event in told(ended.run, ended.outcome, settled):
            self._extensions.emit(event)
