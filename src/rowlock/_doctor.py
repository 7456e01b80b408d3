"""
The doctor: what it finds, and the seam by which a store is examined.

Nothing that it does locks, writes, or waits for a row of somebody's. What can't be
looked at is a finding, too. What hangs on no store is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from rowlock._answers import Finding, Severity
from rowlock._durations import span
from rowlock._words import count

_WORST_FIRST: Mapping[Severity, int] = {"wrong": 0, "warning": 1, "ok": 2}

# What clocks of machines that keep them differ by, and what makes a nonsense of a plan.
_CLOCKS_DIFFER = timedelta(seconds=1)
_CLOCKS_ARE_WRONG = timedelta(minutes=1)
_KEEP_TIME = (
    "Have both machines keep the time by NTP (`timedatectl set-ntp true`): what a"
    " program names in `run_at` or `expires_at` is compared with the database's clock."
)


class Doctor(Protocol):
    """Who examines one store: a seam of its own."""

    async def examine(self) -> Sequence[Finding]:
        """
        Look at everything; what is wrong comes first, what is well last.

        The store needn't be open, nor its schema be one that is served.

        Raises:
            StoreUnavailable: out of reach.
            ConfigError: it can't be what the URL says.
        """
        ...


def well(about: str, what: str) -> Finding:
    """Say what is as it should be."""
    return Finding(about=about, severity="ok", what=what)


def warning(about: str, what: str, cure: str) -> Finding:
    """Say what hurts, or will."""
    return Finding(about=about, severity="warning", what=what, cure=cure)


def wrong(about: str, what: str, cure: str) -> Finding:
    """Say by what jobs may be lost, late or stuck."""
    return Finding(about=about, severity="wrong", what=what, cure=cure)


def unseen(about: str, error: Exception) -> Finding:
    """Say what couldn't be looked at, and why."""
    return warning(
        about,
        f"What there is to say of {about} couldn't be seen: {error}",
        "Look again later, or as a user who may.",
    )


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Put what is wrong first, and what is well last; else the order stays."""
    return tuple(sorted(findings, key=lambda each: _WORST_FIRST[each.severity]))


def skew(asked_at: datetime, stores: datetime, answered_at: datetime) -> timedelta:
    """
    Tell by how much at least a clock is ahead of the store's; negative: behind it.

    The store's was read at some moment between the question and the answer, so that
    what lies between these may be no difference at all.
    """
    ahead, behind = asked_at - stores, answered_at - stores
    return max(ahead, timedelta(0)) or min(behind, timedelta(0))


def clock(asked_at: datetime, stores: datetime, answered_at: datetime) -> Finding:
    """Compare this machine's clock with the store's."""
    off = skew(asked_at, stores, answered_at)
    return _clock("clock", "This machine's clock is", off) or well(
        "clock", "The clocks of this machine and the database agree."
    )


def workers_clocks(skews: Iterable[tuple[str, timedelta]]) -> list[Finding]:
    """Compare the clocks of workers, by name, with the store's."""
    found = [
        _clock("workers", f"As it registered, the clock of worker {name} was", off)
        for name, off in skews
    ]
    return list(filter(None, found)) or [
        well("workers", "No live worker's clock differs from the database's.")
    ]


def _clock(about: str, whose: str, off: timedelta) -> Finding | None:
    if abs(off) < _CLOCKS_DIFFER:
        return None
    word = "ahead of" if off > timedelta(0) else "behind"
    return (wrong if abs(off) >= _CLOCKS_ARE_WRONG else warning)(
        about,
        f"{whose} {span(abs(off).total_seconds())} or more {word} the database's.",
        _KEEP_TIME,
    )


def tasks(unserved: Mapping[str, int]) -> list[Finding]:
    """Name the tasks that have due jobs and no live worker; `unserved` counts them."""
    if not unserved:
        return [well("tasks", "Each task with due jobs has a live worker.")]
    return [
        wrong(
            "tasks",
            f"No live worker has the task {task!r}, of which {count(due, 'job')}"
            f" {'is' if due == 1 else 'are'} due.",
            "Start a worker of the app that registers it, as by `rowlock worker"
            " shop:app`, or look with `rowlock tasks list` whether it was renamed.",
        )
        for task, due in unserved.items()
    ]


def schema(error: Exception | None) -> Finding:
    """Say whether the schema is served; the error is what opening would raise."""
    if error is None:
        return well("schema", "The schema is one that this Rowlock serves.")
    # Errors say what happened, then after a colon what to do.
    what, _, cure = str(error).partition(": ")
    return wrong("schema", f"{what}.", f"{cure[:1].upper()}{cure[1:]}")
