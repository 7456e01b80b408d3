"""The jobs of a simulation: when they come, what their handlers do, who meddles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from typing import Protocol

from rowlock import Retry, Snooze, Unrecoverable
from rowlock._attempt import Attempt
from rowlock._job import NewJob

from .clock import Clock
from .database import Database
from .loop import Process
from .threads import Threads
from .weather import LEASE_S, Weather

# After a storm, until loops that waited for the database have come back.
SETTLE_S = LEASE_S
# Then jobs come that have to be claimed in time, and until when they were.
LAST_JOBS_S = 1.5
MOST_JOBS = 25
# A timeout that no handler comes to.
LONG_S = 30.0
# Of each place of a worker, where the calm is a busy one, and how long each takes: a
# suspect that waits until nothing else is left has waited for too long.
JOBS_OF_A_PLACE = 6
BUSY_S = 1.0
QUIET_S = 0.1
# How often a plain handler looks whether it is to stop.
GLANCE_S = 1.0


class Scene(Protocol):
    """What jobs need of the world."""

    random: Random
    clock: Clock
    database: Database
    weather: Weather
    threads: Threads
    calm_at: float

    def later(self, at: float, call: Callable[[], object]) -> None:
        """Have something happen at a time."""


class Jobs:
    """All jobs of one run."""

    def __init__(self, scene: Scene) -> None:
        self._random = scene.random
        self._clock = scene.clock
        self._database = scene.database
        self._weather = scene.weather
        self._threads = scene.threads
        self._calm_at = scene.calm_at
        self._later = scene.later

    def plan(self, places: int) -> None:
        """Plan all, for workers that run so many at once together."""
        random, enqueue = self._random, self.enqueue
        for _ in range(random.randrange(2, 7)):
            self._later(random.uniform(0, self._calm_at) * random.random(), enqueue)
        for _ in range(random.randrange(1, 3)):
            at = self._calm_at + SETTLE_S + random.uniform(0, LAST_JOBS_S)
            self._later(at, enqueue)
        for verb in ("cancel", "replay"):
            for _ in range(random.choice([0, 0, 1, 3])):
                call = partial(self._operate, verb)
                self._later(random.uniform(0, self._calm_at), call)
        if self._weather.is_busy:
            jobs = JOBS_OF_A_PLACE * places
            self._later(self._calm_at + 0.5, partial(self._enqueue_many, jobs))

    def enqueue(self) -> None:
        """Have a job come now."""
        self._database.enqueue([self._new_job()], by="producer")

    def _enqueue_many(self, count: int) -> None:
        jobs = [
            NewJob(
                task="work",
                queue=self._random.choice("xy"),
                payload="{}",
                max_attempts=2,
                timeout=LONG_S,
            )
            for _ in range(count)
        ]
        self._database.enqueue(jobs, by="producer")

    def _new_job(self, **fields: object) -> NewJob:
        random = self._random
        return NewJob(
            task=random.choice(["work", "work", "work", "keep", "plain"]),
            queue=random.choice(["x", "x", "y"]),
            payload="{}",
            priority=random.choice([0, 0, 1]),
            delay=timedelta(seconds=random.choice([0, 0, 0, 1.5])),
            max_attempts=random.choice([1, 2, 3, 3]),
            timeout=random.choice([2.0, LONG_S, LONG_S]),
            idempotency_key=random.choice([None, None, None, "k"]),
            expires_at=None
            if random.random() < 0.8
            else self._clock.now() + timedelta(seconds=4.0 * random.random()),
            **fields,  # type: ignore[arg-type]
        )

    def _operate(self, verb: str) -> None:
        ids = list(self._database.model.rows)
        if ids:
            self._database.operate(verb, self._random.choice(ids))

    async def perform(self, attempt: Attempt, process: Process) -> None:
        """Do what a handler does: take its time, say something, and end somehow."""
        random = self._random
        takes = self._takes_s()
        try:
            await asyncio.sleep(takes)
            await self._speak(attempt)
            await asyncio.sleep(takes / 2)
        except asyncio.CancelledError:
            if random.random() < 0.2:  # it doesn't care
                await asyncio.sleep(random.choice([0.5, 2.0]))
            if random.random() < 0.8:
                raise
        if random.random() < 0.2:
            await self._complete(attempt, process)
        else:
            self._end(attempt, random.random())

    def perform_plainly(self, attempt: Attempt) -> None:
        """Do so in a thread, which nobody can cancel, and looks now and then."""
        is_polite = self._random.random() < 0.7
        left = 1.5 * self._takes_s()
        while left > 0:
            self._threads.sleep(min(left, GLANCE_S))
            left -= GLANCE_S
            if is_polite:
                attempt.cancelled.raise_if_set()
        if self._random.random() < 0.1:
            attempt.progress(0.5)
        self._end(attempt, self._random.random())

    def _takes_s(self) -> float:
        if self._weather.is_calm:
            is_busy = self._weather.is_busy
            return BUSY_S * self._random.uniform(0.6, 1.0) if is_busy else QUIET_S
        longest: float = self._random.choice([0.05, 0.3, 1.5, LEASE_S * 1.7])
        return longest * self._random.random()

    async def _complete(self, attempt: Attempt, process: Process) -> None:
        """Record the success in a transaction, and end that, sooner or later."""
        random, database, key = self._random, self._database, attempt._key
        commit = partial(database.commit, key)
        roll_back = partial(database.roll_back, key)
        if random.random() < 0.2:
            self._spawn(attempt)
        fate, later = random.random(), random.choice([0.01, 0.3, LEASE_S * 1.5])
        try:
            await attempt.complete(connection=database)
            if fate < 0.3:  # what surrounds it commits when it is through
                end = commit if fate < 0.2 else roll_back
                self._after(later, lambda: process.is_dead or end())
                return
            await asyncio.sleep(later * random.random())
        except BaseException:
            # A connection that broke is noticed later.
            self._after(random.random(), roll_back)
            raise
        if fate < 0.4:
            roll_back()
            return
        commit()
        if fate < 0.5:
            raise ValueError
        await asyncio.sleep(random.choice([0.01, 1.5]))

    def drop_transactions(self, name: str) -> None:
        """Have the server notice that a process is gone."""
        database = self._database
        for who, outcome in tuple(database.open.values()):
            if who == name:
                after = self._random.uniform(0.01, 1.5)
                self._after(after, partial(database.roll_back, outcome.key))

    def _after(self, seconds: float, call: Callable[[], object]) -> None:
        self._later(self._clock.time + seconds, call)

    async def _speak(self, attempt: Attempt) -> None:
        if self._random.random() < 0.1:
            attempt.progress(0.5)
        if self._random.random() < 0.1:
            await attempt.checkpoint({"at": attempt.number})

    def _end(self, attempt: Attempt, fate: float) -> None:
        if fate < 0.1:
            self._spawn(attempt)
        if fate > 0.9:
            raise ValueError
        if fate > 0.85:
            raise Retry(delay=0.3)
        if fate > 0.8 and not self._weather.is_calm:
            raise Snooze(0.7)
        if fate > 0.78:
            msg = "no such order"
            raise Unrecoverable(msg)

    def _spawn(self, attempt: Attempt) -> None:
        if len(self._database.jobs) < MOST_JOBS:
            parent = dict(zip(("job", "claim"), attempt._key, strict=True))
            attempt.spawn(self._new_job(meta=parent))
