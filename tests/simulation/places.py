"""What a worker runs at once, and for how long: by its places, its limits, the time."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from rowlock._worker.buffer import LONGEST_WAIT_S

from .history import Event
from .worker import CANCEL_GRACE_S

if TYPE_CHECKING:
    from .laws import Judge

# Of sums of seconds.
SLACK_S = 0.001


def check_places(judge: Judge, event: Event) -> None:
    """Check what runs beside a handler that starts."""
    runs = {
        (job, claim): record.job.queue
        for job, record in judge.records.items()
        for claim, who in record.running.items()
        if who == event.who and claim not in record.ended_by
    }
    up, queue = judge.up[event.who], judge.records[event.job].job.queue
    most = up.served.concurrency
    how = f"{len(runs)} of {most} run"
    judge.check(len(runs) <= most, "concurrency", event, how)
    of_queue, limit = Counter(runs.values())[queue], up.limits.get(queue, most)
    how = f"{of_queue} of {queue} run, {limit} may"
    judge.check(of_queue <= limit, "limits", event, how)
    at_hand_s = event.time - judge.records[event.job].heard_at[event.claim]
    how = f"it was at hand for {at_hand_s:.1f} s"
    judge.check(at_hand_s <= LONGEST_WAIT_S + SLACK_S, "at hand", event, how)
    is_alone = len(runs) == 1 or not runs.keys() & judge.suspects
    judge.check(is_alone, "alone", event, f"{sorted(runs)} run at once")


def check_timeout(judge: Judge, event: Event) -> None:
    """Check that a handler which leaves its place hasn't held it for too long."""
    record = judge.records[event.job]
    ran_s = event.time - record.started[event.claim]
    most_s = (record.job.timeout or math.inf) + CANCEL_GRACE_S + SLACK_S
    how = f"it held its place for {ran_s:.1f} s"
    judge.check(ran_s <= most_s, "timeout", event, how)
