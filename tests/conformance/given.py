"""What a test starts from: a job, a demand, a lease, and the types of the fixtures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias

from rowlock import _outcome
from rowlock._job import Claim, ClaimKey, Job, NewJob, Outcome, Status
from rowlock._store import Claimed, Demand, Settled, Store

LEASE = timedelta(seconds=60)

ERROR = {"type": "ValueError", "message": "out of stock", "traceback": "line 1"}

Enqueue: TypeAlias = Callable[..., Awaitable[list[int]]]
ClaimSome: TypeAlias = Callable[..., Awaitable[Claimed]]
ClaimOne: TypeAlias = Callable[..., Awaitable[Claim]]
FinishOne: TypeAlias = Callable[[Outcome], Awaitable[Settled]]
Read: TypeAlias = Callable[[int], Awaitable[Job]]
Elapse: TypeAlias = Callable[..., Awaitable[None]]
JobIn: TypeAlias = Callable[..., Awaitable[int]]
Die: TypeAlias = Callable[..., Awaitable[int]]
OpenAnother: TypeAlias = Callable[[], Awaitable[Store]]


def new_job(**fields: Any) -> NewJob:  # noqa: ANN401 - any field of a job
    """Make a job of the task `task` in the queue `default`, unless told otherwise."""
    return NewJob(**({"task": "task", "queue": "default", "payload": "{}"} | fields))


def demand(
    total: int = 10,
    *tasks: str,
    queues: Mapping[str, int] | None = None,
    suspects: bool = False,
    weights: Mapping[str, int] | None = None,
) -> Demand:
    """Have room for so many jobs of these tasks; `task` where none is named."""
    return Demand(
        total=total,
        tasks=frozenset(tasks or ("task",)),
        queues=queues,
        suspects=suspects,
        weights=weights or {},
    )


def key_of(job: Job) -> ClaimKey:
    """Tell the key of a job's latest claim, whether or not it still holds."""
    return ClaimKey(job.id, job.claims)


def dead(key: ClaimKey) -> Outcome:
    """Fail for good."""
    return Outcome(key=key, status=Status.FAILED, failed=True, error=ERROR)


def retry(key: ClaimKey, delay: float = 0) -> Outcome:
    """Fail, with another attempt to come."""
    return Outcome(
        key=key,
        status=Status.PENDING,
        delay=timedelta(seconds=delay),
        failed=True,
        error=ERROR,
    )


# The ways in which a claim may end, by name.
ENDS: dict[str, Callable[[ClaimKey], Outcome]] = {
    "succeeded": lambda key: _outcome.succeeded(key, "1"),
    "retried": lambda key: retry(key, delay=7),
    "dead": dead,
    "snoozed": lambda key: _outcome.snoozed(key, timedelta(seconds=7)),
    "released": lambda key: _outcome.released(key, unstarted=False),
    "unstarted": lambda key: _outcome.released(key, unstarted=True),
    "cancelled": _outcome.cancelled,
    "lost": lambda key: Outcome(
        key=key, status=Status.PENDING, lost=True, failed=True, error=ERROR
    ),
}
