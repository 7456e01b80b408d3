"""A job as the model has it, and what its own fields say."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rowlock._job import JSON, Status


@dataclass
class Row:
    id: int
    task: str
    queue: str
    priority: int
    idempotency_key: str | None
    expires_at: datetime | None
    run_at: datetime
    payload: str = "{}"
    idempotency_for: timedelta | None = None
    status: Status = Status.PENDING
    claims: int = 0
    attempts: int = 0
    failures: int = 0
    losses: int = 0
    worker: str | None = None
    leased_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    state: JSON = None
    errors: list[str] = field(default_factory=list)
    alone: bool = False
    abandoned: bool = False
    suspect: bool = False
    key_freed: bool = False

    @property
    def key_until(self) -> datetime | None:
        """Until when it keeps its key after its end, where it still does."""
        if self.key_freed or self.finished_at is None or self.idempotency_for is None:
            return None
        return self.finished_at + self.idempotency_for

    def holds_key(self, now: datetime) -> bool:
        """Law 10."""
        is_kept = self.key_until is not None and self.key_until > now
        return self.idempotency_key is not None and (
            is_kept or not self.status.is_final
        )

    def expire(self, now: datetime) -> None:
        """Law 12; it never ran, so it keeps no key."""
        self.status, self.finished_at, self.key_freed = Status.CANCELLED, now, True
