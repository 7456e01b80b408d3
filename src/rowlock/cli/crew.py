"""How a supervisor's workers are together, as a probe asks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowlock._words import count
from rowlock._worker.health import Health

if TYPE_CHECKING:
    from rowlock.cli.child import Child
    from rowlock.cli.slot import Slot

# A worker that is missing, or silent, for longer doesn't come back by itself: a start
# is tried every 30 s at the least, and may import much.
LONGEST_ABSENCE_S = 120.0
LONGEST_SILENCE_S = 30.0
STOPPING = "it is stopping"


def crew_health(
    slots: Sequence[Slot], *, is_stopping: bool = False, failure: str | None = None
) -> Health:
    """
    Judge all by what each has said of itself: ready where one is.

    `failure` is why the last one that was started didn't come to serve.
    """
    now = time.monotonic()
    children = [child for slot in slots if (child := slot.child) is not None]
    told = [_health(child) for child in children]
    ills, waits = _absent(slots, now, failure)
    if is_stopping:
        ills, waits = [], [STOPPING]
    for child, health in zip(children, told, strict=True):
        is_only = len(slots) == 1
        reasons = [
            reason if is_only else f"{_name(child)}: {reason}"
            for reason in health.reasons
        ]
        # At its start, as while it imports the app, it says nothing: it is missing.
        silent_s = 0.0 if child.health is None else now - child.heard_at
        if silent_s > LONGEST_SILENCE_S:
            reasons.append(f"{_name(child)} hasn't been heard of for {silent_s:.0f} s")
            ills += reasons
        elif health.healthy and not is_stopping:
            waits += reasons
        elif not health.healthy:
            ills += reasons
    return Health(
        worker=", ".join(_name(child) for child in children) or "to be started",
        healthy=not ills,
        ready=not is_stopping and any(health.ready for health in told),
        reasons=(*ills, *waits),
        running=sum(health.running for health in told),
        stuck=sum(health.stuck for health in told),
        concurrency=sum(health.concurrency for health in told),
        loop_blocked_s=max((each.loop_blocked_s for each in told), default=0.0),
        loop_blocks=sum(health.loop_blocks for health in told),
        store_away_s=max((each.store_away_s for each in told), default=0.0),
    )


def _absent(
    slots: Sequence[Slot], now: float, failure: str | None
) -> tuple[list[str], list[str]]:
    """Tell of the workers that aren't there: for too long, and for a while."""
    missing = [
        now - slot.empty_since
        for slot in slots
        # Read once: it may be emptied in this moment, as this is another thread.
        if (child := slot.child) is None or child.ready_at is None
    ]
    if not missing:
        return [], []
    said = f"{count(len(missing), 'worker')} of {len(slots):,} to start"
    because = f": {failure.rstrip('.')}" if failure else ""
    if max(missing) <= LONGEST_ABSENCE_S:
        return [], [said + because]
    return [f"{said}, missing for {max(missing):.0f} s{because}"], []


def _name(child: Child) -> str:
    return child.worker or f"process {child.pid}"


def _health(child: Child) -> Health:
    if child.health is None:
        return Health(
            worker=_name(child),
            healthy=True,
            ready=False,
            reasons=(),
            running=0,
            stuck=0,
            concurrency=0,
            loop_blocked_s=0.0,
            loop_blocks=0,
            store_away_s=0.0,
        )
    return Health(**{**child.health, "reasons": tuple(child.health["reasons"])})
