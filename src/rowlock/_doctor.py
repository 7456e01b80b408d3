"""
The doctor: what it finds, and the seam by which a store is examined.

Nothing that it does locks, writes, or waits for a row of somebody's. What can't be
looked at is a finding, too. What hangs on no store is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias

from rowlock._durations import span

Severity: TypeAlias = Literal["ok", "warning", "wrong"]

_WORST_FIRST: Mapping[Severity, int] = {"wrong": 0, "warning": 1, "ok": 2}

# What clocks of machines that keep them differ by, and what makes a nonsense of a plan.
_CLOCKS_DIFFER = timedelta(seconds=1)
_CLOCKS_ARE_WRONG = timedelta(minutes=1)
_KEEP_TIME = (
    "Keep the time of both by NTP (`timedatectl set-ntp true`): `run_at` and"
    " `expires_at` are told by this machine and compared with the database's clock."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One thing that the doctor looked at, and its cure where it isn't well.

    `about` names the thing by one word, for scripts. `severity` is `ok`, `warning` (it
    hurts, or will) or `wrong` (jobs may be lost, late or stuck). `what` and `cure` are
    sentences; SQL and commands to run stand in the cure between backticks.

        >>> from rowlock import App
        >>> [finding.what for finding in App("sqlite://").doctor_sync()
        ...  if finding.about == "tasks"]
        ['Each task with due jobs has a live worker.']
    """

    about: str
    severity: Severity
    what: str
    cure: str | None = None


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


def clock(asked_at: datetime, stores: datetime, answered_at: datetime) -> Finding:
    """
    Compare this machine's clock with the store's.

    The store's was read at some moment between the question and the answer, so that a
    difference is known only beyond these.
    """
    if asked_at - stores > timedelta(0):
        off, word = asked_at - stores, "behind"
    else:
        off, word = max(timedelta(0), stores - answered_at), "ahead of"
    if off < _CLOCKS_DIFFER:
        return well("clock", "The clocks of this machine and the database agree.")
    judge = wrong if off >= _CLOCKS_ARE_WRONG else warning
    return judge(
        "clock",
        f"The database's clock is {span(off.total_seconds())} or more {word} this"
        " machine's.",
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


def count(number: float, noun: str) -> str:
    """
    Count things in words.

        >>> count(1, "job"), count(1200, "page")
        ('1 job', '1,200 pages')
    """
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"
