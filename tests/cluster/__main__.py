"""
Start a Postgres, print the URL of a database in it, and end it at Ctrl-C.

    python -m tests.cluster --version 15
    python -m tests.cluster --fsync     # for benchmarks: a commit waits for the disk
"""

from __future__ import annotations

import signal
import sys

import click

from tests.cluster.binaries import NoPostgres, find
from tests.cluster.databases import Databases
from tests.cluster.membership import own
from tests.cluster.server import ClusterFailed


@click.command()
@click.option("--fsync", is_flag=True, help="Wait for the disk at each commit.")
@click.option("--version", "choice", default="", help="embedded, system, 15, 18 ...")
def main(*, fsync: bool, choice: str) -> None:
    """Start a Postgres and print its URL; Ctrl-C ends it and removes its data."""
    # Both are waited for below, so that neither cuts a start or an end short.
    ends = {signal.SIGINT, signal.SIGTERM}
    try:
        binaries = find(choice)
        with own(binaries, fsync=fsync) as cluster:
            signal.pthread_sigmask(signal.SIG_BLOCK, ends)
            databases = Databases(admin_url=cluster.url, session="", cluster=cluster)
            click.echo(databases.empty("rowlock"))
            click.echo(
                f"Postgres {cluster.version} ({binaries.source}), "
                f"fsync {'on' if fsync else 'off'}, log in {cluster.log}. "
                "Ctrl-C ends it and removes its data.",
                err=True,
            )
            signal.sigwait(ends)
    except (NoPostgres, ClusterFailed, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
