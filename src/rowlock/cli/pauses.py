"""What pausing a queue and pausing a task have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from rowlock._answers import Overview, Pause
from rowlock._app import App
from rowlock._durations import relative
from rowlock._errors import StoreError
from rowlock._words import did_you_mean
from rowlock.cli.documents import Output
from rowlock.cli.overview import overview
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
    seen: Overview, *, queue: str | None = None, task: str | None = None
) -> Pause | None:
    """Find the pause of a queue or a task."""
    return next(
        (each for each in seen.pauses if (each.queue, each.task) == (queue, task)),
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


def pause_and_print(
    app: App,
    pause: Pause,
    output: Output,
    *,
    for_: timedelta | None,
    names: Callable[[App], Collection[str]],
) -> None:
    """
    Pause a queue or a task and say so, and where it is none of the `names`.

    It is paused first: what else is said of it may take long, or fail, when a pause is
    needed most.
    """
    app.pause_sync(queue=pause.queue, task=pause.task, for_=for_, reason=pause.reason)
    kind, name = ("queue", pause.queue) if pause.task is None else ("task", pause.task)
    made = pause
    with suppress(StoreError):
        made = pause_of(overview(app), queue=pause.queue, task=pause.task) or pause
        _hint(kind, name or "", names(app))
    if not output.prints(made):
        click.echo(f"{kind} {printable(name or '')}: paused")


def _hint(kind: str, name: str, known: Collection[str]) -> None:
    if name in known:
        return
    click.echo(
        f"No due job, no app and no live worker has a {kind} {name!r} so far; it is"
        f" paused all the same{did_you_mean(name, known)}",
        err=True,
    )


def print_resume(kind: str, name: str, output: Output, *, was_paused: bool) -> None:
    """Say that a queue or a task isn't paused any more."""
    if output.prints({kind: name, "was_paused": was_paused}):
        return
    if was_paused:
        click.echo(f"{kind} {printable(name)}: resumed")
    else:
        click.echo(f"{kind} {printable(name)}: wasn't paused", err=True)
