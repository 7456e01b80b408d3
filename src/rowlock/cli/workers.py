"""`rowlock workers`: which are live."""

from __future__ import annotations

from datetime import datetime

import click

from rowlock._answers import Overview, Page, WorkerInfo
from rowlock._durations import relative, span
from rowlock._filter import Filter
from rowlock._job import Job, Status
from rowlock.cli.database import opened
from rowlock.cli.documents import Output, fields_of
from rowlock.cli.overview import overview
from rowlock.cli.parameters import Place, output_options, place_options
from rowlock.cli.story import in_percent
from rowlock.cli.table import Cell, Column, print_table

STUCK = Column("STUCK", may_shrink=True)
COLUMNS = (
    Column("WORKER"),
    Column("HOST", may_shrink=True),
    Column("PID", is_number=True),
    Column("RUNNING", is_number=True),
    STUCK,
    Column("QUEUES", may_shrink=True),
    Column("STARTED"),
    Column("SEEN"),
    Column("VERSION", may_shrink=True),
    Column("ROWLOCK"),
)
RUNNING = (
    Column("WORKER"),
    Column("JOB", is_number=True),
    Column("TASK", may_shrink=True),
    Column("ATTEMPT", is_number=True),
    Column("RUNS FOR"),
    Column("LEASE"),
    Column("PROGRESS", may_shrink=True),
)

# More are the dashboard's to show.
RUNNING_SHOWN = 1000
STUCK_SHOWN = 5


@click.group(epilog="Example: rowlock workers list")
def workers() -> None:
    """List the live workers."""


@workers.command(
    "list",
    epilog="Example: rowlock workers list --jsonl",
    short_help="List the live workers.",
)
@output_options
@place_options
def list_(output: Output, *, place: Place) -> None:
    """
    List the live workers: where each runs, how much, and when it was last seen.

    With what each runs now: for how long, and how much is left of the lease. One that
    runs a suspect alone, or gives way to one, claims nothing until that has ended.
    STUCK counts handlers that can't be stopped, and names their jobs: the attempts have
    ended, the handlers run on, until that worker is replaced.
    """
    with opened(place) as app:
        seen = overview(app)
        page = app.list_sync(Filter(status=Status.RUNNING), limit=RUNNING_SHOWN)
    told = [
        {**fields_of(worker), "jobs": [_running(job) for job in _of(worker, page)]}
        for worker in seen.workers
    ]
    if output.prints(told, told):
        return
    print_workers(seen)
    if page.jobs:
        click.echo()
        print_table(RUNNING, [_running_row(job, seen.now) for job in page.jobs])
    if page.after is not None:
        click.echo(f"More than {RUNNING_SHOWN:,} jobs run.", err=True)


def print_workers(seen: Overview) -> None:
    """Print the workers for people."""
    if seen.workers:
        # A column that is empty on every day but the bad ones has no place on those.
        has_stuck = any(worker.stuck for worker in seen.workers)
        print_table(
            [each for each in COLUMNS if has_stuck or each is not STUCK],
            [_row(worker, seen.now, has_stuck=has_stuck) for worker in seen.workers],
        )
    else:
        click.echo("No worker is live.", err=True)


def _row(worker: WorkerInfo, now: datetime, *, has_stuck: bool) -> list[str | Cell]:
    started, seen = worker.started_at, worker.seen_at
    return [
        worker.id,
        worker.host,
        str(worker.pid),
        f"{worker.running} of {worker.concurrency}{_claims_nothing(worker)}",
        *([_stuck(worker)] if has_stuck else []),
        "all" if worker.queues is None else ", ".join(worker.queues),
        "" if started is None else relative(started, now),
        "" if seen is None else relative(seen, now),
        worker.version or "",
        worker.rowlock,
    ]


def _claims_nothing(worker: WorkerInfo) -> str:
    # With room for one it is full, as it is at any job.
    if worker.alone and worker.concurrency > 1:
        return ", alone"
    return ", gives way" if worker.gives_way else ""


def _stuck(worker: WorkerInfo) -> Cell:
    # An attempt that was given up has ended; its handler hasn't.
    named = [str(job_id) for job_id in worker.stuck[:STUCK_SHOWN]]
    more = ["..."] if len(worker.stuck) > STUCK_SHOWN else []
    told = f"{len(worker.stuck)} ({', '.join(named + more)})" if worker.stuck else ""
    return Cell(told, "red")


def _of(worker: WorkerInfo, page: Page) -> list[Job]:
    return [job for job in page.jobs if job.worker == worker.id]


def _running(job: Job) -> dict[str, object]:
    return {
        "job_id": job.id,
        "task": job.task,
        "queue": job.queue,
        "attempt": job.attempts,
        "started_at": job.started_at,
        "leased_until": job.leased_until,
        "progress": job.progress,
    }


def _running_row(job: Job, seen_at: datetime) -> list[str | Cell]:
    started, until = job.started_at or job.updated_at, job.leased_until
    # A list that is read a moment after the figures may be younger than they are.
    now = max(seen_at, started)
    is_over = until is not None and until < now
    return [
        job.worker or "",
        str(job.id),
        job.task,
        str(job.attempts),
        span((now - started).total_seconds()),
        Cell(
            "" if until is None else f"ends {relative(until, now)}",
            "red" if is_over else None,
        ),
        "" if job.progress is None else in_percent(job.progress),
    ]
