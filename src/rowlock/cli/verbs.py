"""`rowlock jobs cancel|replay|run|move|delete`: the verbs on jobs, one or very many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta

import click

from rowlock._answers import Answer
from rowlock._app import App
from rowlock._errors import UsageError
from rowlock._job import Status
from rowlock._operations import Where
from rowlock._options import HIGHEST_PRIORITY, LOWEST_PRIORITY
from rowlock.cli import completion
from rowlock.cli.database import opened
from rowlock.cli.documents import Output
from rowlock.cli.errors import DONE, FAILED, NOT_FOUND
from rowlock.cli.parameters import (
    Place,
    output_options,
    place_options,
    read_name,
    read_rate,
    read_seconds,
)
from rowlock.cli.progress import telling_progress
from rowlock.cli.selection import (
    Selection,
    Verb,
    ids,
    is_agreed,
    preview,
    print_preview,
    selection_options,
)

Call = Callable[[App, Where], Sequence[Answer]]

CANCEL = Verb(name="cancel", statuses=(Status.PENDING, Status.RUNNING))
REPLAY = Verb(name="replay", statuses=(Status.FAILED, Status.CANCELLED))
RUN = Verb(name="run", statuses=(Status.PENDING,))
MOVE = Verb(name="move", statuses=(Status.PENDING,))
DELETE = Verb(
    name="delete",
    statuses=(Status.FAILED, Status.CANCELLED, Status.SUCCEEDED),
    always_asks=True,
)


to_queue_option = click.option(
    "--to-queue",
    default=None,
    callback=read_name,
    shell_complete=completion.queues,
    metavar="QUEUE",
    help="The queue they are to be in.",
)


@click.command(
    epilog="Example: rowlock jobs cancel 17 18",
    short_help="Cancel pending and running jobs.",
)
@selection_options
@output_options
@place_options
def cancel(selection: Selection, output: Output, place: Place) -> int:
    """
    Cancel jobs: pending ones at once, running ones as soon as their handler stops.

    Which ones is said by ids or by a filter; by a filter it asks first. Exit code 0
    where all were cancelled, 3 where none of the ids was found, else 1.
    """
    return _act(CANCEL, selection, App.cancel_sync, output, place)


@click.command(
    epilog="Example: rowlock jobs replay --task send_receipt --rate 50/s",
    short_help="Run failed or cancelled jobs again.",
)
@selection_options
@click.option(
    "--rate",
    default=None,
    callback=read_rate,
    metavar="RATE",
    help="At most so many a second, as in 50/s, 100/m or 1000/h.",
)
@click.option(
    "--spread",
    default=None,
    callback=read_seconds,
    metavar="DURATION",
    help="Spread over this time, as in 90, 10m, 2h or 3d.",
)
@click.option(
    "--delay",
    default="0",
    callback=read_seconds,
    metavar="DURATION",
    help="The first is due so long from now, as in 90, 10m, 2h or 3d.",
)
@to_queue_option
@output_options
@place_options
def replay(
    selection: Selection,
    output: Output,
    *,
    rate: float | None,
    spread: timedelta | None,
    delay: timedelta,
    to_queue: str | None,
    place: Place,
) -> int:
    """
    Run failed or cancelled jobs again, with their failures forgotten.

    Which ones is said by ids or by a filter; by a filter it asks first. With --rate or
    --spread they are due one after the other, the oldest first; this command is done
    at once. Stopped half way, it goes on where it is started again. Exit code 0 where
    all were replayed, 3 where none of the ids was found, else 1.
    """

    def call(app: App, where: Where) -> Sequence[Answer]:
        return app.replay_sync(
            where, rate=rate, spread=spread, delay=delay, queue=to_queue
        )

    # Failed and cancelled ones share one pace.
    whole = rate is not None or spread is not None
    return _act(replace(REPLAY, whole=whole), selection, call, output, place)


@click.command(
    epilog="Example: rowlock jobs run 17",
    short_help="Make pending jobs due now.",
)
@selection_options
@output_options
@place_options
def run(selection: Selection, output: Output, place: Place) -> int:
    """
    Make pending jobs due now, whatever delay or backoff they wait for.

    Which ones is said by ids or by a filter; by a filter it asks first. A worker runs
    them, not this command. Exit code 0 where all are due, 3 where none of the ids was
    found, else 1.
    """

    def call(app: App, where: Where) -> Sequence[Answer]:
        return app.move_sync(where, delay=0)

    return _act(RUN, selection, call, output, place)


@click.command(
    epilog="Example: rowlock jobs move 17 18 --to-queue slow --to-priority -10",
    short_help="Give pending jobs another queue, priority or time.",
)
@selection_options
@to_queue_option
@click.option(
    "--to-priority",
    type=click.IntRange(LOWEST_PRIORITY, HIGHEST_PRIORITY),
    default=None,
    help="The priority they are to have, larger first.",
)
@click.option(
    "--delay",
    default=None,
    callback=read_seconds,
    metavar="DURATION",
    help="Due so long from now, as in 90, 10m, 2h or 3d.",
)
@output_options
@place_options
def move(
    selection: Selection,
    output: Output,
    *,
    to_queue: str | None,
    to_priority: int | None,
    delay: timedelta | None,
    place: Place,
) -> int:
    """
    Give pending jobs another queue, another priority, or another time to be due.

    Which ones is said by ids or by a filter; by a filter it asks first. Exit code 0
    where all were moved, 3 where none of the ids was found, else 1.
    """
    if to_queue is None and to_priority is None and delay is None:
        msg = "Say where to: --to-queue, --to-priority or --delay."
        raise UsageError(msg)

    def call(app: App, where: Where) -> Sequence[Answer]:
        return app.move_sync(where, queue=to_queue, priority=to_priority, delay=delay)

    return _act(MOVE, selection, call, output, place)


@click.command(
    epilog="Example: rowlock jobs delete --status succeeded --older-than 1d",
    short_help="Remove finished jobs for good.",
)
@selection_options
@output_options
@place_options
def delete(selection: Selection, output: Output, place: Place) -> int:
    """
    Remove finished jobs for good, with all that they tell.

    Which ones is said by ids or by a filter; it asks first. Pending and running jobs
    stay: cancel them before. Exit code 0 where all were deleted, 3 where none of the
    ids was found, else 1.
    """
    return _act(DELETE, selection, App.delete_sync, output, place)


def _act(
    verb: Verb, selection: Selection, call: Call, output: Output, place: Place
) -> int:
    parts = selection.parts(verb)
    with opened(place) as app:
        if selection.dry_run:
            print_preview(preview(app, verb, selection), output)
            return DONE
        if not is_agreed(app, verb, selection):
            click.echo("Nothing was done.", err=True)
            return FAILED
        with telling_progress(app, verb.name):
            if verb.whole:
                parts = [tuple(job_id for part in parts for job_id in ids(app, part))]
            answers = [answer for part in parts for answer in call(app, part)]
    _print_answers(answers, output, counted=not selection.ids)
    return _code(answers)


def _print_answers(answers: Sequence[Answer], output: Output, *, counted: bool) -> None:
    documents = [{**asdict(answer), "answer": str(answer)} for answer in answers]
    if output.prints(documents, documents):
        return
    if not answers:
        click.echo("No job fits.", err=True)
    if counted:
        for words, count in Counter(map(_words, answers)).most_common():
            click.echo(f"{count:,} job{'s' * (count != 1)}: {words}")
    else:
        for answer in answers:
            click.echo(f"{answer.job_id}  {_words(answer)}")


def _code(answers: Sequence[Answer]) -> int:
    if all(answer.done for answer in answers):
        return DONE
    found = any(answer.done or answer.status is not None for answer in answers)
    return FAILED if found else NOT_FOUND


def _words(answer: Answer) -> str:
    if answer.done and answer.status is Status.RUNNING:
        return "asked to stop; it is cancelled when its handler ends"
    return str(answer)
