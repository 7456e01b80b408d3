"""`rowlock jobs cancel|replay|run|move|delete`: the verbs on jobs, one or very many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta

import click

from rowlock._answers import Answer, Answers
from rowlock._app import App
from rowlock._choice import Where
from rowlock._durations import span
from rowlock._errors import UsageError
from rowlock._job import Status
from rowlock._operations import CUT
from rowlock._options import HIGHEST_PRIORITY, LOWEST_PRIORITY
from rowlock._pace import Pace, step_of
from rowlock._words import count
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
    is_agreed,
    print_preview,
    selection_options,
)

Call = Callable[[App, Where], Answers]
# What a verb comes to, for so many jobs.
Plan = Callable[[int], str | None]

CANCEL = Verb(name="cancel", is_="cancel")
REPLAY = Verb(name="replay", is_="replay")
RUN = Verb(name="run", is_="move")
MOVE = Verb(name="move", is_="move")
DELETE = Verb(name="delete", is_="delete", always_asks=True)

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
    if rate is not None and spread is not None:
        msg = "Say either --rate or --spread, not both."
        raise UsageError(msg)

    def call(app: App, where: Where) -> Answers:
        return app.replay_sync(
            where, rate=rate, spread=spread, delay=delay, queue=to_queue
        )

    def plan(count: int) -> str | None:
        last = Pace(count, step_of(rate, spread, count), delay).last
        if not last:
            return None
        return f"The last of them is due in {span(last.total_seconds())}."

    return _act(REPLAY, selection, call, output, place, plan=plan)


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

    def call(app: App, where: Where) -> Answers:
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

    def call(app: App, where: Where) -> Answers:
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
    verb: Verb,
    selection: Selection,
    call: Call,
    output: Output,
    place: Place,
    *,
    plan: Plan = lambda _count: None,
) -> int:
    where = selection.of(verb)
    with opened(place) as app:
        if selection.dry_run:
            found = app.preview_sync(verb.is_, where)
            planned = plan(found.count)
            print_preview(found, verb, output)
            _say(planned)
            return DONE
        if not is_agreed(app, verb, selection):
            click.echo("Nothing was done.", err=True)
            return FAILED
        with telling_progress(app, verb.name):
            answers = call(app, where)
    if answers.is_cut:
        click.echo(CUT, err=True)
    _print_answers(answers, output, counted=not selection.ids)
    _say(plan(len(answers)) if answers.done else None)
    return _code(answers)


def _say(sentence: str | None) -> None:
    if sentence is not None:
        click.echo(sentence, err=True)


def _print_answers(answers: Answers, output: Output, *, counted: bool) -> None:
    documents = [{**asdict(answer), "answer": str(answer)} for answer in answers]
    if output.prints(documents, documents):
        return
    if not answers:
        click.echo("No job fits.", err=True)
    if counted:
        for words, number in Counter(map(_words, answers)).most_common():
            click.echo(f"{count(number, 'job')}: {words}")
    else:
        for answer in answers:
            click.echo(f"{answer.job_id}  {_words(answer)}")


def _code(answers: Answers) -> int:
    if all(answer.done for answer in answers):
        return DONE
    found = any(answer.done or answer.status is not None for answer in answers)
    return FAILED if found else NOT_FOUND


def _words(answer: Answer) -> str:
    if answer.done and answer.status is Status.RUNNING:
        return "asked to stop; it is cancelled when its handler ends"
    return str(answer)
