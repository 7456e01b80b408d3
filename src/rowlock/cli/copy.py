"""`rowlock copy`: everything from one database to another."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rowlock._app import App
from rowlock._errors import StoreUnavailable
from rowlock._words import count
from rowlock.cli.database import file_of, refuse_memory
from rowlock.cli.documents import Output
from rowlock.cli.parameters import output_options, read_name

if TYPE_CHECKING:
    from rowlock._copying import Survey
    from rowlock._store import Store


@click.command(
    epilog="Example: rowlock copy --from sqlite:///rowlock.db --to postgresql:///shop",
    short_help="Copy everything to another database.",
)
@click.option(
    "--from",
    "source",
    required=True,
    callback=read_name,
    metavar="URL",
    help="The database to copy; nothing changes in it.",
)
@click.option(
    "--to",
    "target",
    required=True,
    callback=read_name,
    metavar="URL",
    help="The database to copy to, without jobs; Postgres' is migrated before.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    default=False,
    help="See whether it can be done, count the jobs, and write nothing.",
)
@output_options
def copy(*, source: str, target: str, dry_run: bool, output: Output) -> None:
    """
    Copy all jobs with their ids, keys and stories, the pauses and the known tasks.

    Nothing may run on either database: stop workers and all that enqueues. It is done
    whole or not at all, and can be repeated where it was not. To Postgres it goes as
    the owner of the schema, after `rowlock migrate`.
    """
    import asyncio

    leaving, arriving = App(source), App(target)
    for app in (leaving, arriving):
        refuse_memory(app)
    if _is_missing(leaving):
        msg = f"There is no database {file_of(leaving)}: correct --from."
        raise StoreUnavailable(msg)
    running = _run(
        leaving._store,
        arriving._store,
        is_missing=_is_missing(arriving),
        dry_run=dry_run,
    )
    # Not in another thread: a Ctrl-C has to wait until all is rolled back.
    copied = asyncio.run(running)
    _print(copied, leaving, arriving, output, dry_run=dry_run)


async def _run(
    source: Store, target: Store, *, is_missing: bool, dry_run: bool
) -> Survey:
    from rowlock import _copy

    try:
        if dry_run:
            # Looking must not make a file.
            return await _copy.preview(source, None if is_missing else target)
        return await _copy.copy(source, target, _show_progress)
    finally:
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", nl=False, err=True)
        await target.close()
        await source.close()


def _is_missing(app: App) -> bool:
    file = file_of(app)
    return file is not None and not file.exists()


def _show_progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done:,} of {total:,} jobs", nl=False, err=True)


def _print(
    copied: Survey, source: App, target: App, output: Output, *, dry_run: bool
) -> None:
    told = {
        "from": source.url,
        "to": target.url,
        "dry_run": dry_run,
        "total": copied.total,
        "jobs": copied.counts,
        "last_id": copied.last_id,
        "pauses": len(copied.pauses),
        "tasks": len(copied.tasks),
    }
    if output.prints(told):
        return
    for status, number in copied.counts.items():
        if number:
            click.echo(f"{number:,} {status}")
    done = "Nothing was done: this would copy" if dry_run else "Copied"
    click.echo(
        f"{done} {count(copied.total, 'job')},"
        f" {count(len(copied.pauses), 'pause')} and"
        f" {count(len(copied.tasks), 'task')} from {source.url} to {target.url}."
    )
