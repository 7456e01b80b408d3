"""`rowlock jobs dead`: dead letters, grouped by what they died of."""

from __future__ import annotations

from datetime import datetime

import click

from rowlock._dead_letters import DeadGroup
from rowlock._durations import relative
from rowlock.cli import completion
from rowlock.cli.database import now_of, opened
from rowlock.cli.documents import Output
from rowlock.cli.parameters import Place, output_options, place_options, read_name
from rowlock.cli.table import Cell, Column, print_table

COLUMNS = (
    Column("FINGERPRINT"),
    Column("TASK", may_shrink=True),
    Column("ERROR", may_shrink=True),
    Column("COUNT", is_number=True),
    Column("FIRST SEEN"),
    Column("LAST SEEN"),
    Column("VERSION", may_shrink=True),
    Column("NEWEST", is_number=True),
)


@click.command(
    epilog="Example: rowlock jobs dead --task send_receipt",
    short_help="Group dead letters by task and error.",
)
@click.option(
    "--task",
    default=None,
    callback=read_name,
    shell_complete=completion.tasks,
    help="Only of this task.",
)
@click.option(
    "--queue",
    default=None,
    callback=read_name,
    shell_complete=completion.queues,
    help="Only of this queue.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="At most so many groups.",
)
@output_options
@place_options
def dead(
    output: Output,
    *,
    task: str | None,
    queue: str | None,
    limit: int,
    place: Place,
) -> None:
    """
    Group dead letters by task and error, those last seen newest first.

    Errors are the same where their type and message are, without the numbers, ids,
    addresses and quoted values in them. VERSION is that of the code that the newest
    died in, and NEWEST its id. `rowlock jobs replay --fingerprint` takes one group.
    """
    with opened(place) as app:
        # One more tells whether there are more.
        found = app.dead_sync(task=task, queue=queue, limit=limit + 1)
        now = now_of(app)
    groups = found[:limit]
    if output.prints(groups, groups):
        return
    if not groups:
        click.echo("No dead letters.", err=True)
        return
    print_table(COLUMNS, [_row(group, now) for group in groups])
    if len(found) > limit:
        click.echo("There are more: --limit shows them.", err=True)


def _row(group: DeadGroup, now: datetime) -> list[str | Cell]:
    return [
        group.fingerprint or "-",
        group.task,
        group.error or "",
        f"{group.count:,}",
        relative(group.first_seen, now),
        relative(group.last_seen, now),
        group.version or "",
        str(group.newest),
    ]
