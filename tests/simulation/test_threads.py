"""Threads of a simulation: they take turns with the loop, and its time is theirs."""

from __future__ import annotations

import time
from random import Random

from .clock import Clock
from .loop import Loop, Process
from .store import OUTSIDE
from .threads import Threads


def new_loop() -> Loop:
    return Loop(Clock(), Random(0))  # type: ignore[abstract]  # typeshed's word


def test_threads_sleep_by_the_time_of_the_loop() -> None:
    loop = new_loop()
    threads, came = Threads(loop), list[tuple[str, float]]()

    def work(name: str, takes: float) -> None:
        for _ in range(2):
            threads.sleep(takes)
            came.append((name, time.monotonic()))

    threads.run(lambda: work("slow", 3.0))
    threads.run(lambda: work("quick", 1.0))
    loop.run_until(10)

    assert came == [("quick", 1.0), ("quick", 2.0), ("slow", 3.0), ("slow", 6.0)]


def test_a_thread_dies_with_its_process_and_ends_with_the_run() -> None:
    loop, process, came = new_loop(), Process("w1"), list[str]()
    threads = Threads(loop)

    def work() -> None:
        try:
            threads.sleep(1)
            came.append("half")
            threads.sleep(1)
            came.append("whole")
        except SystemExit:
            came.append("dropped")

    def die() -> None:
        process.is_dead = True

    with loop.inside(process):
        threads.run(work)
    loop.call_later(1.5, die, context=OUTSIDE)
    loop.run_until(4)
    assert came == ["half"]

    threads.drop()
    assert came == ["half", "dropped"]
