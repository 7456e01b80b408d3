"""
Colours, where there is a terminal or the environment asks for them.

Sources: no-color.org, force-color.org.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO

import click

from rowlock._job import Status

OF_STATUS = {
    Status.PENDING: "yellow",
    Status.RUNNING: "cyan",
    Status.SUCCEEDED: "green",
    Status.FAILED: "red",
    Status.CANCELLED: "magenta",
}


@dataclass(slots=True)
class _Run:
    """What this run of the command line was told, for its threads too."""

    is_refused: bool = False


_run = _Run()


def begin() -> None:
    """Forget what an earlier run in this process was told."""
    _run.is_refused = False


def refuse(ctx: click.Context, _param: click.Parameter, value: object) -> None:
    """Show no colours in the rest of this run, as `--no-color` asks."""
    if value:
        _run.is_refused = True
        ctx.color = False


def wanted() -> bool | None:
    """Tell whether colours are wanted; None leaves it to each stream."""
    if _run.is_refused or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return False if os.environ.get("TERM") == "dumb" else None


def shows(stream: TextIO) -> bool:
    """Tell whether colours are shown on a stream that click doesn't write to."""
    asked = wanted()
    return stream.isatty() if asked is None else asked


def dim(text: str) -> str:
    """Paint what may be overlooked."""
    return click.style(text, dim=True)


def bold(text: str) -> str:
    """Paint what leads the eye."""
    return click.style(text, bold=True)


def of_status(status: Status, text: str | None = None) -> str:
    """Paint a status, or a text by it."""
    return click.style(status if text is None else text, fg=OF_STATUS[status])
