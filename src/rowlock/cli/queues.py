"""`rowlock queues`: what waits in each, and pausing them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import click

from rowlock._answers import Pause, QueueStats, Stats
from rowlock._durations import relative
from rowlock._job import Status
from rowlock.cli import colour, completion
from rowlock.cli.database import opened
from rowlock.cli.documents import Output, fields_of, plain
from rowlock.cli.parameters import (
    Place,
    output_options,
    place_options,
    read_name,
)
from rowlock.cli.pauses import (
    pause_and_print,
    pause_of,
    pause_options,
    print_resume,
    until,
)
from rowlock.cli.table import Cell, Column, print_table

# Of those that ended well only the rate: how many are still there says little.
SHOWN = (Status.RUNNING, Status.FAILED)

COLUMNS = (
    Column("QUEUE", may_shrink=True),
    Column("DUE", is_number=True),
    Column("SCHEDULED", is_number=True),
    *(Column(status.upper(), is_number=True) for status in SHOWN),
    Column("OLDEST DUE"),
    Column("RATE", is_number=True),
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
    """
    List the queues: how many jobs are due, scheduled, running and dead letters.

    With since when the oldest is due, how many a second ended within the last minute,
    and pauses; --json has the counts of every status.
    """
    with opened(place) as app:
        stats = app.stats_sync()
    told = [
        {
            **fields_of(queue),
            "scheduled": queue.scheduled,
            "paused": plain(pause_of(stats, queue=queue.queue)),
        }
        for queue in all_queues(stats)
    ]
    if output.prints(told, told):
        return
    if told:
        print_table(COLUMNS, [_row(queue, stats) for queue in all_queues(stats)])
    else:
        click.echo("No jobs.", err=True)


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
        pause = Pause(queue=queue, reason=reason)
        names = completion.queue_names
        pause_and_print(app, pause, output, for_=for_, names=names)


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


def all_queues(stats: Stats) -> list[QueueStats]:
    """Give the queues with jobs, and those without that are paused."""
    found = {queue.queue: queue for queue in stats.queues}
    for pause in stats.pauses:
        if pause.queue is not None and pause.queue not in found:
            found[pause.queue] = QueueStats(
                queue=pause.queue, counts={}, due=0, oldest_due=None
            )
    return sorted(found.values(), key=lambda queue: queue.queue)


def _row(queue: QueueStats, stats: Stats) -> list[str | Cell]:
    return [
        queue.queue,
        str(queue.due),
        str(queue.scheduled),
        *counts(queue, SHOWN),
        oldest_due(queue, stats),
        f"{queue.rate:.3g}/s",
        until(pause_of(stats, queue=queue.queue), stats.now),
    ]


def counts(queue: QueueStats, statuses: Iterable[Status]) -> list[Cell]:
    """Give the cells of a queue's counts, coloured where there are any."""
    return [
        Cell(str(count), colour.OF_STATUS[status] if count else None)
        for status in statuses
        for count in [queue.counts[status]]
    ]


def oldest_due(queue: QueueStats, stats: Stats) -> str:
    """Say since when the oldest job of a queue is due."""
    return "" if queue.oldest_due is None else relative(queue.oldest_due, stats.now)
