"""What pausing a queue and pausing a task have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from rowlock._answers import Pause, Stats
from rowlock._instants import relative
from rowlock.cli.documents import Output
from rowlock.cli.parameters import read_name, read_seconds
from rowlock.cli.table import printable

F = TypeVar("F", bound=Callable[..., Any])


def pause_options(function: F) -> F:
    """Add `--for` and `--reason`."""
    for_option = click.option(
        "--for",
        "for_",
        default=None,
        callback=read_seconds,
        metavar="DURATION",
        help="End by itself after so long, as in 90, 10m, 2h or 3d; else by resume.",
    )
    reason_option = click.option(
        "--reason", default=None, callback=read_name, help="Why, for who looks."
    )
    return for_option(reason_option(function))


def pause_of(
    stats: Stats, *, queue: str | None = None, task: str | None = None
) -> Pause | None:
    """Find the pause of a queue or a task."""
    return next(
        (each for each in stats.pauses if (each.queue, each.task) == (queue, task)),
        None,
    )


def until(pause: Pause | None, now: datetime) -> str:
    """Say in a cell of a table until when something is paused, by whom and why."""
    if pause is None:
        return ""
    end = (
        "until resumed" if pause.until is None else f"ends {relative(pause.until, now)}"
    )
    by = f", by {pause.by}" if pause.by else ""
    return f"{end}{by}{f': {pause.reason}' if pause.reason else ''}"


def print_pause(
    kind: str, name: str, made: Pause | None, known: Collection[str], output: Output
) -> None:
    """Say that a queue or a task is paused now, and where nobody knows it."""
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        click.echo(
            f"No job and no live worker has a {kind} {name!r} so far; it is paused all"
            f" the same{hint}",
            err=True,
        )
    if not output.prints(made):
        click.echo(f"{kind} {printable(name)}: paused")


def print_resume(kind: str, name: str, output: Output, *, was_paused: bool) -> None:
    """Say that a queue or a task isn't paused any more."""
    if output.prints({kind: name, "was_paused": was_paused}):
        return
    if was_paused:
        click.echo(f"{kind} {printable(name)}: resumed")
    else:
        click.echo(f"{kind} {printable(name)}: wasn't paused", err=True)
