"""One run: workers on one database, a storm, the calm after it, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from rowlock._attempt import Attempt
from rowlock._chance import CHANCE
from rowlock._errors import StoreError
from rowlock._events import Event as WorkerEvent
from rowlock._events.worker import ClaimLapsed
from rowlock._job import Status
from rowlock._served import Served, check_served
from rowlock._store import Retention
from rowlock._worker import buffer, cancels, execute, handlers, throughput, upkeep
from rowlock._worker.worker import Worker

from .clock import Clock
from .database import Database
from .history import History
from .jobs import LAST_JOBS_S, SETTLE_S, Jobs
from .loop import Loop, Process
from .store import OUTSIDE, Store
from .supervisor import Supervisor
from .threads import Threads
from .weather import LEASE_S, Planned, Weather
from .worker import SHUTDOWN_S, Place, new_worker

CALM_S = 40.0
# In which what is at hand will be started, and what isn't goes back.
LONG_MOMENT_S = 2.0
# Between two looks for cancels: each costs as much of a run as a call.
CANCELS_S = 1.0
EXPIRES_S = 3.0
# Where finished jobs stay for a moment, what is an hour else.
PRUNES_S = 1.0
DAY_S = 86_400.0
HELPER_DIES = 0.3
DIES_CLAIMING = 0.4
ONE_OF_EACH: dict[str, int | None] = {"x": 1, "y": 1}


class Slot:
    """A place where a worker is started again when it ends."""

    def __init__(self, served: Served, supervisor: Supervisor | None) -> None:
        self.served = served
        self.supervisor = supervisor
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
        """Take no more steps, and hear no more; the database hears of it later."""
        self.is_dead = True
        self._store.leave()
        self._world.jobs.drop_transactions(self.name)

    def die_claiming(self, die: Callable[[float], None] | None) -> None:
        """Die when it has sent the next claim; None: live on."""
        self._store.on_claim = die

    async def perform(self, attempt: Attempt) -> None:
        history, key = self._world.history, attempt._key
        history.add(self.name, "starts", *key, attempt.number)
        try:
            await self._world.jobs.perform(attempt, self)
        finally:
            history.add(self.name, "leaves", *key)

    def perform_plainly(self, attempt: Attempt) -> None:
        history, key = self._world.history, attempt._key
        history.add(self.name, "starts", *key, attempt.number)
        try:
            self._world.jobs.perform_plainly(attempt)
        finally:
            history.add(self.name, "leaves", *key)


class Up(NamedTuple):
    """What the laws need to know of a worker."""

    served: Served

    def __str__(self) -> str:
        limits = [f", {limit} of {queue}" for queue, limit in self.limits.items()]
        return f"{self.served.concurrency} at once{''.join(limits)}"

    @property
    def limits(self) -> Mapping[str, int]:
        """How many of a queue may run at once, where that is fewer."""
        return self.served.limits

    def serves(self, queue: str) -> bool:
        """Tell whether it claims from a queue."""
        return self.served.queues is None or queue in self.served.queues


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
        self.threads = Threads(self.loop)
        self.database = Database(self.clock, self.history)
        self.weather = Weather(random, random.choice([1, 1, 2, 2, 2, 3]))
        self.slots = self._draw_slots()
        self.is_over = False
        self.calm_at = self.weather.storm_s
        # Else no worker would have anything at hand: a job takes a second here. Where
        # many wait, what is at hand would come and go all the time.
        self.has_buffer = not self.weather.is_busy and random.random() < 0.5
        self.jobs = Jobs(self)
        self.kept_s = random.choice([DAY_S, DAY_S, DAY_S, 1.0])
        kept = timedelta(seconds=self.kept_s)
        self.retention = Retention(succeeded=kept, cancelled=kept, failed=kept)

    def _draw_slots(self) -> list[Slot]:
        """Draw places: each with a supervisor of its own, one for all, or none."""
        of_all, draw = Supervisor(self), self.random.choice(["all", "each", "none"])
        supervisors: dict[str, Callable[[], Supervisor | None]]
        supervisors = {"all": lambda: of_all, "each": lambda: Supervisor(self)}
        return [
            Slot(self._draw_served(place), supervisors.get(draw, lambda: None)())
            for place in range(self.weather.places)
        ]

    def _draw_served(self, place: int) -> Served:
        """Draw what a worker serves: the first every queue, so that somebody does."""
        random = self.random
        concurrency = random.choice([1, 2, 2] if self.weather.is_busy else [1, 2, 3])
        limits = {"x": random.randrange(concurrency) + 1, "y": random.choice([1, None])}
        queues = [None, limits, limits, None, ("x",)]
        if self.weather.is_busy:
            queues = [limits, ONE_OF_EACH, ONE_OF_EACH]
        return check_served(
            concurrency,
            random.choice(queues[: 4 if place == 0 else None]),
            random.choice([None, {"x": 3}]),
        )

    def run(self) -> None:
        """Let the storm pass, wait for the calm, and stop everybody."""
        with self._chance(), self._moments():
            for place, _ in enumerate(self.slots):
                self.later(self.random.random(), partial(self._start, place))
            self.jobs.plan(sum(slot.served.concurrency for slot in self.slots))
            for planned in self.weather.plan:
                self.later(planned.at, partial(self._befall, planned))
            self.loop.run_until(self.calm_at)
            self._calm_down()
            at = self.calm_at + SETTLE_S + LAST_JOBS_S
            while at < self.calm_at + CALM_S:
                self.loop.run_until(at)
                if self._is_done():
                    break
                at += 0.5
            self.history.add("world", "stops everybody")
            self.is_over = True
            for place, _ in enumerate(self.slots):
                self._stop(place)
            self.loop.run_until(at + SHUTDOWN_S + 3.0)
            self.history.close()
            self.threads.drop()
            self.loop.close()

    @contextmanager
    def _moments(self) -> Iterator[None]:
        """Have jobs of a second be short ones, or look rarely after what is at hand."""
        longer: Any = {"AT_HAND_S": LONG_MOMENT_S, "STALE_S": LONG_MOMENT_S}
        if self.has_buffer:
            patched = patch.multiple(throughput, **longer)
        else:
            patched = patch.object(buffer, "LOOK_S", LONG_MOMENT_S)
        threads = patch.object(handlers, "Threads", lambda: self.threads)
        looks = patch.object(cancels, "PAUSE_S", CANCELS_S)
        expires = patch.object(upkeep, "EXPIRE_PAUSE_S", EXPIRES_S)
        prune_s = PRUNES_S if self.kept_s < DAY_S else upkeep.PRUNE_PAUSE_S
        prunes = patch.object(upkeep, "PRUNE_PAUSE_S", prune_s)
        # Nobody reads them, and they take more of a run than what the laws cost.
        traces = patch.object(execute, "_traceback_of", lambda _: None)
        with patched, threads, looks, traces, expires, prunes:
            yield

    @contextmanager
    def _chance(self) -> Iterator[None]:
        """Have the worker's own chance decided by the seed, too."""
        state = CHANCE.getstate()
        CHANCE.seed(self.seed)
        try:
            yield
        finally:
            CHANCE.setstate(state)

    def later(self, at: float, call: Callable[[], object]) -> None:
        """Have something happen at a time, whoever is dead by then."""
        self.loop.call_at(at, call, context=OUTSIDE)

    def _is_done(self) -> bool:
        return all(
            row.status.is_final or row.run_at > self.clock.now()
            for row in self.database.model.rows.values()
        ) and all(
            slot.supervisor is None or slot.supervisor.is_idle for slot in self.slots
        )

    def _start(self, place: int) -> None:
        slot = self.slots[place]
        slot.starts += 1
        name = f"w{place + 1}.{slot.starts}"
        store = Store(self.database, self.weather, self.loop, self.clock, worker=name)
        process = slot.process = WorkerProcess(name, self, store)
        self.history.add(name, "is up", note=Up(slot.served))
        with self.loop.inside(process):
            slot.worker = new_worker(
                store,
                self.clock,
                name=name,
                served=slot.served,
                retention=self.retention,
                hear=partial(self._hear, name),
            )
            task = self.loop.create_task(slot.worker.run())
        if slot.supervisor is not None:
            slot.supervisor.add(process, slot.worker)
        task.add_done_callback(partial(self._ended, place, process), context=OUTSIDE)

    def _hear(self, name: str, event: WorkerEvent) -> None:
        if isinstance(event, ClaimLapsed):
            self.history.add(name, "gives up", event.job_id, event.claim)
        elif event.name in TOLD:
            job, claim = getattr(event, "job_id", 0), getattr(event, "claim", 0)
            attempt = getattr(event, "attempt", None)
            self.history.add(name, f"tells {event.name}", job, claim, attempt)

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
        if slot.supervisor is not None and slot.process is not None:
            slot.supervisor.dies(slot.process)
        slot.process = slot.worker = None
        if not self.is_over:
            after = self.random.choice([0.1, 0.5, 3.0])
            self.loop.call_later(after, self._start, place, context=OUTSIDE)

    def _die(self, place: int) -> None:
        process = self.slots[place].process
        if process is None:
            return
        if self.random.random() < DIES_CLAIMING and not self.weather.is_calm:
            process.die_claiming(partial(self._end_claiming, place, process))
        else:
            self._end(place, process)

    def _end_claiming(self, place: int, process: WorkerProcess, late: float) -> None:
        """Have a process die, and its last claim find a job nevertheless."""
        self._end(place, process)
        self._after(late, self.jobs.enqueue)

    def _end(self, place: int, process: WorkerProcess) -> None:
        """Have a process die, unless it has ended meanwhile."""
        if self.slots[place].process is not process:
            return
        process.end()
        self.history.add(process.name, "dies")
        self._restart(place)
        if self.random.random() < HELPER_DIES and not self.weather.is_calm:
            # Who recovers what this one held may die of it, too.
            after = self.random.uniform(0.05, 1.5)
            helper = self.random.randrange(len(self.slots))
            self._after(after, partial(self._die, helper))

    def _stop(self, place: int) -> None:
        slot = self.slots[place]
        if slot.process is None or slot.worker is None:
            return
        self.history.add(slot.process.name, "is told to stop")
        if slot.supervisor is not None:
            slot.supervisor.stops(slot.process)
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
        self.later(self.clock.time + seconds, call)

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
        for slot in self.slots:
            if slot.process is not None:
                slot.process.die_claiming(None)
        self.history.add("world", "is calm")
        if self.weather.is_busy:
            # While what it runs, and much else, waits.
            at = self.clock.time + self.random.uniform(0.8, 3.0)
            self.later(at, partial(self._die, self.random.randrange(len(self.slots))))


# Of what workers tell, what a reader of a history wants beside what they did.
TOLD = {
    "attempt.stuck",
    "attempt.succeeded",
    "claim.refused",
    "outcome.dropped",
}
