"""`rowlock migrate`: brings a database to what this version of Rowlock works with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import click

from rowlock._app import App
from rowlock._errors import UsageError
from rowlock.cli.database import opened
from rowlock.cli.documents import Output
from rowlock.cli.parameters import (
    Place,
    output_options,
    place_options,
    read_name,
    read_names,
)
from rowlock.cli.table import printable

if TYPE_CHECKING:
    from rowlock._store import Migration, Store


class Owned(Protocol):
    """What a store has beside `Store`, where its schema has an owner and roles."""

    async def migrate(
        self,
        *,
        dry_run: bool = False,
        worker_role: str | None = None,
        producer_roles: Sequence[str] = (),
    ) -> Sequence[Migration]:
        """Apply what is pending, and grant these roles what they need."""
        ...

    async def doubt(self, worker_role: str) -> str | None:
        """Say why this role binds no worker, None where it does."""
        ...

    async def script(
        self,
        *,
        since: int | None = None,
        worker_role: str | None = None,
        producer_roles: Sequence[str] = (),
    ) -> str:
        """Write what `migrate` would do, for the database's own client."""
        ...


class Roles(NamedTuple):
    """The roles that are named on the command line."""

    worker: str | None
    producers: tuple[str, ...]


@click.command(
    epilog="Example: rowlock migrate --database postgresql:///shop",
    short_help="Bring the database up to date.",
)
@click.option(
    "--sql",
    "as_sql",
    is_flag=True,
    default=False,
    help="Print what would run, as a script for psql, and run nothing.",
)
@click.option(
    "--since",
    type=click.IntRange(min=0),
    default=None,
    metavar="VERSION",
    help="With --sql: what comes after this version (0 is all), without a look at the"
    " database.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    default=False,
    help="Name what would run, and run nothing.",
)
@click.option(
    "--worker-role",
    default=None,
    callback=read_name,
    metavar="ROLE",
    help="A role that is to work jobs, and to own the history; it must exist.",
)
@click.option(
    "--producer-role",
    "producer_roles",
    multiple=True,
    default=(),
    callback=read_names,
    metavar="ROLE",
    help="A role that is to call the SQL functions and nothing else; may be given"
    " several times.",
)
@output_options
@place_options
def migrate(
    *,
    as_sql: bool,
    since: int | None,
    dry_run: bool,
    worker_role: str | None,
    producer_roles: tuple[str, ...] | None,
    output: Output,
    place: Place,
) -> None:
    """
    Bring the schema of a database to the version that this Rowlock needs.

    All that is pending is applied, or nothing; where nothing is, nothing happens.
    Workers of the version before go on meanwhile. Run it as the owner of the schema,
    or have the owner run what --sql prints.
    """
    if since is not None and not as_sql:
        msg = "--since goes with --sql."
        raise UsageError(msg)
    if as_sql and dry_run:
        msg = "Say either --sql or --dry-run: both run nothing."
        raise UsageError(msg)
    roles = Roles(worker_role, producer_roles or ())
    with opened(place) as app:
        if as_sql:
            _print_script(app, roles, since, output)
        else:
            _run(app, roles, output, dry_run=dry_run)
        # What --since prints is made without a look at the database.
        if roles.worker is not None and since is None:
            _warn(app, roles.worker)


def _print_script(app: App, roles: Roles, since: int | None, output: Output) -> None:
    script = app._portal.run(
        _owned(app._store).script(
            since=since, worker_role=roles.worker, producer_roles=roles.producers
        ),
        "rowlock migrate --sql",
    )
    if not output.prints({"database": app.url, "sql": script}):
        click.echo(script or "-- There is nothing to do.\n", nl=False)


def _run(app: App, roles: Roles, output: Output, *, dry_run: bool) -> None:
    running = (
        _owned(app._store).migrate(
            dry_run=dry_run, worker_role=roles.worker, producer_roles=roles.producers
        )
        if any(roles)
        else app._store.migrate(dry_run=dry_run)
    )
    migrations = app._portal.run(running, "rowlock migrate")
    listed = [{"version": each.version, "name": each.name} for each in migrations]
    told = {
        "database": app.url,
        "pending" if dry_run else "applied": listed,
        "worker_role": roles.worker,
        "producer_roles": roles.producers,
    }
    if output.prints(told):
        return
    would = "would be " if dry_run else ""
    for each in migrations:
        click.echo(f"{each.version:04} {each.name}: {would}applied")
    for role in filter(None, (roles.worker, *roles.producers)):
        click.echo(f"role {role}: {would}granted")
    if not migrations and not any(roles):
        click.echo(f"{app.url} is up to date.", err=True)


def _warn(app: App, worker: str) -> None:
    """Tell of a worker's role that can do what only the owner should."""
    doubt = app._portal.run(_owned(app._store).doubt(worker), "rowlock migrate")
    if doubt is not None:
        click.echo(f"Warning: {printable(doubt)}", err=True)


def _owned(store: Store | Owned) -> Owned:
    if not hasattr(store, "script"):
        msg = (
            "An SQLite file has no roles and no owner, and is migrated when it is"
            " opened: leave out --sql, --worker-role and --producer-role."
        )
        raise UsageError(msg)
    return cast("Owned", store)
