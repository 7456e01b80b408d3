"""How a worker is, as a probe asks: healthy, ready, and why not."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock._words import count

# A block that is longer is a fault of the program, which no wait mends.
LONGEST_BLOCK_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """
    How a worker is; `Worker.health` gives it.

    Not `healthy`: it should be replaced, as it won't mend by itself. Not `ready`: it
    claims nothing just now, as it starts or stops, or as the store is out of reach.
    `reasons` say why, empty where it is both. `running` handlers have a place,
    those `stuck` can't be stopped and run on; `loop_blocked_s` is for how long the
    event loop hasn't turned, `loop_blocks` how often it was blocked for too long.
    """

    worker: str
    healthy: bool
    ready: bool
    reasons: tuple[str, ...]
    running: int
    stuck: int
    concurrency: int
    loop_blocked_s: float
    loop_blocks: int
    store_away_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What a worker's health is judged by, in seconds and counts."""

    worker: str
    max_stuck: int
    concurrency: int
    lease_s: float
    running: int = 0
    stuck: int = 0
    loop_blocked_s: float = 0.0
    loop_blocks: int = 0
    store_away_s: float = 0.0
    fetch_late_s: float = 0.0
    is_renewing: bool = False
    is_started: bool = False
    is_stopping: bool = False


def judge(signs: Signs) -> Health:
    """Judge a worker by its signs."""
    ills, waits = tuple(_ills(signs)), tuple(_waits(signs))
    return Health(
        worker=signs.worker,
        healthy=not ills,
        ready=not ills and not waits,
        reasons=ills + waits,
        running=signs.running,
        stuck=signs.stuck,
        concurrency=signs.concurrency,
        loop_blocked_s=round(signs.loop_blocked_s, 3),
        loop_blocks=signs.loop_blocks,
        store_away_s=round(signs.store_away_s, 3),
    )


def _ills(signs: Signs) -> list[str]:
    ills = []
    if signs.loop_blocked_s >= LONGEST_BLOCK_S:
        ills.append(
            f"a handler has blocked the event loop for {signs.loop_blocked_s:.0f} s"
        )
    if signs.stuck > signs.max_stuck:
        ills.append(
            f"{count(signs.stuck, 'handler')} can't be stopped, and"
            f" {signs.max_stuck:,} may be (max_stuck)"
        )
    if signs.store_away_s >= signs.lease_s:
        ills.append(
            f"the store has been out of reach for {signs.store_away_s:.0f} s, longer"
            f" than the lease of {signs.lease_s:g} s"
        )
    if signs.fetch_late_s > 0:
        ills.append(f"it should have looked for jobs {signs.fetch_late_s:.0f} s ago")
    if signs.is_started and not signs.is_renewing and not signs.is_stopping:
        ills.append("its leases aren't renewed any more")
    return ills


def _waits(signs: Signs) -> list[str]:
    waits = []
    if not signs.is_started:
        waits.append("it hasn't started yet")
    if signs.is_stopping:
        waits.append("it is stopping")
    if 0 < signs.store_away_s < signs.lease_s:
        waits.append(f"the store has been out of reach for {signs.store_away_s:.0f} s")
    return waits
