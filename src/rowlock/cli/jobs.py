"""`rowlock jobs`: look at jobs, cancel them, replay them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import click

from rowlock._job import Job, Status
from rowlock._store import Answer, Filter, Page
from rowlock.cli import colour
from rowlock.cli.database import opened
from rowlock.cli.documents import print_json, print_json_line
from rowlock.cli.errors import DONE, FAILED, NOT_FOUND
from rowlock.cli.instants import relative
from rowlock.cli.parameters import (
    app_option,
    database_option,
    json_option,
    read_id,
    read_ids,
    read_name,
)
from rowlock.cli.story import tell
from rowlock.cli.table import Cell, Column, print_table

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
    """Look at jobs, cancel them, replay them."""


@jobs.command(
    "list",
    epilog="Example: rowlock jobs list --status failed --task send_receipt",
    short_help="List jobs, newest first.",
)
@click.option(
    "--status",
    type=click.Choice([str(status) for status in Status]),
    default=None,
    help="Only jobs in this status.",
)
@click.option("--task", default=None, callback=read_name, help="Only of this task.")
@click.option("--queue", default=None, callback=read_name, help="Only of this queue.")
@click.option(
    "--key", default=None, callback=read_name, help="Only with this idempotency key."
)
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
@json_option
@click.option(
    "--jsonl", is_flag=True, default=False, help="Print one JSON document a job."
)
@database_option
@app_option
def list_(
    *,
    status: str | None,
    task: str | None,
    queue: str | None,
    key: str | None,
    limit: int,
    after: int | None,
    as_json: bool,
    jsonl: bool,
    database: str | None,
    named_app: str | None,
) -> None:
    """List jobs, newest first."""
    where = Filter(
        status=None if status is None else Status(status),
        task=task,
        queue=queue,
        idempotency_key=key,
    )
    with opened(database, named_app) as app:
        page = app.list_sync(where, after=after, limit=limit)
    if as_json:
        print_json(page)
    elif jsonl:
        for job in page.jobs:
            print_json_line(job)
    else:
        _print_page(page, datetime.now(UTC))


@jobs.command(
    epilog="Example: rowlock jobs show 17", short_help="Tell the story of one job."
)
@click.argument("job_id", callback=read_id, metavar="ID")
@json_option
@database_option
@app_option
def show(
    job_id: int, *, as_json: bool, database: str | None, named_app: str | None
) -> None:
    """Tell the whole story of one job: its fields, payload, result and errors."""
    with opened(database, named_app) as app:
        job = app.get_sync(job_id)
    if as_json:
        print_json(job)
    else:
        for line in tell(job, datetime.now(UTC)):
            click.echo(line)


@jobs.command(
    epilog="Example: rowlock jobs cancel 17 18", short_help="Cancel jobs by id."
)
@click.argument("job_ids", callback=read_ids, nargs=-1, required=True, metavar="ID...")
@json_option
@database_option
@app_option
def cancel(
    job_ids: tuple[int, ...],
    *,
    as_json: bool,
    database: str | None,
    named_app: str | None,
) -> int:
    """
    Cancel jobs: pending ones at once, running ones as soon as their handler stops.

    Exit code 0 where all were cancelled, 3 where none was found, else 1.
    """
    with opened(database, named_app) as app:
        answers = app.cancel_sync(job_ids)
    return _print_answers(answers, as_json=as_json)


@jobs.command(
    epilog="Example: rowlock jobs replay 17 18",
    short_help="Run failed or cancelled jobs again.",
)
@click.argument("job_ids", callback=read_ids, nargs=-1, required=True, metavar="ID...")
@json_option
@database_option
@app_option
def replay(
    job_ids: tuple[int, ...],
    *,
    as_json: bool,
    database: str | None,
    named_app: str | None,
) -> int:
    """
    Run failed or cancelled jobs again, with their failures forgotten.

    Exit code 0 where all were replayed, 3 where none was found, else 1.
    """
    with opened(database, named_app) as app:
        answers = app.replay_sync(job_ids)
    return _print_answers(answers, as_json=as_json)


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


def _print_answers(answers: Sequence[Answer], *, as_json: bool) -> int:
    if as_json:
        print_json([{**asdict(answer), "answer": str(answer)} for answer in answers])
    else:
        for answer in answers:
            click.echo(f"{answer.job_id}  {_words(answer)}")
    if all(answer.done for answer in answers):
        return DONE
    found = any(answer.done or answer.status is not None for answer in answers)
    return FAILED if found else NOT_FOUND


def _words(answer: Answer) -> str:
    if answer.done and answer.status is Status.RUNNING:
        return "asked to stop; it is cancelled when its handler ends"
    return str(answer)
