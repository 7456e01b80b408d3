"""`rowlock worker`: a process that runs jobs until it is told to stop."""

from __future__ import annotations

import gc
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from rowlock._errors import RowlockError, UsageError
from rowlock.cli import completion, logs
from rowlock.cli.database import refuse_memory
from rowlock.cli.discovery import find_app
from rowlock.cli.errors import exit_code, leaf, sentence
from rowlock.cli.health_server import serving_health
from rowlock.cli.parameters import (
    Address,
    app_option,
    colour_option,
    read_address,
    read_interval,
    read_lease,
    read_limits,
    read_name,
    read_seconds,
    read_weights,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock._app import App
    from rowlock._worker.worker import Worker
    from rowlock.cli.supervised import Supervised

# How long exit hooks, and threads that a handler left behind, may hold up the end.
LONGEST_EXIT_S = 5.0
# More is a slip of the finger, which would take the machine along.
MOST_PROCESSES = 256


class _Options(TypedDict):
    """What the options say of a worker, as `App.worker` takes it."""

    concurrency: int | None
    queues: Mapping[str, int | None] | None
    weights: Mapping[str, int]
    lease: timedelta | None
    shutdown_timeout: timedelta
    cancel_grace: timedelta
    max_stuck: int | None
    blocked_after: timedelta


@click.command(
    epilog="Example: rowlock worker shop:app --queue mail --concurrency 20",
    short_help="Run jobs until stopped.",
)
@click.argument(
    "app",
    metavar="[MODULE:ATTRIBUTE]",
    required=False,
    default=None,
    callback=read_name,
)
@app_option
@click.option(
    "--queue",
    "queues",
    multiple=True,
    default=(),
    callback=read_limits,
    shell_complete=completion.queues,
    metavar="QUEUE[=LIMIT]",
    help="Claim from this queue only, and run so many of its jobs at once; may be given"
    " several times.",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    default=(),
    callback=read_weights,
    shell_complete=completion.queues,
    metavar="QUEUE=WEIGHT",
    help="Start so many jobs of this queue where another, with due jobs too, has one;"
    " 1 to 100.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=None,
    help="How many jobs run at once in a process; else what the limits of its queues"
    " come to, and 5 for those without one.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1, max=MOST_PROCESSES),
    default=1,
    show_default=True,
    help="How many processes run jobs, each with its own --concurrency.",
)
@click.option(
    "--no-supervisor",
    is_flag=True,
    default=False,
    help="Run jobs in this very process, for a debugger; nothing replaces it.",
)
@click.option(
    "--lease",
    default=None,
    callback=read_lease,
    metavar="DURATION",
    help="For how long a claim is exclusive unless renewed; else the app's (300).",
)
@click.option(
    "--shutdown-timeout",
    default="15",
    show_default=True,
    callback=read_seconds,
    metavar="DURATION",
    help="How long stopping may take; two thirds of it wait for running jobs.",
)
@click.option(
    "--cancel-grace",
    default="5",
    show_default=True,
    callback=read_seconds,
    metavar="DURATION",
    help="How long an async handler may take to end once it was cancelled; then it is"
    " stuck. A plain one is at its timeout.",
)
@click.option(
    "--max-stuck",
    type=click.IntRange(min=1),
    default=None,
    help="How many handlers may be stuck before the worker stops, to be replaced; else"
    " four times --concurrency.",
)
@click.option(
    "--blocked-after",
    default="1",
    show_default=True,
    callback=read_interval,
    metavar="DURATION",
    help="For how long a handler may block the event loop before that is logged.",
)
@click.option(
    "--health",
    default=None,
    envvar="ROWLOCK_HEALTH",
    callback=read_address,
    metavar="HOST:PORT",
    help="Serve /health and /ready here; else where ROWLOCK_HEALTH says, if it is set.",
)
@click.option(
    "--log-level",
    type=click.Choice(logs.LEVELS),
    default="info",
    show_default=True,
    help="What is logged.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON object a line.",
)
@colour_option
def worker(
    app: str | None,
    *,
    named_app: str | None,
    processes: int,
    no_supervisor: bool,
    health: Address | None,
    log_level: str,
    log_format: logs.Format,
    **options: Unpack[_Options],
) -> int:
    """
    Run the jobs of an app's tasks until stopped.

    The app is named as module:attribute, as in shop:app for the app in shop.py, with
    -A before it or without; else by ROWLOCK_APP, else in pyproject.toml. SIGTERM and
    Ctrl-C stop it: it claims no more, waits for what runs, and ends with 0, or with 1
    where it had to leave a job behind. A second Ctrl-C ends it at once.

    A supervisor starts the processes and replaces one that dies, whose jobs run again
    at once. SIGHUP replaces them all, one by one, each once its successor claims.
    """
    from rowlock.cli.supervised import supervised
    from rowlock.cli.supervisor import is_possible, supervise

    logs.set_up(log_level, log_format)
    named = _one_of(app, named_app)
    line = supervised()
    if line is None:
        if is_possible() and not no_supervisor:
            within_s = options["shutdown_timeout"].total_seconds()
            return supervise(processes, shutdown_s=within_s, health=health)
        _refuse_several(processes)
    try:
        return _work(named, options, line, health)
    except Exception as error:
        if line is None:
            raise
        # The supervisor says it: it may be the same at every start.
        line.tell_failure(sentence(error))
        raise click.exceptions.Exit(exit_code(error)) from error


def _work(
    named: str | None,
    options: _Options,
    line: Supervised | None,
    health: Address | None,
) -> int:
    import asyncio

    from rowlock._loops import new_loop

    found = find_app(named)
    refuse_memory(found)
    made = found.worker(**options)
    if line is not None:
        line.show(made.health)
    # What is imported by now stays to the end. Looked at again by each collection, it
    # costs a tenth of a short job.
    gc.freeze()
    with (
        serving_health(None if line else health, made.health),
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        within_s = options["shutdown_timeout"].total_seconds()
        return runner.run(_run(found, made, within_s, line))


def _refuse_several(processes: int) -> None:
    if processes > 1:
        msg = (
            "Several processes need a supervisor: leave --no-supervisor out, or start"
            " each by itself. Windows has none, and one process a worker."
        )
        raise UsageError(msg)


def _one_of(app: str | None, named_app: str | None) -> str | None:
    if app is not None and named_app is not None and app != named_app:
        msg = f"Two apps are named, {app} and {named_app}: a worker runs one."
        raise UsageError(msg)
    return app or named_app


async def _run(
    app: App, worker: Worker, shutdown_s: float, line: Supervised | None
) -> int:
    import asyncio

    from rowlock.cli.signals import StopSignals, end_at_once, end_soon, logger

    signals = StopSignals(
        worker._stop_since, within_s=shutdown_s, abandon=worker._abandon
    )
    if line is not None:
        loop = asyncio.get_running_loop()
        line.serve(
            stop=signals.hear,
            recover=lambda lost: asyncio.run_coroutine_threadsafe(
                worker._recover(lost), loop
            ),
        )
    worker.check()  # first, as the opening makes a file where there is none
    await app.open()
    if app._store.is_new:
        logger.warning("%s is new and empty: no job was here before.", app.url)
    if line is not None:
        line.tell_worker(worker.id)
    try:
        abandoned = await worker.run(ends_when_overrun=True)
    except Exception as error:
        if not isinstance(leaf(error), RowlockError):
            # No mistake of the user's: whoever mends it needs to see where.
            logger.critical("The worker failed.", exc_info=True)
        end_soon(exit_code(error), LONGEST_EXIT_S)
        raise
    if abandoned:
        end_at_once(1)
    signals.code = 0
    # First, as a close waits for what a slow disk still has to write.
    end_soon(0, LONGEST_EXIT_S)
    await app.close()
    return 0
