"""One run: workers on one database, a storm, the calm after it, and their end."""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from random import Random
from typing import NamedTuple

from rowlock import Retry, Snooze, Unrecoverable, _outcome
from rowlock._attempt import Attempt
from rowlock._errors import StoreError
from rowlock._events import Event as WorkerEvent
from rowlock._events.worker import ClaimLapsed
from rowlock._job import NewJob, Status
from rowlock._worker.worker import Worker

from .clock import Clock
from .database import Database
from .history import History
from .loop import Loop, Process
from .store import OUTSIDE, Store
from .weather import LEASE_S, Planned, Weather
from .worker import SHUTDOWN_S, Place, new_worker

# After a storm, until loops that waited for the database have come back.
SETTLE_S = LEASE_S
# Then jobs come that have to be claimed in time, and until when they were.
LAST_JOBS_S = 1.5
CALM_S = 40.0
MOST_JOBS = 25
# A timeout that no handler comes to.
LONG_S = 30.0


class Slot:
    """A place where a worker is started again when it ends."""

    def __init__(self, concurrency: int, queues: tuple[str, ...] | None) -> None:
        self.concurrency = concurrency
        self.queues = queues
        self.starts = 0
        self.process: WorkerProcess | None = None
        self.worker: Worker | None = None


class WorkerProcess(Process, Place):
    """The process of one worker."""

    def __init__(self, name: str, world: World, store: Store) -> None:
        super().__init__(name)
        self._world = world
        self._store = store

    def end(self) -> None:
        """Take no more steps, and hear no more."""
        self.is_dead = True
        self._store.leave()

    async def perform(self, attempt: Attempt) -> None:
        history, key = self._world.history, attempt._key
        history.add(self.name, "starts", *key, attempt.number)
        try:
            await self._world.perform(attempt)
        finally:
            history.add(self.name, "leaves", *key)


class Up(NamedTuple):
    """What the laws need to know of a worker."""

    concurrency: int
    queues: tuple[str, ...] | None

    def __str__(self) -> str:
        return f"{self.concurrency} at once"


class Jump(NamedTuple):
    """By how much the wall clock was set forwards."""

    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:+} s"


class World:
    """All that one seed decides."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.clock = Clock()
        self.history = History(self.clock)
        self.loop = Loop(self.clock, random)  # type: ignore[abstract]  # typeshed's word
        self.database = Database(self.clock, self.history)
        self.slots = [
            Slot(random.choice([1, 2, 3]), ("x",) if random.random() < 0.2 else None)
            for _ in range(random.choice([1, 2, 2, 2, 3]))
        ]
        self.slots[0].queues = None
        self.weather = Weather(random, places=len(self.slots))
        self.is_over = False
        self.calm_at = self.weather.storm_s

    def run(self) -> None:
        """Let the storm pass, wait for the calm, and stop everybody."""
        with self._chance():
            for place, _ in enumerate(self.slots):
                self._later(self.random.random(), partial(self._start, place))
            self._plan_jobs()
            for planned in self.weather.plan:
                self._later(planned.at, partial(self._befall, planned))
            self.loop.run_until(self.calm_at)
            self._calm_down()
            at = self.calm_at + SETTLE_S + LAST_JOBS_S
            while at < self.calm_at + CALM_S:
                self.loop.run_until(at)
                if self._is_done():
                    break
                at += 1.0
            self.history.add("world", "stops everybody")
            self.is_over = True
            for place, _ in enumerate(self.slots):
                self._stop(place)
            self.loop.run_until(at + SHUTDOWN_S + 3.0)
            self.history.close()
            self.loop.close()

    @contextmanager
    def _chance(self) -> Iterator[None]:
        """Have the worker's own chance decided by the seed, too."""
        state = chance.getstate()
        chance.seed(self.seed)
        try:
            yield
        finally:
            chance.setstate(state)

    def _later(self, at: float, call: Callable[[], object]) -> None:
        self.loop.call_at(at, call, context=OUTSIDE)

    def _is_done(self) -> bool:
        return all(
            row.status.is_final or row.run_at > self.clock.now()
            for row in self.database.model.rows.values()
        )

    def _start(self, place: int) -> None:
        slot = self.slots[place]
        slot.starts += 1
        name = f"w{place + 1}.{slot.starts}"
        store = Store(self.database, self.weather, self.loop, self.clock, worker=name)
        process = slot.process = WorkerProcess(name, self, store)
        self.history.add(name, "is up", note=Up(slot.concurrency, slot.queues))
        with self.loop.inside(process):
            slot.worker = new_worker(
                store,
                self.clock,
                name=name,
                concurrency=slot.concurrency,
                queues=slot.queues,
                hear=partial(self._hear, name),
            )
            task = self.loop.create_task(slot.worker.run())
        task.add_done_callback(partial(self._ended, place, process), context=OUTSIDE)

    def _hear(self, name: str, event: WorkerEvent) -> None:
        if isinstance(event, ClaimLapsed):
            self.history.add(name, "gives up", event.job_id, event.claim)
        elif event.name in TOLD:
            job, claim = getattr(event, "job_id", 0), getattr(event, "claim", 0)
            self.history.add(name, f"tells {event.name}", job, claim)

    def _ended(
        self, place: int, process: WorkerProcess, task: asyncio.Task[int]
    ) -> None:
        process.end()
        error = task.exception()
        if error is None:
            self.history.add(process.name, "has ended", note=task.result())
        elif isinstance(error, StoreError):
            self.history.add(process.name, "can't start")
        else:
            self.history.add(process.name, "breaks down", note=repr(error))
        self._restart(place)

    def _restart(self, place: int) -> None:
        slot = self.slots[place]
        slot.process = slot.worker = None
        if not self.is_over:
            after = self.random.choice([0.1, 0.5, 3.0])
            self.loop.call_later(after, self._start, place, context=OUTSIDE)

    def _die(self, place: int) -> None:
        process = self.slots[place].process
        if process is None or self.weather.is_calm:
            return
        process.end()
        self.history.add(process.name, "dies")
        if self.random.random() < 0.4:
            after = self.random.uniform(0.01, 1.0)
            self.loop.call_later(after, self._bury, process.name, context=OUTSIDE)
        self._restart(place)

    def _bury(self, name: str) -> None:
        """Recover what a worker held that is known to be dead."""
        lost = self.database.lost(100, worker=name)
        self.database.finish([_outcome.lost(each) for each in lost], by="supervisor")

    def _stop(self, place: int) -> None:
        slot = self.slots[place]
        if slot.process is None or slot.worker is None:
            return
        self.history.add(slot.process.name, "is told to stop")
        with self.loop.inside(slot.process):
            self.loop.call_soon(slot.worker.stop)

    def _befall(self, planned: Planned) -> None:
        place = planned.who
        match planned.what:
            case "outage":
                self._begin_outage(place, planned.lasts)
            case "dies":
                self._die(place)
            case "stops":
                self._stop(place)
            case "jumps":
                seconds = self.random.choice([-LEASE_S * 2, -0.7, 0.7, LEASE_S * 2])
                self.clock.jump(seconds)
                self.history.add("world", "sets the clock", note=Jump(seconds))
            case "lock":
                self._lock(planned.lasts)
            case _:
                self.database.pause("x", resume=False)
                self._after(planned.lasts, partial(self._resume, "x"))

    def _after(self, seconds: float, call: Callable[[], object]) -> None:
        self._later(self.clock.time + seconds, call)

    def _lock(self, lasts: float) -> None:
        rows = self.database.model.rows.values()
        running = [row.id for row in rows if row.status is Status.RUNNING]
        if running:
            job_id = self.random.choice(running)
            self.database.lock(job_id)
            self._after(lasts, partial(self.database.lock, job_id, unlock=True))

    def _resume(self, queue: str) -> None:
        self.database.pause(queue, resume=True)

    def _begin_outage(self, place: int, lasts: float) -> None:
        name = "" if place < 0 else f"w{place + 1}"
        self.weather.begin_outage(name)
        self.history.add(name or "all", "can't reach the database")
        self._after(lasts, partial(self._end_outage, name))

    def _end_outage(self, name: str) -> None:
        self.weather.end_outage(name)
        self.history.add(name or "all", "can reach the database")

    def _calm_down(self) -> None:
        self.weather.is_calm = True
        self._resume("x")
        self.history.add("world", "is calm")

    def _plan_jobs(self) -> None:
        random, enqueue = self.random, self._enqueue
        for _ in range(random.randrange(2, 7)):
            self._later(random.uniform(0, self.calm_at) * random.random(), enqueue)
        for _ in range(random.randrange(1, 3)):
            at = self.calm_at + SETTLE_S + random.uniform(0, LAST_JOBS_S)
            self._later(at, enqueue)
        for verb in ("cancel", "replay"):
            for _ in range(random.choice([0, 0, 1, 3])):
                call = partial(self._operate, verb)
                self._later(random.uniform(0, self.calm_at), call)

    def _enqueue(self) -> None:
        self.database.enqueue([self._new_job()], by="producer")

    def _new_job(self, **fields: object) -> NewJob:
        random = self.random
        return NewJob(
            task=random.choice(["work", "work", "keep"]),
            queue=random.choice(["x", "x", "y"]),
            payload="{}",
            priority=random.choice([0, 0, 1]),
            delay=timedelta(seconds=random.choice([0, 0, 0, 1.5])),
            max_attempts=random.choice([1, 2, 3, 3]),
            timeout=random.choice([2.0, LONG_S, LONG_S]),
            idempotency_key=random.choice([None, None, None, "k"]),
            expires_at=None
            if random.random() < 0.8
            else self.clock.now() + timedelta(seconds=4.0 * random.random()),
            **fields,  # type: ignore[arg-type]
        )

    def _operate(self, verb: str) -> None:
        ids = list(self.database.model.rows)
        if ids:
            self.database.operate(verb, self.random.choice(ids))

    async def perform(self, attempt: Attempt) -> None:
        """Do what a handler does: take its time, say something, and end somehow."""
        random = self.random
        takes = random.choice([0.05, 0.3, 1.5, LEASE_S * 1.7])
        takes = 0.1 if self.weather.is_calm else takes * random.random()
        try:
            await asyncio.sleep(takes)
            await self._speak(attempt)
            await asyncio.sleep(takes / 2)
        except asyncio.CancelledError:
            if random.random() < 0.2:  # it doesn't care
                await asyncio.sleep(random.choice([0.5, 2.0]))
            if random.random() < 0.8:
                raise
        self._end(attempt, random.random())

    async def _speak(self, attempt: Attempt) -> None:
        if self.random.random() < 0.1:
            attempt.progress(0.5)
        if self.random.random() < 0.1:
            await attempt.checkpoint({"at": attempt.number})

    def _end(self, attempt: Attempt, fate: float) -> None:
        if fate < 0.1 and len(self.database.jobs) < MOST_JOBS:
            parent = dict(zip(("job", "claim"), attempt._key, strict=True))
            attempt.spawn(self._new_job(meta=parent))
        if fate > 0.9:
            raise ValueError
        if fate > 0.85:
            raise Retry(delay=0.3)
        if fate > 0.8 and not self.weather.is_calm:
            raise Snooze(0.7)
        if fate > 0.78:
            msg = "no such order"
            raise Unrecoverable(msg)


# Of what workers tell, what a reader of a history wants beside what they did.
TOLD = {
    "attempt.stuck",
    "claim.refused",
    "outcome.dropped",
}
