"""
The processes of a run: workers as users start them, and producers.

One that ends, for whatever reason, is started again until the crowd is told to stop.
None outlives the process that made it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.integration.supervising import children_of, lives
from tests.journal import Journal

from .skew import Clock

ROOT = Path(__file__).parent.parent.parent
APP = "tests.torture.app:app"
SHUTDOWN_S = 3.0
WORKER = (
    *("-m", "rowlock", "worker", APP),
    *("--shutdown-timeout", f"{SHUTDOWN_S:g}", "--cancel-grace", "1"),
    *("--log-format", "json", "--log-level", "warning"),
)
PLAIN_QUEUE = ("--queue", "default")
SHARED_OUT = ("--queue", "default=3", "--queue", "apart=1", "--weight", "default=3")
SUPERVISED = ("--processes", "2")
ALONE = ("--no-supervisor",)
WORKERS: Mapping[str, Sequence[str]] = {
    "pair": (*SUPERVISED, "--concurrency", "4", *SHARED_OUT),
    "twins": (*SUPERVISED, "--concurrency", "2", *PLAIN_QUEUE),
    "loner": (*ALONE, "--concurrency", "4", *PLAIN_QUEUE),
    "single": (*ALONE, "--concurrency", "1"),
}
PRODUCERS = ("left", "right")


class Target(NamedTuple):
    """A process that something may befall, and what it is."""

    pid: int
    what: str
    place: str


@dataclass(slots=True)
class Place:
    """A command line, and the process that runs it now."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def is_producer(self) -> bool:
        return self.name in PRODUCERS

    def start(self, *more: str) -> int:
        self.starts += 1
        # Killed with us, whatever befalls us; a supervisor's workers die with it.
        tied = [shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*tied, sys.executable, *self.command, *more],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.process.pid

    def targets(self) -> Iterator[Target]:
        """Give its processes that live: itself, its workers, what those started."""
        if self.process is None or self.process.poll() is not None:
            return
        pid = self.process.pid
        if self.is_producer:
            yield Target(pid, "producer", self.name)
        elif "--no-supervisor" in self.command:
            yield from _worker(pid, self.name)
        else:
            yield Target(pid, "supervisor", self.name)
            for child in children_of(pid):
                if lives(child) and b"rowlock\0worker" in _command(child):
                    yield from _worker(child, self.name)


class Crowd:
    """All of them, on one database."""

    def __init__(
        self,
        url: str,
        folder: Path,
        journal: Journal,
        *,
        environment: Mapping[str, str],
        lease: float,
        clocks: Mapping[str, Clock],
        seed: int,
        rate: float,
    ) -> None:
        self._journal = journal
        self._folder = folder
        self._seed, self._rate = seed, rate
        shared = {"ROWLOCK_DATABASE_URL": url, **environment}
        lasting = ("--lease", f"{lease:g}")
        commands = {name: [*WORKER, *lasting, *more] for name, more in WORKERS.items()}
        commands |= {name: ["-m", "tests.torture.produce"] for name in PRODUCERS}
        self._places = [
            Place(
                name,
                command,
                {**shared, **(clocks[name].environment if name in clocks else {})},
                folder / f"{name}.log",
            )
            for name, command in commands.items()
        ]
        self._producing = True

    def keep(self) -> None:
        """Start whatever doesn't run."""
        for place in self._places:
            if place.is_producer and not self._producing:
                continue
            code = None if place.process is None else place.process.poll()
            if place.process is not None and code is None:
                continue
            if place.process is not None:
                self._note_exit(place, code)
            more = self._seeds(place) if place.is_producer else ()
            pid = place.start(*more)
            self._journal.record("starts", pid=pid, place=place.name)

    def _seeds(self, place: Place) -> tuple[str, str]:
        rate = self._rate / len(PRODUCERS)
        return f"{self._seed}/{place.name}/{place.starts}", f"{rate:g}"

    def _note_exit(self, place: Place, code: int | None) -> None:
        pid = place.process.pid if place.process else 0
        self._journal.record("exited", pid=pid, place=place.name, code=code)

    def targets(self, *kinds: str, only_works: bool = True) -> list[Target]:
        """Give what lives, of these kinds; of workers those that work already."""
        return [
            target
            for place in self._places
            for target in place.targets()
            if target.what in kinds
            and (target.what != "worker" or not only_works or self._works(target))
        ]

    def _works(self, worker: Target) -> bool:
        """Tell whether a worker has come far enough to have something to lose."""
        return (self._folder / f"app-{worker.pid}.jsonl").exists()

    def stop_producing(self) -> None:
        """End the producers for good."""
        self._producing = False
        for place in self._places:
            if place.is_producer and place.process is not None:
                place.process.kill()
                place.process.wait()

    def stop(self, within: float) -> list[str]:
        """Have all workers drain, and name those that didn't in time."""
        for place in self._places:
            if place.process is not None:
                with suppress(ProcessLookupError):
                    place.process.send_signal(signal.SIGTERM)
        until, late = time.monotonic() + within, []
        for place in self._places:
            if place.process is None or place.is_producer:
                continue
            try:
                code = place.process.wait(max(until - time.monotonic(), 0))
                self._note_exit(place, code)
            except subprocess.TimeoutExpired:
                late.append(place.name)
        return late

    def close(self) -> None:
        """Kill what lives."""
        for place in self._places:
            for target in place.targets():
                with suppress(ProcessLookupError):
                    os.kill(target.pid, signal.SIGKILL)
            if place.process is not None:
                place.process.wait()


def _worker(pid: int, place: str) -> Iterator[Target]:
    yield Target(pid, "worker", place)
    for child in _descendants(pid):
        yield Target(child, "descendant", place)


def _descendants(pid: int) -> Iterator[int]:
    for child in children_of(pid):
        if lives(child):
            yield child
            yield from _descendants(child)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
