"""
What the shell completes beyond commands and options: names of tasks and queues.

They come from the database, and from the app's code where an app is named. Whatever
goes wrong there completes nothing: a shell at its prompt is no place for an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rowlock._app import App

    Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def tasks(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a task."""
    return _complete(
        ctx, incomplete, lambda app: task_names(app) | _paused(app, "task")
    )


def queues(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a queue."""
    return _complete(
        ctx, incomplete, lambda app: queue_names(app) | _paused(app, "queue")
    )


def task_names(app: App) -> set[str]:
    """Name the tasks of an app, those told of, and those of workers and due jobs."""
    from rowlock.cli.overview import due_tasks, overview

    seen = overview(app)
    told = {info.name for info in seen.registered}
    of_workers = {task for worker in seen.workers for task in worker.tasks}
    return {*app.tasks, *told, *of_workers, *(each.task for each in due_tasks(app))}


def queue_names(app: App) -> set[str]:
    """Name the queues of known tasks, of due jobs, and of live workers."""
    from rowlock.cli.overview import due_tasks, overview

    seen = overview(app)
    of_workers = {queue for worker in seen.workers for queue in worker.queues or ()}
    of_tasks = {task.defaults.queue for task in app.tasks.values()}
    of_tasks |= {info.queue for info in seen.registered}
    return {*of_tasks, *of_workers, *(each.queue for each in due_tasks(app))}


def _paused(app: App, kind: Literal["queue", "task"]) -> set[str]:
    from rowlock.cli.overview import overview

    named = (getattr(pause, kind) for pause in overview(app).pauses)
    return {name for name in named if name is not None}


def _complete(
    ctx: click.Context, incomplete: str, names: Callable[[App], Iterable[str]]
) -> list[str]:
    from rowlock.cli.database import opened
    from rowlock.cli.parameters import Place

    place = Place(ctx.params.get("database"), ctx.params.get("named_app"))
    try:
        with opened(place) as app:
            return sorted(name for name in names(app) if name.startswith(incomplete))
    except Exception:  # noqa: BLE001 - see above
        return []
