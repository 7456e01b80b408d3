"""
Copying everything from one store to another: a seam of its own, and its policy.

A store gives `Copying`: what stands in it, its jobs as rows, and a transaction that
takes them in. What is refused, and what has to agree at the end, is decided here. A
row is a tuple in the order of `COLUMNS`, the same for every store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from rowlock._durations import iso
from rowlock._errors import RowlockError, UsageError
from rowlock._job import Status
from rowlock._store import Pause, Store, TaskInfo, WorkerInfo

INSTANTS: Final = (
    "run_at",
    "expires_at",
    "leased_until",
    "cancel_requested_at",
    "created_at",
    "started_at",
    "finished_at",
    "updated_at",
)
FLAGS: Final = ("alone", "abandoned", "suspect", "unrecoverable")
TEXTS: Final = (
    "status",
    "queue",
    "task",
    "worker",
    "idempotency_key",
    "backoff",
    "last_error",
    "fingerprint",
    "progress",
    "meta",
    "errors",
    "state",
    "result",
    "payload",
)
# All that a job's row has; a test compares it with the tables. Instants are aware
# datetimes, flags are bools, JSON is text.
COLUMNS: Final = (
    "id",
    *INSTANTS,
    *FLAGS,
    "timeout",
    "priority",
    "claims",
    "attempts",
    "failures",
    "losses",
    "max_attempts",
    "auto_replays",
    *TEXTS,
)
STATUS: Final = COLUMNS.index("status")

Row: TypeAlias = tuple[Any, ...]

_MOST_NAMED = 10


class CopyRefused(RowlockError):
    """Nothing was copied: a store isn't as it has to be; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """
    What stands in a store.

    `place` is the same for two URLs of one store. `last_id` is the last id that was
    ever given, `days` how many days those that succeeded or were cancelled ended on,
    `workers` those that are live.
    """

    place: tuple[object, ...]
    counts: Mapping[Status, int]
    greatest_id: int
    last_id: int
    updated_at: datetime | None
    days: int
    workers: tuple[WorkerInfo, ...]
    pauses: tuple[Pause, ...]
    tasks: tuple[TaskInfo, ...]

    @property
    def total(self) -> int:
        """How many jobs there are."""
        return sum(self.counts.values())

    @property
    def jobs(self) -> tuple[object, ...]:
        """What has to be equal where the jobs are."""
        return (dict(self.counts), self.greatest_id, self.updated_at)


class Damage(NamedTuple):
    """A column of a job in which a hand has written what no other store can hold."""

    job_id: int
    column: str


class Receiving(Protocol):
    """A transaction that takes jobs in; nobody else writes meanwhile."""

    async def survey(self) -> Survey:
        """Tell what will stand here once it is committed."""
        ...

    async def prepare(self, arriving: Survey) -> None:
        """Take its pauses and tasks, and give no id again that it has given."""
        ...

    async def add(self, jobs: Sequence[Row]) -> None:
        """Insert these jobs as they are."""
        ...


class Copying(Protocol):
    """How a store is copied, and copied to. The store is open."""

    @property
    def most_days(self) -> int | None:
        """On how many days jobs may have ended that are copied here; None: on any."""
        ...

    async def survey(self) -> Survey:
        """Tell what stands here now."""
        ...

    async def damaged(self, limit: int) -> Sequence[Damage]:
        """Name what no other store can hold, by id; at most `limit`."""
        ...

    def jobs(self) -> AsyncGenerator[Sequence[Row]]:
        """Give all jobs of one snapshot, in parts that fit in memory."""
        ...

    def at_rest(self) -> AbstractAsyncContextManager[Survey]:
        """Let nobody change a job here inside the block, and tell what stands here."""
        ...

    def receiving(self) -> AbstractAsyncContextManager[Receiving]:
        """Take jobs in, committed at the end of the block; an error leaves nothing."""
        ...


async def copy(
    source: Store, target: Store, told: Callable[[int, int], None]
) -> Survey:
    """
    Copy everything, all or none; tell what was copied.

    `told` hears after each part how many jobs are copied, and of how many. The source
    is looked at again under a lock that holds until the target has committed, so that
    nothing which happens there meanwhile is left behind or done twice.

    Raises:
        CopyRefused: one of the stores isn't ready, or was changed meanwhile.
        UsageError: both are the same.
    """
    leaving = await _leave(source)
    await target.open()
    _refuse(leaving, await target.copying.survey(), source, target)
    async with (
        AsyncExitStack() as until_committed,
        target.copying.receiving() as receiving,
    ):
        # Again: from here on nobody else writes.
        _refuse(leaving, await receiving.survey(), source, target)
        await receiving.prepare(leaving)
        copied: Counter[Status] = Counter()
        async with aclosing(source.copying.jobs()) as parts:
            async for jobs in parts:
                await receiving.add(jobs)
                copied.update(Status(job[STATUS]) for job in jobs)
                told(copied.total(), leaving.total)
        arrived = await receiving.survey()
        left = await until_committed.enter_async_context(source.copying.at_rest())
        _refuse_changes(leaving, left, source)
        handed = {status: copied[status] for status in Status}
        _refuse_differences(leaving, replace(arrived, counts=handed), target)
        _refuse_differences(leaving, arrived, target)
    return leaving


async def preview(source: Store, target: Store | None) -> Survey:
    """Tell what `copy` would copy, and refuse what it would; None is a new store."""
    leaving = await _leave(source)
    if target is not None:
        await target.open()
        _refuse(leaving, await target.copying.survey(), source, target)
    return leaving


async def _leave(source: Store) -> Survey:
    """Tell what stands in a source that can be copied; refuse one that can't."""
    await source.open()
    leaving = await source.copying.survey()
    if leaving.workers:
        msg = (
            f"Jobs are copied while nothing runs, and {source.url} has live workers:"
            f" {_named(leaving.workers)}. Stop them, and wait until their lease is over"
            " where they were killed."
        )
        raise CopyRefused(msg)
    if running := leaving.counts.get(Status.RUNNING, 0):
        msg = (
            f"Jobs are copied while nothing runs, and in {source.url} {_jobs(running)}"
            " still running: start a worker there until it has recovered and finished"
            " them, stop it, and copy again."
        )
        raise CopyRefused(msg)
    if damaged := await source.copying.damaged(_MOST_NAMED):
        named = ", ".join(f"{column} of job {job_id}" for job_id, column in damaged)
        msg = (
            f"What a hand has written into {source.url} can't be copied: {named}."
            " Correct it there, or delete these jobs."
        )
        raise CopyRefused(msg)
    return leaving


def _refuse(leaving: Survey, found: Survey, source: Store, target: Store) -> None:
    """Refuse a target that can't take this in."""
    if leaving.place == found.place:
        msg = f"{source.url} and {target.url} are the same database: name another."
        raise UsageError(msg)
    if found.workers:
        msg = (
            f"Jobs are copied while nothing runs, and {target.url} has live workers:"
            f" {_named(found.workers)}. Stop them first."
        )
        raise CopyRefused(msg)
    if found.total:
        msg = (
            f"{target.url} holds {found.total:,} job{'s' * (found.total != 1)} already,"
            " whose ids would be met again: copy to a database without jobs."
        )
        raise CopyRefused(msg)
    most = target.copying.most_days
    if most is not None and leaving.days > most:
        msg = (
            f"Jobs of {source.url} ended on {leaving.days:,} days, and {target.url}"
            f" keeps those of a day together, at most {most} days of them in a copy:"
            " delete the oldest first, as with `rowlock jobs delete --status succeeded"
            f" --older-than {most}d`."
        )
        raise CopyRefused(msg)


def _refuse_changes(before: Survey, after: Survey, source: Store) -> None:
    if after.workers:
        what = f"a worker started ({_named(after.workers)})"
    elif after.jobs != before.jobs:
        what = f"its jobs were changed ({_differences(before, after)})"
    elif not set(after.pauses) <= set(before.pauses):
        what = "a queue or a task was paused"
    else:
        return
    msg = (
        f"Nothing was copied: while {source.url} was read {what}. Stop all that works"
        " or enqueues there, and copy again."
    )
    raise CopyRefused(msg)


def _refuse_differences(leaving: Survey, arrived: Survey, target: Store) -> None:
    if arrived.jobs != leaving.jobs:
        msg = (
            f"Nothing was copied: what arrived in {target.url} differs from what was"
            f" to be copied ({_differences(leaving, arrived)}). Please report it."
        )
        raise CopyRefused(msg)


def _differences(before: Survey, after: Survey) -> str:
    """Say what differs, and how."""
    pairs: list[tuple[str, object, object]] = [
        (str(status), before.counts.get(status, 0), after.counts.get(status, 0))
        for status in Status
    ]
    pairs += [
        ("greatest id", before.greatest_id, after.greatest_id),
        ("last change", _instant(before.updated_at), _instant(after.updated_at)),
    ]
    return ", ".join(
        f"{what} {was}, then {is_}" for what, was, is_ in pairs if was != is_
    )


def _instant(at: datetime | None) -> str:
    return "never" if at is None else iso(at)


def _named(workers: Iterable[WorkerInfo]) -> str:
    return ", ".join(
        f"{each.id} (process {each.pid} on {each.host},"
        f" seen at {_instant(each.seen_at)})"
        for each in workers
    )


def _jobs(count: int) -> str:
    return f"{count:,} jobs are" if count != 1 else "1 job is"
