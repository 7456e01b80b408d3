"""Running seeds, and telling of one what happened in it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

from .effects import check_effects
from .faults import planted
from .laws import Judge
from .losses import check_losses
from .record import Broken
from .sums import Sums
from .waits import check_waits
from .world import World

# A run leaves cycles that hold a megabyte; looked for in each, they take half the time.
RUNS_BETWEEN_SWEEPS = 100


class Verdict(NamedTuple):
    """What came of one seed."""

    seed: int
    broken: list[Broken]
    world: World

    def lines(self) -> list[str]:
        """Tell it in at most 30 lines of history, and a few before."""
        told = [f"seed {self.seed}: {self.world.weather}"]
        if not self.broken:
            return [*told, *self.world.history.about(None), "every law holds"]
        first = min(self.broken, key=lambda broken: broken.time)
        told.append(f"job {first.job} broke {first}")
        return [*told, *self.world.history.about(first.job, first.time)]


def run(seed: int, fault: str | None = None) -> Verdict:
    """Run one seed, with a fault planted if one is named."""
    with planted(fault) if fault else nullcontext():
        world = World(seed)
        world.run()
    judge = Judge(world)
    broken = judge.judge()
    Sums(judge).check()
    broken += check_waits(world)
    broken += check_losses(world)
    broken += check_effects(world)
    return Verdict(seed, broken, world)


def survey(
    first: int,
    seeds: int,
    fault: str | None = None,
    *,
    tell: Callable[[str], object],
    most: int = 1,
) -> list[Verdict]:
    """Run seeds until `most` have failed; tell of each that has."""
    # Of the processor: others may be at work on this machine.
    began, failed = time.process_time(), list[Verdict]()
    with _swept_rarely() as sweep:
        for done in range(1, seeds + 1):
            verdict = run(first + done - 1, fault)
            if verdict.broken:
                failed.append(verdict)
                tell("\n".join(verdict.lines()))
                if len(failed) == most:
                    break
            sweep()
    took = time.process_time() - began
    tell(f"{done} seeds in {took:.1f} s of one core, {done / took:.0f} a second")
    return failed


@contextmanager
def _swept_rarely() -> Iterator[Callable[[], None]]:
    """Collect garbage between runs, and only so often."""
    was_on, count = gc.isenabled(), 0

    def sweep() -> None:
        nonlocal count
        count += 1
        if count % RUNS_BETWEEN_SWEEPS == 0:
            gc.collect()

    gc.disable()
    try:
        yield sweep
    finally:
        if was_on:
            gc.enable()
