"""How far a verb on very many jobs is, and what it leaves where it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from rowlock._errors import StoreError
from rowlock._words import count

if TYPE_CHECKING:
    from rowlock._app import App
    from rowlock._events import Event


@contextmanager
def telling_progress(app: App, verb: str) -> Iterator[None]:
    """Tell on a terminal how far a verb is, and where it is stopped how far it came."""
    from rowlock._events.operators import (
        JobsCancelled,
        JobsDeleted,
        JobsMoved,
        JobsReplayed,
    )

    done, told = 0, ""

    def hear(event: Event) -> None:
        nonlocal done, told
        match event:
            case JobsCancelled():
                done += len(event.ids) + len(event.asked)
            case JobsReplayed() | JobsMoved() | JobsDeleted():
                done += len(event.ids)
        if sys.stderr.isatty():
            told = f"{verb}: {done:,} done"
            click.echo(f"\r{told}", nl=False, err=True)

    end = app.listen(hear)
    try:
        yield
    except (KeyboardInterrupt, StoreError) as error:
        _wipe(told)
        if done or isinstance(error, KeyboardInterrupt):
            click.echo(
                f"Stopped: {count(done, 'job')} done, and perhaps those"
                " under way. The same command goes on with the others.",
                err=True,
            )
        raise
    finally:
        end()
    _wipe(told)


def _wipe(told: str) -> None:
    if told:
        click.echo(f"\r{' ' * len(told)}\r", nl=False, err=True)
