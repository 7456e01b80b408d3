"""
What befalls the processes and the database of a run, drawn from its seed.

Each kind of act comes in a rhythm of its own, so that a run of ten minutes has its
share of each. What was done is written down with the time at which it was done.
"""

from __future__ import annotations

import heapq
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import psycopg

from tests.cluster.server import Cluster
from tests.journal import Journal

from .crowd import Crowd, Target
from .skew import Clock

# Seconds between two acts of a kind: at least, at most.
RHYTHMS: Mapping[str, tuple[float, float]] = {
    "kill": (1.1, 2.1),
    "stop": (2, 4),
    "term": (8, 14),
    "replace": (20, 40),
    "terminate": (3, 6),
    "restart": (9, 17),
    "set clock": (4, 8),
    "sleep": (20, 40),
    "lock": (9, 17),
}
OF_SERVERS = {"terminate", "restart", "set clock"}
OF_FILES = {"sleep", "lock"}
EVERYBODY = ("supervisor", "worker", "descendant", "producer")
# Longer than libfaketime keeps what it has read.
SLEEP_S = 2.3
KILLED = {"worker": 80, "supervisor": 8, "descendant": 6, "producer": 6}
STOPPED = {"worker": 80, "supervisor": 10, "descendant": 10}
TERMED = {"worker": 40, "supervisor": 60}
# Of leases, how long a process is stopped, and how long the server is away at times.
STOPS = (0.3, 4.5)
OUTAGES = (0.5, 2.0)
LONG_OUTAGE = 0.25
TICK_S = 0.2
# So many workers are to work before the first act, and within that time.
ENOUGH = 4
START_S = 60

TERMINATE = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_type = 'client backend'
    ORDER BY random() LIMIT %s
"""


class Act(NamedTuple):
    """Something to be done at a monotonic instant."""

    at: float
    serial: int
    do: Callable[[], object]


class Weather:
    """The acts of one run."""

    def __init__(
        self,
        seed: int,
        crowd: Crowd,
        journal: Journal,
        *,
        lease: float,
        clocks: Mapping[str, Clock],
        furthest_s: float,
        cluster: Cluster | None,
        url: str,
        only: Collection[str] = (),
    ) -> None:
        self._only = only
        self._chance = random.Random(seed)
        self._crowd = crowd
        self._journal = journal
        self._lease = lease
        # Each once, in order: places may share one.
        self._clocks = list(dict.fromkeys(clocks.values()))
        self._furthest_s = furthest_s
        self._cluster = cluster
        self._url = url
        self._acts: list[Act] = []
        self._serial = 0
        self._stopped: dict[int, Target] = {}
        self._is_down = False
        self._lock_holder: sqlite3.Connection | None = None
        self.counts: Counter[str] = Counter()

    def storm(self, seconds: float) -> None:
        """Once they work, let it rage for so long, then let everything go on."""
        start_by = time.monotonic() + START_S
        while len(self._crowd.targets("worker")) < ENOUGH:
            assert time.monotonic() < start_by, "the workers don't start"
            time.sleep(TICK_S)  # they start meanwhile
        until = time.monotonic() + seconds
        for kind, rhythm in RHYTHMS.items():
            if self._is_possible(kind):
                # Each comes within the first half of a short storm.
                self._plan(self._chance.uniform(0, min(rhythm[1], seconds / 2)), kind)
        while (now := time.monotonic()) < until:
            self._crowd.keep()
            while self._acts and self._acts[0].at <= now:
                heapq.heappop(self._acts).do()
            time.sleep(TICK_S)  # other processes work meanwhile
        self._calm()

    def _is_possible(self, kind: str) -> bool:
        if self._only and kind not in self._only:
            return False
        # What a server's workers have of clocks, each by itself, those of a file have
        # together: they share a machine.
        has_server = self._cluster is not None
        if kind in (OF_FILES if has_server else OF_SERVERS):
            return False
        return kind != "set clock" or any(c.environment for c in self._clocks)

    def _plan(self, after: float, kind: str) -> None:
        act: Callable[[], None] = getattr(self, f"_{kind.replace(' ', '_')}")

        def do() -> None:
            act()
            self._plan(self._chance.uniform(*RHYTHMS[kind]), kind)

        self._later(after, do)

    def _later(self, after: float, do: Callable[[], object]) -> None:
        self._serial += 1
        heapq.heappush(self._acts, Act(time.monotonic() + after, self._serial, do))

    def _calm(self) -> None:
        self._start()
        self._unlock()
        for pid in list(self._stopped):
            self._continue(pid)
        if self._cluster is None:
            self._sleep(0)
        for clock in self._clocks:
            clock.set(0)
        self._tell("calm")

    # Processes

    def _choose(self, kinds: Mapping[str, int]) -> Target | None:
        (kind,) = self._chance.choices(list(kinds), list(kinds.values()))
        # One that has begun to work, if there is any, has more to lose.
        found = self._free(kind, only_works=True) or self._free(kind, only_works=False)
        return self._chance.choice(found) if found else None

    def _free(self, kind: str, *, only_works: bool) -> list[Target]:
        return [
            target
            for target in self._crowd.targets(kind, only_works=only_works)
            if target.pid not in self._stopped
        ]

    def _send(self, verb: str, target: Target | None, number: signal.Signals) -> bool:
        if target is None:
            return False
        # Before: what comes of it must not have happened before it.
        self._tell(verb, pid=target.pid, kind=target.what, place=target.place)
        is_there = _send(target.pid, number)
        self.counts[verb] += is_there
        return is_there

    def _kill(self) -> None:
        self._send("kill", self._choose(KILLED), signal.SIGKILL)

    def _term(self) -> None:
        self._send("term", self._choose(TERMED), signal.SIGTERM)

    def _replace(self) -> None:
        self._send("replace", self._choose({"supervisor": 1}), signal.SIGHUP)

    def _stop(self) -> None:
        target = self._choose(STOPPED)
        if target is not None and self._send("stop", target, signal.SIGSTOP):
            self._stopped[target.pid] = target
            lasts = self._lease * self._chance.uniform(*STOPS)
            self._later(lasts, lambda: self._continue(target.pid))

    def _continue(self, pid: int) -> None:
        target = self._stopped.pop(pid, None)
        if target is not None:
            self._send("continue", target, signal.SIGCONT)

    def _sleep(self, offset: float | None = None) -> None:
        """
        Let the machine sleep, and its clock be another when it wakes.

        It befalls everybody alike, so it excuses nobody (law 17).
        """
        self._tell("sleeps")
        sleepers = self._crowd.targets(*EVERYBODY, only_works=False)
        for target in sleepers:
            _send(target.pid, signal.SIGSTOP)
        # Set while they work, each of them would see it at another moment.
        self._set_clock(offset)
        time.sleep(SLEEP_S)  # the sleep itself
        self._tell("wakes")
        for target in sleepers:
            if target.pid not in self._stopped:
                _send(target.pid, signal.SIGCONT)
        self.counts["sleep"] += 1

    def _set_clock(self, offset: float | None = None) -> None:
        clock = self._chance.choice(self._clocks)
        if offset is None:
            offset = self._chance.uniform(-self._furthest_s, self._furthest_s)
        self._tell("set clock", offset=round(offset, 2))
        clock.set(offset)
        self.counts["set clock"] += 1

    # The database

    def _lock(self) -> None:
        """Let somebody's transaction keep all others from writing: SQLite's outage."""
        if self._lock_holder is not None:
            return
        path = self._url.removeprefix("sqlite:///")
        holder = sqlite3.connect(path, timeout=5, isolation_level=None)
        try:
            holder.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            holder.close()
            return
        self._lock_holder = holder
        self._tell("file is locked")
        lasts = self._lease * self._chance.uniform(*OUTAGES)
        self._later(lasts, self._unlock)

    def _unlock(self) -> None:
        if self._lock_holder is not None:
            self._lock_holder.close()
            self._lock_holder = None
            self._tell("file is free")
            self.counts["lock"] += 1

    def _terminate(self) -> None:
        if self._is_down:
            return
        count = self._chance.choice([1, 1, 2, 5])
        try:
            with psycopg.connect(self._url, autocommit=True, connect_timeout=3) as own:
                self._tell("terminate", count=count)
                own.execute(TERMINATE, [count])
        except psycopg.OperationalError:
            return
        self.counts["terminate"] += count

    def _restart(self) -> None:
        if self._cluster is None or self._is_down:
            return
        self._tell("server stops")
        self._cluster.stop("immediate")
        self._is_down = True
        is_long = self._chance.random() < LONG_OUTAGE
        away = self._lease * self._chance.uniform(*OUTAGES) if is_long else 0
        self._later(away, self._start)

    def _start(self) -> None:
        if self._cluster is not None and self._is_down:
            self._cluster.start()
            self._is_down = False
            self._tell("server is back")
            self.counts["restart"] += 1

    def _tell(self, what: str, **of: object) -> None:
        self._journal.record(what, **of)


def _send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False: nobody is there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
