"""
Copying everything from one store to another, whole or not at all.

What is refused, and what has to agree at the end, is decided here; how a store is
read and written is `_copying.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from datetime import datetime
from typing import Final

from rowlock._copying import STATUS, Survey
from rowlock._durations import iso
from rowlock._errors import RowlockError, UsageError
from rowlock._job import Status
from rowlock._store import Pause, Store, TaskInfo, WorkerInfo
from rowlock._words import count

_MOST_NAMED: Final = 10


class CopyRefused(RowlockError):
    """Nothing was copied: a store isn't as it has to be; the message says why."""


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
        found = await receiving.survey()
        _refuse(leaving, found, source, target)
        await receiving.prepare(leaving)
        copied: Counter[Status] = Counter()
        async with aclosing(source.copying.jobs()) as parts:
            async for jobs in parts:
                await receiving.add(jobs)
                copied.update(Status(job[STATUS]) for job in jobs)
                told(copied.total(), leaving.total)
        async with aclosing(source.copying.once()) as keys:
            async for part in keys:
                await receiving.remember(part)
        arrived = await receiving.survey()
        left = await until_committed.enter_async_context(source.copying.at_rest())
        _refuse_changes(leaving, left, source)
        handed = {status: copied[status] for status in Status}
        _refuse_differences(leaving, replace(arrived, counts=handed), target)
        _refuse_differences(leaving, arrived, target)
        # Of the pauses those that are still in force.
        _refuse_missing(left.pauses, leaving.tasks, found, arrived, target)
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
            f"{target.url} holds {count(found.total, 'job')} already,"
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
    elif after.once != before.once:
        what = "keys were taken by `once`"
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
    if arrived.jobs != leaving.jobs or arrived.once < leaving.once:
        msg = (
            f"Nothing was copied: what arrived in {target.url} differs from what was"
            f" to be copied ({_differences(leaving, arrived)}). Please report it."
        )
        raise CopyRefused(msg)


def _refuse_missing(
    pauses: Iterable[Pause],
    tasks: Iterable[TaskInfo],
    found: Survey,
    arrived: Survey,
    target: Store,
) -> None:
    """Refuse a target that lacks one of these, which it hadn't as its own."""
    had = {each[:2] for each in map(_in_force, found.pauses)}
    there = set(map(_in_force, arrived.pauses))
    missing = [
        f"the pause of {pause.queue or pause.task}"
        for pause in pauses
        if (it := _in_force(pause)) not in there and it[:2] not in had
    ]
    known = {task.name for task in found.tasks}
    missing += [
        f"the task {task.name}"
        for task in tasks
        if task not in arrived.tasks and task.name not in known
    ]
    if missing:
        msg = (
            f"Nothing was copied: what arrived in {target.url} lacks"
            f" {', '.join(missing[:_MOST_NAMED])}. Please report it."
        )
        raise CopyRefused(msg)


def _in_force(pause: Pause) -> tuple[object, ...]:
    # Its words, which only people read, may be others in a store that can't hold them.
    return pause.queue, pause.task, pause.at, pause.until


def _differences(before: Survey, after: Survey) -> str:
    """Say what differs, and how."""
    pairs: list[tuple[str, object, object]] = [
        (str(status), before.counts.get(status, 0), after.counts.get(status, 0))
        for status in Status
    ]
    pairs += [
        ("greatest id", before.greatest_id, after.greatest_id),
        ("last change", _instant(before.updated_at), _instant(after.updated_at)),
        ("keys of `once`", before.once, after.once),
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
