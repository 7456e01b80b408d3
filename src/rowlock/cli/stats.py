"""`rowlock stats`: the queues, the workers and the pauses, at a glance."""

from __future__ import annotations

import click

from rowlock._answers import Pause, QueueStats, Stats
from rowlock._job import Status
from rowlock.cli.database import opened
from rowlock.cli.documents import Output
from rowlock.cli.parameters import Place, output_options, place_options
from rowlock.cli.pauses import pause_of, until
from rowlock.cli.queues import all_queues, counts, oldest_due
from rowlock.cli.table import Cell, Column, print_table, printable
from rowlock.cli.workers import print_workers

QUEUES = (
    Column("QUEUE", may_shrink=True),
    *(Column(status.upper(), is_number=True) for status in Status),
    Column("DUE", is_number=True),
    Column("OLDEST DUE"),
    Column("PAUSED", may_shrink=True),
)
PAUSES = (Column("PAUSED TASK", may_shrink=True), Column("UNTIL", may_shrink=True))


@click.command(epilog="Example: rowlock stats --json")
@output_options
@place_options
def stats(output: Output, *, place: Place) -> None:
    """
    Count jobs by queue and status, and name the live workers.

    It says which tasks are paused, and of which tasks jobs are due that no live
    worker has.
    """
    with opened(place) as app:
        found = app.stats_sync()
    if output.prints(found):
        return
    if queues := all_queues(found):
        print_table(QUEUES, [_queue(queue, found) for queue in queues])
    else:
        click.echo("No jobs.", err=True)
    if found.workers:
        click.echo()
    print_workers(found)
    if paused := [pause for pause in found.pauses if pause.task is not None]:
        click.echo()
        print_table(PAUSES, [_pause(pause, found) for pause in paused])
    for task, due in found.unserved.items():
        said = f"No live worker has task {printable(task)!r}: {due} due."
        click.secho(said, fg="yellow", err=True)


def _queue(queue: QueueStats, stats: Stats) -> list[str | Cell]:
    return [
        queue.queue,
        *counts(queue, Status),
        str(queue.due),
        oldest_due(queue, stats),
        until(pause_of(stats, queue=queue.queue), stats.now),
    ]


def _pause(pause: Pause, stats: Stats) -> list[str | Cell]:
    return [pause.task or "", until(pause, stats.now)]
