"""What a job or a claim has to show, as the model has it."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta

from rowlock._job import Claim, Job, Status

from .drawn import seconds
from .row import Row


def charge(held: Claim) -> tuple[Status, bool, bool, timedelta]:
    """Tell what a loss makes of a job (design §2): status, a failure, a loss, delay."""
    if held.cancel_requested_at:
        return Status.CANCELLED, False, not held.abandoned, seconds(0)
    if held.abandoned and held.max_attempts > 1:
        return Status.PENDING, False, False, seconds(0)
    failures, losses = held.failures + held.alone, held.losses + 1
    is_dead = failures >= held.max_attempts or losses == 3 or held.max_attempts == 1
    status = Status.FAILED if is_dead else Status.PENDING
    return status, held.alone, True, seconds((0, 5, 25)[held.losses])


def show(row: Row, shown: Job | Claim) -> None:
    """See that a job or a claim shows what the row says."""
    if isinstance(shown, Job):
        assert shown.key_until == row.key_until
    for name in (each.name for each in fields(row)):
        if name == "id" or not hasattr(shown, name):
            continue
        found = getattr(shown, name)
        if name == "payload":
            found = found if isinstance(shown, Claim) else json.dumps(found)
            assert json.loads(found) == json.loads(row.payload)
            continue
        if name == "errors":
            # A store may note other things too, which take their place among the ten.
            words = [each.get("message") or each.get("by") for each in found]
            kept = row.errors[words.count(None) - 10 :]
            assert [each for each in words if each] == kept
            continue
        # Of a claim that is over no law says who had it, or since when.
        if row.status is Status.RUNNING or name not in ("worker", "started_at"):
            assert found == getattr(row, name), (name, found, row)
