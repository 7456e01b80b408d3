"""`rowlock`: the group of all commands, and what every one of them ends with."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

import rowlock
from rowlock._log import UNHEARD
from rowlock.cli import colour
from rowlock.cli.copy import copy
from rowlock.cli.demo import demo
from rowlock.cli.doctor import doctor
from rowlock.cli.enqueue import enqueue
from rowlock.cli.errors import INTERRUPTED, USAGE, exit_code, sentence
from rowlock.cli.health import health
from rowlock.cli.jobs import jobs
from rowlock.cli.migrate import migrate
from rowlock.cli.parameters import colour_option
from rowlock.cli.queues import queues
from rowlock.cli.stats import stats
from rowlock.cli.tasks import tasks
from rowlock.cli.worker import worker
from rowlock.cli.workers import workers


class CommandLine(click.Group):
    """A group whose errors are sentences, and whose commands return exit codes."""

    # Click's own signature has more that nobody here passes.
    def main(
        self,
        args: Sequence[str] | None = None,
        *rest: Any,  # noqa: ANN401
        **extra: Any,  # noqa: ANN401
    ) -> NoReturn:
        """Run it, and end the process with the exit code."""
        extra["standalone_mode"] = False
        _open_closed()
        UNHEARD.setLevel(logging.WARNING)
        colour.begin()
        # A terminal that can't show a letter shows a mark for it instead of nothing.
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        try:
            code = super().main(args, *rest, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = USAGE
        except click.Abort:
            code = INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the one place where all of them end
            said = f"{click.style('Error:', fg='red')} {sentence(error)}"
            click.echo(said, err=True, color=colour.wanted())
            code = exit_code(error)
        sys.exit(code or 0)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; `--debug` shows where an error came from."""
        try:
            return super().invoke(ctx)
        except Exception:
            if ctx.params["debug"]:
                traceback.print_exc()
            raise


def _open_closed() -> None:
    """Let a stream that the shell has closed (`>&-`) be one that leads nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8"))


@click.group(
    cls=CommandLine,
    name="rowlock",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? `rowlock demo` shows a job's whole life, and needs nothing.",
)
@click.version_option(rowlock.__version__, message="rowlock %(version)s")
@click.option(
    "--debug",
    is_flag=True,
    default=False,
    help="Show where an error came from, with its traceback.",
)
@colour_option
@click.pass_context
def main(ctx: click.Context, *, debug: bool) -> None:  # noqa: ARG001 - read by invoke
    """A job queue for Python that lives in the database you already have."""
    ctx.color = colour.wanted()


for command in (
    demo,
    worker,
    migrate,
    copy,
    enqueue,
    jobs,
    queues,
    tasks,
    workers,
    stats,
    doctor,
    health,
):
    main.add_command(command)
