"""`rowlock jobs`: look at jobs, and act on them."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from rowlock._job import Job, Status
from rowlock._store import Filter, Page
from rowlock.cli import colour
from rowlock.cli.database import opened
from rowlock.cli.dead import dead
from rowlock.cli.documents import Output
from rowlock.cli.instants import relative
from rowlock.cli.parameters import (
    Place,
    output_options,
    place_options,
    read_id,
)
from rowlock.cli.selection import filter_options
from rowlock.cli.story import tell
from rowlock.cli.table import Cell, Column, print_table
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


@click.group(epilog="Example: rowlock jobs list --status failed")
def jobs() -> None:
    """Look at jobs, cancel them, replay them, move them, delete them."""


@jobs.command(
    "list",
    epilog="Example: rowlock jobs list --status failed --task send_receipt",
    short_help="List jobs, newest first.",
)
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
@output_options
@place_options
def list_(
    where: Filter,
    output: Output,
    *,
    limit: int,
    after: int | None,
    place: Place,
) -> None:
    """List jobs, newest first."""
    with opened(place) as app:
        page = app.list_sync(where, after=after, limit=limit)
    if not output.prints(page, page.jobs):
        _print_page(page, datetime.now(UTC))


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
    if not output.prints(job):
        for line in tell(job, datetime.now(UTC)):
            click.echo(line)


for verb in (dead, run, move, cancel, replay, delete):
    jobs.add_command(verb)


def _print_page(page: Page, now: datetime) -> None:
    if not page.jobs:
        click.echo("No jobs.", err=True)
        return
    print_table(COLUMNS, [_row(job, now) for job in page.jobs])
    if page.after is not None:
        click.echo(f"There are more: --after {page.after}", err=True)


def _row(job: Job, now: datetime) -> list[str | Cell]:
    error = (job.last_error or "").partition("\n")[0]
    return [
        str(job.id),
        Cell(str(job.status), colour.OF_STATUS[job.status]),
        job.task,
        job.queue,
        f"{job.failures} of {job.max_attempts}",
        when(job, now),
        error,
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
