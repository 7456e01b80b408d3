"""What the parts of one worker share, and nobody changes while it works."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlock._clock import Clock
    from rowlock._dead_letters import ReplayRule
    from rowlock._extensions import Extensions
    from rowlock._store import Retention, Store
    from rowlock._task import Task


def _new_id() -> str:
    return f"w-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    One worker's settings, and what its app lends it.

    `queues` None is every queue; of one with a limit only so many run at once, and one
    without a weight weighs 1. `timeout` is the app's, in seconds; `version` is the
    code's. `blocked_after` is for how long the loop may be blocked before it is told;
    `cancel_grace` how long a handler may take to end once it was told to; `max_stuck`
    how many may run on after that. The `worker`'s id is new at each start.
    """

    store: Store
    extensions: Extensions
    clock: Clock
    tasks: Mapping[str, Task[..., Any]]
    queues: tuple[str, ...] | None
    concurrency: int
    lease: timedelta
    timeout: float
    shutdown_timeout: timedelta
    safety_interval: timedelta
    poll_interval: timedelta
    retention: Retention
    max_payload: int
    rules: tuple[ReplayRule, ...]
    version: str | None
    blocked_after: timedelta
    cancel_grace: timedelta
    max_stuck: int
    limits: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    worker: str = field(default_factory=_new_id)

    @property
    def lease_s(self) -> float:
        """The lease in seconds."""
        return self.lease.total_seconds()

    @property
    def soon_s(self) -> float:
        """
        After how long what can't be renewed now is looked at again, in seconds.

        Often enough that one answer before the lease's end saves the claims.
        """
        return min(self.lease_s / 20, 1.0)

    @property
    def blocked_after_s(self) -> float:
        """For how long the loop may be blocked, in seconds."""
        return self.blocked_after.total_seconds()
