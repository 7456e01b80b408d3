"""`rowlock stats`: the queues, the workers and the pauses, at a glance."""

from __future__ import annotations

import click

from rowlock._job import Status
from rowlock._store import Pause, QueueStats, Stats, WorkerInfo
from rowlock.cli import colour
from rowlock.cli.database import opened
from rowlock.cli.documents import print_json
from rowlock.cli.instants import relative
from rowlock.cli.parameters import app_option, database_option, json_option
from rowlock.cli.table import Cell, Column, print_table

QUEUES = (
    Column("QUEUE", may_shrink=True),
    *(Column(status.upper(), is_number=True) for status in Status),
    Column("DUE", is_number=True),
    Column("OLDEST DUE"),
)
WORKERS = (
    Column("WORKER"),
    Column("HOST", may_shrink=True),
    Column("PID", is_number=True),
    Column("RUNNING", is_number=True),
    Column("QUEUES", may_shrink=True),
    Column("SEEN"),
)
PAUSES = (
    Column("PAUSED", may_shrink=True),
    Column("UNTIL"),
    Column("BY", may_shrink=True),
    Column("REASON", may_shrink=True),
)


@click.command(epilog="Example: rowlock stats --json")
@json_option
@database_option
@app_option
def stats(*, as_json: bool, database: str | None, named_app: str | None) -> None:
    """Count jobs by queue and status, and name the live workers."""
    with opened(database, named_app) as app:
        found = app.stats_sync()
    if as_json:
        print_json(found)
        return
    if found.queues:
        print_table(QUEUES, [_queue(queue, found) for queue in found.queues])
    else:
        click.echo("No jobs.", err=True)
    if found.workers:
        click.echo()
        print_table(WORKERS, [_worker(worker, found) for worker in found.workers])
    else:
        click.echo("No worker is live.", err=True)
    if found.pauses:
        click.echo()
        print_table(PAUSES, [_pause(pause, found) for pause in found.pauses])


def _queue(queue: QueueStats, stats: Stats) -> list[str | Cell]:
    counts = [
        Cell(str(count), colour.OF_STATUS[status] if count else None)
        for status in Status
        for count in [queue.counts[status]]
    ]
    oldest = "" if queue.oldest_due is None else relative(queue.oldest_due, stats.now)
    return [queue.queue, *counts, str(queue.due), oldest]


def _worker(worker: WorkerInfo, stats: Stats) -> list[str | Cell]:
    return [
        worker.id,
        worker.host,
        str(worker.pid),
        f"{worker.running} of {worker.concurrency}",
        "all" if worker.queues is None else ", ".join(worker.queues),
        "" if worker.seen_at is None else relative(worker.seen_at, stats.now),
    ]


def _pause(pause: Pause, stats: Stats) -> list[str | Cell]:
    return [
        f"queue {pause.queue}" if pause.queue is not None else f"task {pause.task}",
        "resumed" if pause.until is None else relative(pause.until, stats.now),
        pause.by or "",
        pause.reason or "",
    ]
