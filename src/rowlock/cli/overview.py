"""What commands show of workers, pauses and tasks, without counting all jobs."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock._answers import Overview, TaskStats
from rowlock._app import App
from rowlock.cli.database import asked


def overview(app: App) -> Overview:
    """Tell who is at work and what is paused."""
    return asked(app, lambda store: store.figures.overview())


def due_tasks(app: App) -> Sequence[TaskStats]:
    """Count the jobs that are due, by queue and task."""
    return asked(app, lambda store: store.figures.due())
