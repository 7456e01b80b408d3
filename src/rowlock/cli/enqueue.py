"""`rowlock enqueue`: one job from the command line, checked as one from code is."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, get_args

import click

from rowlock._errors import PayloadError, UsageError
from rowlock._job import OnConflict
from rowlock._options import HIGHEST_PRIORITY, LOWEST_PRIORITY
from rowlock.cli import completion
from rowlock.cli.database import file_of, refuse_memory
from rowlock.cli.discovery import find_app
from rowlock.cli.documents import Output
from rowlock.cli.parameters import (
    app_option,
    output_options,
    read_instant,
    read_name,
    read_seconds,
)

if TYPE_CHECKING:
    from rowlock._app import App
    from rowlock._job import NewJob


@click.command(
    epilog="""Example: rowlock enqueue -A shop:app greet '{"name": "Ada"}'""",
    short_help="Enqueue one job.",
)
@click.argument("task", shell_complete=completion.tasks)
@click.argument("payload", default="{}")
@app_option
@click.option(
    "--queue",
    default=None,
    callback=read_name,
    shell_complete=completion.queues,
    help="The queue; else the task's.",
)
@click.option(
    "--priority",
    type=click.IntRange(LOWEST_PRIORITY, HIGHEST_PRIORITY),
    default=None,
    help="-100 to 100, larger first; else the task's.",
)
@click.option(
    "--delay",
    default=None,
    callback=read_seconds,
    metavar="DURATION",
    help="Due so long from now, as in 90, 10m, 2h or 3d.",
)
@click.option(
    "--run-at",
    default=None,
    callback=read_instant,
    metavar="INSTANT",
    help="Due at an instant, as in 2026-01-31T09:00:00Z.",
)
@click.option(
    "--idempotency-key",
    default=None,
    callback=read_name,
    help="The idempotency key: no second job while one of the task has it.",
)
@click.option(
    "--idempotency-for",
    default=None,
    callback=read_seconds,
    metavar="DURATION",
    help="The key stays taken for so long after the job's end, as in 30d.",
)
@click.option(
    "--on-conflict",
    type=click.Choice(get_args(OnConflict)),
    default=None,
    help="If a job has the key: skip (the default), raise where its payload is another,"
    " replace payload and due time of a pending one.",
)
@click.option(
    "--max-attempts",
    type=click.IntRange(1, 2**31 - 1),
    default=None,
    help="How often it may fail; else the task's.",
)
@output_options
def enqueue(
    task: str,
    payload: str,
    named_app: str | None,
    *,
    queue: str | None,
    priority: int | None,
    delay: timedelta | None,
    run_at: datetime | None,
    idempotency_key: str | None,
    idempotency_for: timedelta | None,
    on_conflict: OnConflict | None,
    max_attempts: int | None,
    output: Output,
) -> None:
    """
    Enqueue one job of TASK; prints its id.

    PAYLOAD is a JSON object of the task's arguments ({} unless given, - reads stdin).
    They are checked by the task's annotations, so a job that can't run isn't enqueued.
    """
    if delay is not None and run_at is not None:
        msg = "Say either --delay or --run-at, not both."
        raise UsageError(msg)
    _check_keyed(idempotency_key, idempotency_for or on_conflict)
    app = find_app(named_app)
    refuse_memory(app)
    try:
        found = app.find_task(task)
        with_options = found.options(
            queue=queue,
            priority=priority,
            delay=delay,
            run_at=run_at,
            idempotency_key=idempotency_key,
            idempotency_for=idempotency_for,
            on_conflict=on_conflict,
            max_attempts=max_attempts,
        )
        job = with_options.job(**found.codec.decode(read_payload(payload)))
        (job_id,) = app.enqueue_many_sync([job])
        if app._store.is_new:
            click.echo(f"Made a new, empty database: {file_of(app)}", err=True)
        _tell(app, job, job_id, output)
    finally:
        app.close_sync()


def _check_keyed(key: str | None, said: object) -> None:
    if key is None and said:
        msg = (
            "--idempotency-for and --on-conflict are of a key: say --idempotency-key,"
            " too."
        )
        raise UsageError(msg)


def read_payload(text: str) -> str:
    """
    Read a payload: JSON text of an object.

        >>> read_payload("[1]")
        Traceback (most recent call last):
        ...
        rowlock.PayloadError: The payload must be a JSON object, as in {"n": 1}; it is \
an array.
    """
    if text == "-":
        text = sys.stdin.read()
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_twice
        )
    except json.JSONDecodeError as error:
        msg = (
            f"The payload isn't JSON: {error.msg} at line {error.lineno}, column"
            f" {error.colno}."
        )
        raise PayloadError(msg) from error
    except PayloadError:
        raise
    except ValueError as error:
        msg = f"The payload holds a number that Python won't read: {error}."
        raise PayloadError(msg) from error
    except RecursionError as error:
        msg = "The payload is nested too deeply."
        raise PayloadError(msg) from error
    if not isinstance(value, dict):
        kind = _KINDS[type(value)]
        msg = f'The payload must be a JSON object, as in {{"n": 1}}; it is {kind}.'
        raise PayloadError(msg)
    return text


_KINDS = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _refuse_constant(name: str) -> None:
    msg = f"The payload isn't JSON: it holds {name}, which JSON doesn't have."
    raise PayloadError(msg)


def _refuse_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # JSON allows it and keeps the last: the first would be lost without a word.
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"The payload has {twice!r} twice in one object."
        raise PayloadError(msg)
    return value


def _tell(app: App, job: NewJob, job_id: int | None, output: Output) -> None:
    holder = None if job_id is not None else _holder(app, job)
    told = {"job_id": job_id, "duplicate": job_id is None, "held_by": holder}
    if output.prints(told):
        return
    if job_id is not None:
        click.echo(job_id)
    elif job.on_conflict == "replace" and holder is not None:
        click.echo(
            f"No new job: job {holder} of {job.task!r} holds the key"
            f" {job.idempotency_key!r}, and has this payload now if it was pending.",
            err=True,
        )
    else:
        who = "another job" if holder is None else f"job {holder}"
        click.echo(
            f"A duplicate, nothing was enqueued: {who} of {job.task!r} holds the key"
            f" {job.idempotency_key!r}.",
            err=True,
        )


def _holder(app: App, job: NewJob) -> int | None:
    """Find the job that holds the key, None where nobody does any more."""
    found = app.find_sync(job.task, job.idempotency_key or "")
    is_held = found is not None and (not found.status.is_final or found.key_until)
    return found.id if found is not None and is_held else None
