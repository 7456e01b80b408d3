"""The loop that simulations run on: chance by a seed, time by leaps, deaths at once."""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest

from .clock import Clock
from .loop import Loop, Process
from .store import OUTSIDE


@pytest.fixture
def loop() -> Loop:
    return new_loop(0)


def new_loop(seed: int) -> Loop:
    return Loop(Clock(), Random(seed))  # type: ignore[abstract]  # typeshed's word


def order(seed: int) -> list[int]:
    """Have ten calls made at once, and tell in which order they came."""
    came: list[int] = []
    loop = new_loop(seed)
    for number in range(10):
        loop.call_soon(came.append, number)
    loop.run_until(0)
    return came


def test_a_seed_decides_what_runs_first() -> None:
    orders = [order(seed) for seed in range(20)]

    assert orders == [order(seed) for seed in range(20)]
    assert len({tuple(each) for each in orders}) == 20
    assert {tuple(sorted(each)) for each in orders} == {tuple(range(10))}


def test_time_leaps_and_is_that_of_the_machine(loop: Loop) -> None:
    seen: list[tuple[float, float]] = []

    async def sleep() -> None:
        await asyncio.sleep(3600)
        seen.append((time.monotonic(), asyncio.get_running_loop().time()))

    loop.create_task(sleep())
    loop.run_until(3599)
    assert seen == []
    loop.run_until(7200)

    assert seen == [(3600, 3600)]
    assert loop.time() == 7200
    assert time.monotonic() != 7200


def test_what_is_cancelled_is_not_called(loop: Loop) -> None:
    came: list[str] = []
    loop.call_soon(came.append, "soon").cancel()
    loop.call_later(1, came.append, "later").cancel()
    loop.call_later(1, came.append, "kept")

    loop.run_until(2)

    assert came == ["kept"]


def test_a_process_dies_in_mid_air(loop: Loop) -> None:
    process, came = Process("w1"), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            came.append("half")
            await asyncio.sleep(1)
            came.append("whole")
        finally:
            came.append("goodbye")

    def die() -> None:
        process.is_dead = True

    with loop.inside(process):
        loop.create_task(work())
    loop.call_later(1.5, die)
    loop.call_later(3, came.append, "the others", context=OUTSIDE)

    loop.run_until(4)

    assert came == ["half", "the others"]
    loop.close()
