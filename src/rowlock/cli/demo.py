"""`rowlock demo`: a job's whole life in a few seconds, on real payloads."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import click

from rowlock._errors import UsageError
from rowlock.cli.parameters import colour_option, read_seconds

# The name that `App()` takes, so that commands in a kept folder need no --database.
FILE = "rowlock.db"
SHORTEST_S, LONGEST_S = 2, 3600

NEXT = """\
In an empty folder, put this into shop.py:

    from rowlock import App

    app = App()

    @app.task
    def greet(name: str) -> None:
        print("Hello", name)

and there:

    rowlock enqueue -A shop:app greet '{"name": "Ada"}'
    rowlock worker shop:app          # Ctrl-C stops it
    rowlock jobs list
    rowlock jobs show 1
"""


@click.command(
    epilog="Example: rowlock demo --seconds 10 --keep",
    short_help="Show a job's whole life; needs nothing.",
)
@click.option(
    "--seconds",
    default="20",
    show_default=True,
    callback=read_seconds,
    metavar="DURATION",
    help="How long it runs, 2 to 3600.",
)
@click.option(
    "--keep",
    is_flag=True,
    default=False,
    help="Leave the database, to look at it afterwards.",
)
@colour_option
def demo(*, seconds: timedelta, keep: bool) -> None:
    """
    Show a job's whole life: jobs that succeed, recover, snooze, run long and die.

    It runs a worker on a database in a temporary folder, feeds it with webhooks as
    GitHub sends them, shows a dead letter, mends its cause and replays it. All of it
    goes through the public API; rowlock/cli/demo_app.py is the app.
    """
    import asyncio

    from rowlock.cli.demo_play import play

    if not SHORTEST_S <= seconds.total_seconds() <= LONGEST_S:
        said = f"{seconds.total_seconds():g}"
        msg = f"--seconds takes {SHORTEST_S} to {LONGEST_S}; it was {said}."
        raise UsageError(msg)
    # The lines below tell everything that the log would.
    logging.getLogger("rowlock").addHandler(logging.NullHandler())
    with _folder(keep=keep) as folder:
        url = f"sqlite:///{folder / FILE}"
        asyncio.run(play(url, seconds.total_seconds()))
        _say_what_next(folder if keep else None)


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="rowlock-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _say_what_next(kept: Path | None) -> None:
    click.secho("What next", bold=True)
    click.echo()
    if (path := _path_to_add()) is not None:
        click.echo(f'    export PATH="{path}:$PATH"\n')
    if kept is not None:
        click.echo(
            f"The database is kept. Look at it:\n\n    cd {kept}\n"
            "    rowlock jobs list\n    rowlock stats\n"
        )
    else:
        click.echo("`rowlock demo --keep` leaves its database to look at.\n")
    click.echo(NEXT, nl=False)


def _path_to_add() -> Path | None:
    """Tell the folder that has to be on the PATH for `rowlock` to be found later."""
    import shutil

    scripts = Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin")
    found = shutil.which("rowlock")
    is_lasting = (
        sys.prefix == sys.base_prefix
        or os.environ.get("VIRTUAL_ENV") == sys.prefix
        or (found is not None and Path(found).parent != scripts)
    )
    # A script may have put it on the PATH for itself only, as scripts/demo does.
    return None if is_lasting or found is None else scripts
