"""`rowlock jobs`: look at jobs, and act on them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NoReturn

import click

from rowlock._answers import Page
from rowlock._app import App
from rowlock._choice import LARGEST_SEARCH
from rowlock._durations import relative
from rowlock._errors import UsageError
from rowlock._filter import Filter
from rowlock._job import Job, Status, error_of
from rowlock._operations import CUT
from rowlock._why import is_overdue
from rowlock._words import did_you_mean
from rowlock.cli import colour, completion
from rowlock.cli.database import asked, now_of, opened
from rowlock.cli.dead import dead
from rowlock.cli.documents import Output
from rowlock.cli.parameters import (
    Place,
    output_options,
    place_options,
    read_id,
    read_ids,
)
from rowlock.cli.selection import filter_options
from rowlock.cli.story import tell
from rowlock.cli.table import Cell, Column, print_table, printable
from rowlock.cli.verbs import cancel, delete, move, replay, run

COLUMNS = (
    Column("ID", is_number=True),
    Column("STATUS"),
    Column("TASK", may_shrink=True),
    Column("QUEUE", may_shrink=True),
    Column("FAILURES", is_number=True),
    Column("WHEN"),
    Column("LAST ERROR", may_shrink=True),
)

# How often a list that is followed is read.
FOLLOW_PAUSE_S = 1.0


@click.group(epilog="Example: rowlock jobs list --status failed")
def jobs() -> None:
    """Look at jobs, cancel them, replay them, move them, delete them."""


@jobs.command(
    "list",
    epilog="Example: rowlock jobs list --status failed --task send_receipt",
    short_help="List jobs, newest first.",
)
@click.argument("job_ids", callback=read_ids, nargs=-1, metavar="[ID]...")
@filter_options
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="At most so many.",
)
@click.option(
    "--after",
    default=None,
    callback=read_id,
    metavar="ID",
    help="Go on below this id, for the next page.",
)
@click.option(
    "--follow",
    is_flag=True,
    default=False,
    help="Go on: print each job again that is new or has changed, until Ctrl-C.",
)
@output_options
@place_options
def list_(
    job_ids: tuple[int, ...],
    where: Filter,
    output: Output,
    *,
    limit: int,
    after: int | None,
    follow: bool,
    place: Place,
) -> None:
    """
    List jobs, newest first.

    With --follow the newest --limit jobs come first, the oldest of them on top; then
    each that changes, and each that comes to fit, however old it is.
    """
    where = replace(where, ids=job_ids or None)
    if follow and (output.as_json or after is not None):
        msg = "--follow has no end: it goes with --jsonl, not with --json or --after."
        raise UsageError(msg)
    with opened(place) as app:
        if follow:
            _follow(app, where, output, limit)
        page = app.list_sync(where, after=after, limit=limit)
        now = now_of(app)
        hint = None if page.jobs else _hint(app, where)
    if page.is_cut:
        click.echo(CUT, err=True)
    if hint is not None:
        click.echo(hint, err=True)
    if not output.prints(page, page.jobs):
        _print_page(page, now)


@jobs.command(
    epilog="Example: rowlock jobs show 17", short_help="Tell the story of one job."
)
@click.argument("job_id", callback=read_id, metavar="ID")
@output_options
@place_options
def show(job_id: int, output: Output, *, place: Place) -> None:
    """
    Tell the whole story of one job.

    Where it stands and what comes next, its fields, payload, state and result, and
    what happened to it: failures and losses with their tracebacks, and what operators
    did. Instants are told in UTC and as how long ago.
    """
    with opened(place) as app:
        job = app.get_sync(job_id)
        now = now_of(app)
        why = app.why_sync(job_id) if is_overdue(job, now) else None
    if not output.prints(job):
        for line in tell(job, now, why=why):
            click.echo(line)


@jobs.command(
    epilog="Example: rowlock jobs why 17",
    short_help="Say why a job isn't running.",
)
@click.argument("job_id", callback=read_id, metavar="ID")
@output_options
@place_options
def why(job_id: int, output: Output, *, place: Place) -> None:
    """
    Say in one sentence why a job isn't running.

    Whether it is paused, due later, of a task that no live worker has, behind others,
    or over. In JSON there is a word for it too, the reason.
    """
    with opened(place) as app:
        told = app.why_sync(job_id)
    if not output.prints(told):
        click.echo(printable(told.sentence))


for verb in (dead, run, move, cancel, replay, delete):
    jobs.add_command(verb)


def _follow(app: App, where: Filter, output: Output, limit: int) -> NoReturn:
    """Print the newest jobs, then those that come to fit or change."""
    marks: dict[int, tuple[datetime, int]] = {}
    fitting: set[int] | None = None
    is_titled = False
    while True:
        found = asked(app, lambda store: store.search(where, limit=LARGEST_SEARCH)).ids
        newest = app.list_sync(where, limit=limit).jobs
        # One that was replayed and died again is no newer than it was.
        come = set() if fitting is None else set(found) - fitting
        come -= {job.id for job in newest}
        more = _get(app, sorted(come)) if come else []
        changed = [job for job in newest if marks.get(job.id) != _mark(job)]
        changed = sorted([*changed, *more], key=lambda job: job.id)
        fitting, marks = set(found), {job.id: _mark(job) for job in newest}
        if changed and not output.prints(changed, changed):
            now = now_of(app)
            rows = [_row(job, now) for job in changed]
            print_table(COLUMNS, rows, titled=not is_titled)
            is_titled = True
        time.sleep(FOLLOW_PAUSE_S)


def _get(app: App, ids: Sequence[int]) -> Sequence[Job]:
    return asked(app, lambda store: store.get(ids))


def _mark(job: Job) -> tuple[datetime, int]:
    return job.updated_at, job.claims


def _hint(app: App, where: Filter) -> str | None:
    """Say that nobody knows the task or the queue that is asked for."""
    for kind, name, known in (
        ("task", where.task, completion.task_names),
        ("queue", where.queue, completion.queue_names),
    ):
        if name is not None and name not in (names := known(app)):
            hint = did_you_mean(name, names)
            return f"No job and no live worker has a {kind} {printable(name)!r}{hint}"
    return None


def _print_page(page: Page, now: datetime) -> None:
    if not page.jobs:
        click.echo("No jobs.", err=True)
        return
    print_table(COLUMNS, [_row(job, now) for job in page.jobs])
    if page.after is not None:
        click.echo(f"There are more: --after {page.after}", err=True)


def _row(job: Job, now: datetime) -> list[str | Cell]:
    return [
        str(job.id),
        Cell(str(job.status), colour.OF_STATUS[job.status]),
        job.task,
        job.queue,
        f"{job.failures} of {job.max_attempts}",
        when(job, now),
        error_of(job) or "",
    ]


def when(job: Job, now: datetime) -> str:
    """Say the instant that matters in a job's status."""
    if job.status is Status.PENDING:
        verb, instant = "due", job.run_at
    elif job.status is Status.RUNNING:
        verb, instant = "started", job.started_at or job.updated_at
    else:
        verb, instant = "finished", job.finished_at or job.updated_at
    return f"{verb} {relative(instant, now)}"
