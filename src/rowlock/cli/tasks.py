"""`rowlock tasks`: which there are, who runs them, and pausing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import click

from rowlock._answers import Overview, Pause, TaskStats
from rowlock._app import App
from rowlock._dead_letters import ReplayState
from rowlock._durations import relative, span
from rowlock._job import JSON
from rowlock.cli import completion
from rowlock.cli.database import asked, opened
from rowlock.cli.documents import Output
from rowlock.cli.overview import due_tasks, overview
from rowlock.cli.parameters import (
    Place,
    output_options,
    place_options,
    read_name,
)
from rowlock.cli.pauses import (
    pause_and_print,
    pause_of,
    pause_options,
    print_resume,
    until,
)
from rowlock.cli.table import Cell, Column, print_table

COLUMNS = (
    Column("TASK", may_shrink=True),
    Column("QUEUE", may_shrink=True),
    Column("DUE", is_number=True),
    Column("WORKERS", is_number=True),
    Column("LAST SEEN"),
    Column("PAUSED", may_shrink=True),
    Column("REPLAYED WHEN", may_shrink=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """
    A task: its jobs that are due, the live workers that have it, its pause.

    What it is as apps and workers know it is None where none has told of it.
    `replay_rule` is by which its dead letters go back automatically.
    """

    task: str
    due: int
    workers: int
    paused: Pause | None
    queue: str | None
    defaults: Mapping[str, JSON] | None
    seen_at: datetime | None
    replay_rule: ReplayState | None


@click.group(epilog="Example: rowlock tasks pause send_receipt --for 10m")
def tasks() -> None:
    """List the tasks, pause and resume them."""


@tasks.command(
    "list",
    epilog="Example: rowlock tasks list -A shop:app",
    short_help="List the tasks, and who runs them.",
)
@output_options
@place_options
def list_(output: Output, *, place: Place) -> None:
    """
    List the tasks: jobs that are due, live workers that have it, and pauses.

    Where a probe decides when dead letters are replayed, it says what it said last.
    They are those that apps and workers have told of, each at its start and hourly,
    with when they were last seen; those of due jobs; and with -A those of the app.
    """
    with opened(place) as app:
        seen = overview(app)
        found = _all(app, seen, due_tasks(app), _rules(app))
    if output.prints(found, found):
        return
    if found:
        print_table(COLUMNS, [_row(each, seen.now) for each in found])
    else:
        click.echo(
            "No tasks: no app or worker has told of one, and no job is due.", err=True
        )


@tasks.command(
    epilog='Example: rowlock tasks pause send_receipt --reason "mail is down"',
    short_help="Claim no more jobs of a task.",
)
@click.argument("task", callback=read_name, shell_complete=completion.tasks)
@pause_options
@output_options
@place_options
def pause(
    task: str,
    output: Output,
    *,
    for_: timedelta | None,
    reason: str | None,
    place: Place,
) -> None:
    """
    Claim no more jobs of TASK, until it is resumed or the time is over.

    What runs goes on, and jobs can be enqueued. A second pause replaces the first.
    """
    with opened(place) as app:
        pause = Pause(task=task, reason=reason)
        names = completion.task_names
        pause_and_print(app, pause, output, for_=for_, names=names)


@tasks.command(
    epilog="Example: rowlock tasks resume send_receipt",
    short_help="Claim jobs of a task again.",
)
@click.argument("task", callback=read_name, shell_complete=completion.tasks)
@output_options
@place_options
def resume(task: str, output: Output, *, place: Place) -> None:
    """Claim jobs of TASK again; where it isn't paused, nothing happens."""
    with opened(place) as app:
        was_paused = app.resume_sync(task=task)
    print_resume("task", task, output, was_paused=was_paused)


def _rules(app: App) -> dict[str, ReplayState]:
    """Give the rules that workers have followed, and those of the app."""
    told = asked(app, lambda store: store.dead_letters.rules())
    own = {
        rule.task: ReplayState(
            task=rule.task, every=rule.every, limit=rule.limit, rate=rule.rate
        )
        for rule in app._replay_rules.values()
    }
    return own | {rule.task: rule for rule in told}


def _all(
    app: App,
    seen: Overview,
    waiting: Iterable[TaskStats],
    rules: Mapping[str, ReplayState],
) -> list[Known]:
    from rowlock._register import task_infos

    due: Counter[str] = Counter()
    for each in waiting:
        due[each.task] += each.due
    workers = Counter(task for worker in seen.workers for task in worker.tasks)
    paused = {pause.task for pause in seen.pauses if pause.task is not None}
    told = {
        info.name: info
        for info in (
            *task_infos(app.tasks.values(), app.max_payload),
            *seen.registered,
        )
    }
    return [
        Known(
            task=task,
            due=due[task],
            workers=workers[task],
            paused=pause_of(seen, task=task),
            replay_rule=rules.get(task),
            queue=told[task].queue if task in told else None,
            defaults=told[task].defaults if task in told else None,
            seen_at=told[task].seen_at if task in told else None,
        )
        for task in sorted({*told, *due, *workers, *paused, *rules})
    ]


def _row(known: Known, now: datetime) -> list[str | Cell]:
    # Jobs that nobody will run are what one looks for here.
    is_unserved = known.due > 0 and known.workers == 0
    seen = "never" if known.seen_at is None else relative(known.seen_at, now)
    return [
        known.task,
        known.queue or "",
        str(known.due),
        Cell(str(known.workers), "red" if is_unserved else None),
        seen,
        until(known.paused, now),
        "" if known.replay_rule is None else said(known.replay_rule, now),
    ]


def said(rule: ReplayState, now: datetime) -> str:
    """Say by which rule dead letters are replayed, and what its probe said last."""
    every = f"probe passes, every {span(rule.every.total_seconds())}"
    if rule.probed_at is None:
        return f"{every}; not asked yet"
    when = relative(rule.probed_at, now)
    if rule.passed:
        return f"{every}; passed {when}, {rule.replayed or 0} replayed"
    return f"{every}; didn't pass {when}{f': {rule.error}' if rule.error else ''}"
