"""`rowlock workers`: which are live."""

from __future__ import annotations

import click

from rowlock._store import Stats, WorkerInfo
from rowlock.cli.database import opened
from rowlock.cli.documents import Output
from rowlock.cli.instants import relative
from rowlock.cli.parameters import Place, output_options, place_options
from rowlock.cli.table import Cell, Column, print_table

COLUMNS = (
    Column("WORKER"),
    Column("HOST", may_shrink=True),
    Column("PID", is_number=True),
    Column("RUNNING", is_number=True),
    Column("QUEUES", may_shrink=True),
    Column("STARTED"),
    Column("SEEN"),
    Column("VERSION", may_shrink=True),
    Column("ROWLOCK"),
)


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
    """List the live workers: where each runs, how much, and when it was last seen."""
    with opened(place) as app:
        stats = app.stats_sync()
    if not output.prints(stats.workers, stats.workers):
        print_workers(stats)


def print_workers(stats: Stats) -> None:
    """Print the workers for people."""
    if stats.workers:
        print_table(COLUMNS, [_row(worker, stats) for worker in stats.workers])
    else:
        click.echo("No worker is live.", err=True)


def _row(worker: WorkerInfo, stats: Stats) -> list[str | Cell]:
    started, seen = worker.started_at, worker.seen_at
    return [
        worker.id,
        worker.host,
        str(worker.pid),
        f"{worker.running} of {worker.concurrency}",
        "all" if worker.queues is None else ", ".join(worker.queues),
        "" if started is None else relative(started, stats.now),
        "" if seen is None else relative(seen, stats.now),
        worker.version or "",
        worker.rowlock,
    ]
