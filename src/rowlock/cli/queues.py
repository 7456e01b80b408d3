"""`rowlock queues`: what waits in each, and pausing them."""

from __future__ import annotations

from datetime import timedelta

import click

from rowlock._answers import Pause, QueueStats, Stats
from rowlock._job import Status
from rowlock.cli import colour, completion
from rowlock.cli.database import opened
from rowlock.cli.documents import Output, plain
from rowlock.cli.instants import relative
from rowlock.cli.parameters import (
    Place,
    output_options,
    place_options,
    read_name,
)
from rowlock.cli.pauses import pause_of, pause_options, print_pause, print_resume, until
from rowlock.cli.table import Cell, Column, print_table

COLUMNS = (
    Column("QUEUE", may_shrink=True),
    *(Column(status.upper(), is_number=True) for status in Status),
    Column("DUE", is_number=True),
    Column("OLDEST DUE"),
    Column("PAUSED", may_shrink=True),
)


@click.group(epilog="Example: rowlock queues pause mail --for 10m")
def queues() -> None:
    """List the queues, pause and resume them."""


@queues.command(
    "list",
    epilog="Example: rowlock queues list --json",
    short_help="List the queues with what waits in them.",
)
@output_options
@place_options
def list_(output: Output, *, place: Place) -> None:
    """List the queues: jobs by status, how many are due, since when, and pauses."""
    with opened(place) as app:
        stats = app.stats_sync()
    told = [
        {
            **_fields(queue),
            "paused": plain(pause_of(stats, queue=queue.queue)),
        }
        for queue in _all(stats)
    ]
    if not output.prints(told, told):
        print_queues(stats)


@queues.command(
    epilog='Example: rowlock queues pause mail --for 10m --reason "provider is down"',
    short_help="Claim no more jobs of a queue.",
)
@click.argument("queue", callback=read_name, shell_complete=completion.queues)
@pause_options
@output_options
@place_options
def pause(
    queue: str,
    output: Output,
    *,
    for_: timedelta | None,
    reason: str | None,
    place: Place,
) -> None:
    """
    Claim no more jobs of QUEUE, until it is resumed or the time is over.

    What runs goes on, and jobs can be enqueued. A second pause replaces the first.
    """
    with opened(place) as app:
        known = completion.queue_names(app)
        app.pause_sync(queue=queue, for_=for_, reason=reason)
        made = pause_of(app.stats_sync(), queue=queue)
    print_pause("queue", queue, made, known, output)


@queues.command(
    epilog="Example: rowlock queues resume mail",
    short_help="Claim jobs of a queue again.",
)
@click.argument("queue", callback=read_name, shell_complete=completion.queues)
@output_options
@place_options
def resume(queue: str, output: Output, *, place: Place) -> None:
    """Claim jobs of QUEUE again; where it isn't paused, nothing happens."""
    with opened(place) as app:
        was_paused = app.resume_sync(queue=queue)
    print_resume("queue", queue, output, was_paused=was_paused)


def print_queues(stats: Stats) -> None:
    """Print the queues for people."""
    if found := _all(stats):
        print_table(COLUMNS, [_row(queue, stats) for queue in found])
    else:
        click.echo("No jobs.", err=True)


def _all(stats: Stats) -> list[QueueStats]:
    """Give the queues with jobs, and those without that are paused."""
    found = {queue.queue: queue for queue in stats.queues}
    for pause in stats.pauses:
        if pause.queue is not None and pause.queue not in found:
            found[pause.queue] = QueueStats(
                queue=pause.queue, counts={}, due=0, oldest_due=None
            )
    return sorted(found.values(), key=lambda queue: queue.queue)


def _fields(queue: QueueStats) -> dict[str, object]:
    told = plain(queue)
    return dict(told) if isinstance(told, dict) else {}


def _row(queue: QueueStats, stats: Stats) -> list[str | Cell]:
    counts = [
        Cell(str(count), colour.OF_STATUS[status] if count else None)
        for status in Status
        for count in [queue.counts[status]]
    ]
    oldest = "" if queue.oldest_due is None else relative(queue.oldest_due, stats.now)
    paused: Pause | None = pause_of(stats, queue=queue.queue)
    return [queue.queue, *counts, str(queue.due), oldest, until(paused, stats.now)]
