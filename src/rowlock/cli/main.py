"""
`rowlock`: the group of all commands, and the one place where an error becomes a
sentence and an exit code.

0 done, 1 failed, 2 usage, 3 not found, 4 store out of reach or schema not served, 130
interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import click

import rowlock
from rowlock._errors import (
    ConfigError,
    JobNotFound,
    PayloadError,
    RowlockError,
    StoreError,
    TaskNotFound,
    UsageError,
)
from rowlock.cli.colour import wanted
from rowlock.cli.demo import demo
from rowlock.cli.enqueue import enqueue
from rowlock.cli.jobs import jobs
from rowlock.cli.stats import stats
from rowlock.cli.worker import worker

FAILED, USAGE, NOT_FOUND, STORE, INTERRUPTED = 1, 2, 3, 4, 130

# The first that fits counts: TaskNotFound is a ConfigError too.
EXIT_CODES: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
    ((JobNotFound, TaskNotFound), NOT_FOUND),
    ((StoreError,), STORE),
    ((ConfigError, UsageError, PayloadError, click.UsageError), USAGE),
)


class CommandLine(click.Group):
    """A group whose errors are sentences, and whose commands return exit codes."""

    def main(
        self, args: Sequence[str] | None = None, *rest: Any, **extra: Any
    ) -> Any:
        """Run it, and end the process with the exit code."""
        extra["standalone_mode"] = False
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
            click.echo(f"{click.style('Error:', fg='red')} {sentence(error)}", err=True)
            code = exit_code(error)
        sys.exit(code or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; `--debug` shows where an error came from."""
        try:
            return super().invoke(ctx)
        except Exception:
            if ctx.params["debug"]:
                traceback.print_exc()
            raise


def exit_code(error: BaseException) -> int:
    """Tell the exit code of an error."""
    error = leaf(error)
    for kinds, code in EXIT_CODES:
        if isinstance(error, kinds):
            return code
    return FAILED


def sentence(error: BaseException) -> str:
    """Say an error in one sentence, with what to do."""
    error = leaf(error)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = error.format_message().rstrip()
        return f"{message} (See {error.ctx.command_path} --help.)"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, RowlockError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}."
    return (
        f"Rowlock met something that it didn't expect ({type(error).__name__}: {error});"
        " `rowlock --debug ...` shows where."
    )


def leaf(error: BaseException) -> BaseException:
    """Find the first error inside a group of them; itself where it is none."""
    while isinstance(error, BaseExceptionGroup):
        error = next(iter(_by_weight(error.exceptions)))
    return error


def _by_weight(errors: Sequence[BaseException]) -> Iterator[BaseException]:
    """Put those that Rowlock can explain first."""
    yield from sorted(errors, key=lambda error: not isinstance(error, RowlockError))


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
@click.pass_context
def main(ctx: click.Context, *, debug: bool) -> None:  # noqa: ARG001 - read by invoke
    """A job queue for Python that lives in the database you already have."""
    ctx.color = wanted()


for command in (demo, worker, enqueue, jobs, stats):
    main.add_command(command)
