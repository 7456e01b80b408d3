"""What a loss costs, and whom: the policy of recovery, judged by the history."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from rowlock._job import Status

from .database import Ended
from .history import Event
from .record import Broken
from .world import Up, World

MOST_LOSSES = 3
DELAYS_S = (0, 5, 25)


@dataclass(slots=True)
class Cost:
    """What stands against a job, and how its claim is held."""

    failures: int = 0
    losses: int = 0
    is_running: bool = False
    is_alone: bool = False
    is_abandoned: bool = False
    is_asked: bool = False


def check_losses(world: World) -> list[Broken]:
    """Find recoveries that charge what they shouldn't, or give up too early or late."""
    costs = defaultdict[int, Cost](Cost)
    ups: dict[str, Up] = {}
    broken: list[Broken] = []
    for event in world.history.events:
        cost = costs[event.job]
        match event.verb:
            case "is up":
                ups[event.who] = event.note
            case "claims":
                cost.is_running, cost.is_abandoned = True, False
                is_single = ups[event.who].served.concurrency == 1
                cost.is_alone = event.note.suspects or is_single
            case "abandons":
                cost.is_abandoned = True
            case "cancels":
                cost.is_asked = cost.is_running
            case "replays":
                costs[event.job] = Cost()
            case "ends" if event.note.accepted:
                most = world.database.jobs[event.job].max_attempts
                broken += _broken(event, event.note, cost, most)
                cost.is_running = False
                cost.failures += event.note.outcome.failed
                cost.losses += event.note.outcome.lost
    return broken


def _broken(event: Event, ended: Ended, cost: Cost, most: int) -> list[Broken]:
    outcome = ended.outcome
    # Who asked to cancel decides how it ends, whatever was read before.
    if outcome.leased_until is None or cost.is_asked:
        return []
    if cost.is_abandoned and most > 1:
        right = Status.PENDING, False, False, timedelta(0)
    else:
        losses, failures = cost.losses + 1, cost.failures + cost.is_alone
        is_dead = losses >= MOST_LOSSES or failures >= most or most == 1
        right = (
            Status.FAILED if is_dead else Status.PENDING,
            True,
            cost.is_alone,
            timedelta(seconds=DELAYS_S[min(losses, MOST_LOSSES) - 1]),
        )
    found = outcome.status, outcome.lost, outcome.failed, outcome.delay
    if found == right:
        return []
    told = f"(status, lost, failed, delay) was {found}, not {right}"
    return [Broken("what a loss costs", event.job, event.time, told)]
