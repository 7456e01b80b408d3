"""
Writing outcomes as they come.

While one write is on its way the next gathers, so batches grow with the load and a
lone job waits for nothing. An outcome that may have to wait for somebody's transaction
is written apart from the others, and put off while it does; so is one that its handler
has recorded in a transaction of its own, of which is asked until that has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from rowlock import _attempt
from rowlock._errors import OutcomeUnknown, StoreUnavailable
from rowlock._events import Event, worker_logger
from rowlock._events.worker import ClaimRefused
from rowlock._job import Outcome, Status
from rowlock._worker.completed import Completed, rolled_back
from rowlock._worker.report import dropped, raised_late, told

if TYPE_CHECKING:
    from rowlock._store import Settled
    from rowlock._worker.outage import Outage
    from rowlock._worker.runs import Run, Runs
    from rowlock._worker.save import Save
    from rowlock._worker.settings import Settings

# For how much longer an outcome is tried whose lease was over when a try ended.
SHARE_OF_LEASE = 1 / 3
LARGEST_BATCH = 1000
FIRST_PUT_OFF_S = 0.1
LONGEST_ASK_S = 0.5
LONGEST_PUT_OFF_S = 2.0

_LATE = "the store was out of reach until its lease was over"
_LOCKED = (
    "somebody's transaction had its row, or the key of a job that it spawns, until its"
    " lease was over"
)


@dataclass(slots=True, eq=False)
class Ended:
    """
    A run with the outcome to write; `tries` counts writes without an answer.

    `put_off_s` is for how long it was put off last, as its row or the key of a job it
    spawns is in somebody's open transaction; such a one stands apart. `is_asked` says
    that its handler may have recorded a success, which only the store can tell;
    `is_told` that its handler's transaction has been told of, as it stays open.
    `ended_at` is when its handler ended, by this machine's clock. Delays are the
    store's, so they count from `delayed_from`, the same moment by the store's clock.
    `late_since` is when the first try failed that ended after its lease.
    """

    run: Run
    outcome: Outcome
    ended_at: float
    delayed_from: float
    tries: int = 0
    put_off_s: float = 0.0
    late_since: float | None = None
    is_asked: bool = False
    is_told: bool = False

    @property
    def stands_apart(self) -> bool:
        """Whether its write may have to wait for somebody's transaction."""
        return (
            self.is_asked
            or self.put_off_s > 0
            or any(job.idempotency_key is not None for job in self.outcome.spawned)
        )

    def until(self, lease_s: float) -> float:
        """
        Tell until which monotonic instant it may be tried.

        Until its lease would have ended. A machine that slept meanwhile, between two
        tries or in one, has had no time, and nobody takes its jobs the moment it wakes
        (law 17): so from its first late try for a while.
        """
        if self.late_since is None:
            return self.ended_at + lease_s
        return self.late_since + lease_s * SHARE_OF_LEASE

    def failed(self, lease_s: float) -> float:
        """Note a try that has failed; how many seconds are left for others, or none."""
        now = time.monotonic()
        if self.late_since is None and now >= self.ended_at + lease_s:
            self.late_since = now
        return self.until(lease_s) - now

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
        self._completed = Completed(settings)
        self._clock = settings.clock
        self._lease_s = settings.lease_s
        self._extensions = settings.extensions
        self._runs = runs
        self._outage = outage
        self._save = save
        self._waiting: list[Ended] = []
        self._put_off = 0
        self._asks = False
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, run: Run, outcome: Outcome) -> None:
        """Hand over an outcome; it is written soon."""
        ended_at = time.monotonic() if run.ended_at is None else run.ended_at
        is_asked = run.is_asked
        if not is_asked:
            outcome = self._extensions.followed(run.claim, outcome)
        self._waiting.append(
            Ended(
                run,
                outcome,
                ended_at,
                delayed_from=self._clock.monotonic(),
                is_asked=is_asked,
            )
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
            # Every other time, as whoever asks waits for nobody, and holds nobody up.
            self._asks = not self._asks and any(ended.is_asked for ended in batch)
            batch = (
                [e for e in batch if e.is_asked]
                if self._asks
                else [e for e in batch if not e.stands_apart] or batch[:1]
            )
            taken = set(batch)
            self._waiting = [e for e in self._waiting if e not in taken]
        else:
            del self._waiting[:LARGEST_BATCH]
        return batch

    async def _write(self, batch: list[Ended]) -> None:
        if batch[0].is_asked:
            await self._ask(batch)
            return
        await self._save.flush([ended.run.key for ended in batch])
        while batch:
            # What can't be written is renewed as long as it may be tried, then left to
            # recovery. What stands apart is put off meanwhile.
            is_apart = len(batch) == 1 and batch[0].stands_apart
            until = min(ended.until(self._lease_s) for ended in batch)
            try:
                settled = await self._outage.outlast(
                    partial(self._try, batch), until=0.0 if is_apart else until
                )
            except (StoreUnavailable, OutcomeUnknown):
                if is_apart:
                    self._put_it_off(batch[0], _LATE)
                    return
                batch = self._drop_overdue(batch)
                continue
            except Exception as error:  # noqa: BLE001 - one outcome is at fault
                if len(batch) > 1:
                    # Halve until it stands alone.
                    middle = len(batch) // 2
                    await self._write(batch[:middle])
                    await self._write(batch[middle:])
                    return
                worker_logger.exception(
                    "The outcome of job %d can't be written.", batch[0].run.key.job_id
                )
                self._drop(batch[0], f"the store refuses it: {type(error).__name__}")
                return
            for ended, answer in zip(batch, settled, strict=True):
                self._settle(ended, answer)
            return

    def _put_it_off(self, ended: Ended, reason: str) -> None:
        left = ended.failed(self._lease_s)
        if ended.run.is_lent:
            # However long that transaction lives: nobody recovers what it holds.
            left = LONGEST_ASK_S
        if left <= 0:
            self._drop(ended, reason)
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

    async def _ask(self, batch: list[Ended]) -> None:
        """Ask what these handlers' transactions have come to."""
        asking = partial(self._completed.ask, [ended.run for ended in batch])
        try:
            found = await self._outage.outlast(asking, until=0.0, writing=False)
        except (StoreUnavailable, OutcomeUnknown):
            for ended in batch:
                self._put_it_off(ended, _LATE)
            return
        except Exception as error:  # noqa: BLE001 - the store, or what it has, is broken
            worker_logger.exception("What became of completed jobs can't be asked.")
            for ended in batch:
                self._drop(ended, f"it can't be asked for: {type(error).__name__}")
            return
        for ended, settled in zip(batch, found, strict=True):
            if settled is None:
                self._write_after_all(ended)
            else:
                self._settle(ended, settled)

    def _write_after_all(self, ended: Ended) -> None:
        """Write the outcome of an attempt that has recorded nothing."""
        outcome = rolled_back(ended.run, ended.outcome)
        ended.outcome = self._extensions.followed(ended.run.claim, outcome)
        ended.is_asked = ended.run.is_asked = False
        ended.put_off_s = 0.0
        ended.run.is_open = False
        # Only now there is something to write, for which there is a lease again.
        ended.ended_at = ended.run.ended_again()
        ended.late_since = None
        self._waiting.append(ended)

    def _drop_overdue(self, batch: list[Ended]) -> list[Ended]:
        overdue = [ended for ended in batch if ended.failed(self._lease_s) <= 0]
        for ended in overdue:
            self._drop(ended, _LATE)
        return [ended for ended in batch if ended not in overdue]

    def _drop(self, ended: Ended, reason: str) -> None:
        self._runs.leave(ended.run.key)
        self._extensions.emit(dropped(ended.run.claim, reason))

    def _settle(self, ended: Ended, settled: Settled) -> None:
        if settled.is_locked:
            self._tell_open(ended)
            self._put_it_off(ended, _LOCKED)
            return
        self._runs.drop(settled.key)
        if ended.run.is_settled:
            return  # the watchdog, in the same moment, was first, and told
        is_ours = not settled.accepted and settled.claims == settled.key.claim
        # Refused only because an earlier write, whose answer was lost, had worked, if
        # only as the cancel that was asked (law 21).
        was_written = (
            is_ours
            and ended.tries > 0
            and settled.status in (ended.outcome.status, Status.CANCELLED)
        )
        # By its handler, which had the row while it was given up.
        ended.is_asked |= (
            is_ours and ended.run.is_asked and settled.status is Status.SUCCEEDED
        )
        if not (settled.accepted or was_written or ended.is_asked):
            self._extensions.emit(
                ClaimRefused(
                    job_id=settled.key.job_id,
                    claim=settled.key.claim,
                    found_claims=settled.claims,
                    found_status=settled.status,
                )
            )
            return
        for event in self._told(ended, settled):
            self._extensions.emit(event)

    def _tell_open(self, ended: Ended) -> None:
        run = ended.run
        # Of one that runs on it is told already that it is stuck.
        if run.is_lent and run not in self._runs.stuck:
            ended.is_told = self._completed.tell_open(
                run, ended.ended_at, was_told=ended.is_told
            )

    def _told(self, ended: Ended, settled: Settled) -> Sequence[Event]:
        if not ended.is_asked:
            return told(ended.run, ended.outcome, settled)
        completion = _attempt.completion(ended.run.attempt)
        settled = settled._replace(spawned=completion.spawned)
        return [
            *told(ended.run, completion.outcome or ended.outcome, settled),
            *raised_late(ended.run, ended.outcome),
        ]
