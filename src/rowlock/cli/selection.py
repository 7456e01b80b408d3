"""
Which jobs a verb is about, a look at them beforehand, and the question whether to.

By ids or by a filter, never by neither: an empty filter would fit every job.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rowlock._choice import check_takes
from rowlock._errors import UsageError
from rowlock._filter import Filter
from rowlock._operations import CUT
from rowlock._words import count
from rowlock.cli import colour
from rowlock.cli.filtering import FILTER_OPTIONS
from rowlock.cli.parameters import read_ids
from rowlock.cli.table import (
    Cell,
    Column,
    cut,
    print_table,
    printable,
    terminal_width,
)

if TYPE_CHECKING:
    from rowlock._answers import Preview
    from rowlock._app import App
    from rowlock._job import VerbName
    from rowlock.cli.documents import Output

T = TypeVar("T")

PREVIEW = (
    Column("JOBS", is_number=True),
    Column("STATUS"),
    Column("TASK", may_shrink=True),
    Column("LAST ERROR", may_shrink=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A command on jobs, the app's verb that it is, and whether it asks by ids too."""

    name: str
    is_: VerbName
    always_asks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The jobs that were named, by ids or by a filter, and how sure one is of it."""

    ids: tuple[int, ...]
    where: Filter
    yes: bool
    dry_run: bool

    def of(self, verb: Verb) -> tuple[int, ...] | Filter:
        """
        Give what to hand to the verb: the ids, or the filter.

        Raises:
            UsageError: nothing is selected, or what the verb never takes.
        """
        if self.ids and not self.where.is_empty:
            msg = "Say which jobs either by their ids or by a filter, not by both."
            raise UsageError(msg)
        if self.ids:
            return self.ids
        if self.where.is_empty:
            msg = (
                f"Say which jobs to {verb.name}: their ids, a filter such as"
                " --task send_receipt, or --all."
            )
            raise UsageError(msg)
        check_takes(self.where, verb.is_, f"`jobs {verb.name}`")
        return self.where


def filter_options(function: Callable[..., T]) -> Callable[..., T]:
    """Add the options of a filter, and hand on as `where` what they say."""

    @functools.wraps(function)
    def filtered(*args: object, **options: Any) -> T:  # noqa: ANN401 - click's
        given = {name: options.pop(name) for name in FILTER_OPTIONS}
        return function(*args, where=Filter(**given), **options)

    # From the last, as decorators stand.
    return functools.reduce(
        lambda made, add: add(made), [*FILTER_OPTIONS.values()][::-1], filtered
    )


def selection_options(function: Callable[..., T]) -> Callable[..., T]:
    """Add ids, a filter, `--dry-run` and `--yes`; hand them on as `selection`."""

    @click.argument("job_ids", callback=read_ids, nargs=-1, metavar="[ID]...")
    @filter_options
    @click.option(
        "--all",
        "every",
        is_flag=True,
        default=False,
        help="Every job that can be taken, where no filter is given.",
    )
    @click.option(
        "--dry-run",
        is_flag=True,
        default=False,
        help="Say which jobs it would be, and change nothing.",
    )
    @click.option("--yes", is_flag=True, default=False, help="Don't ask.")
    @functools.wraps(function)
    def selected(
        *args: object,
        job_ids: tuple[int, ...],
        where: Filter,
        every: bool,
        dry_run: bool,
        yes: bool,
        **rest: object,
    ) -> T:
        if every:
            _refuse_beside_all(job_ids, where)
            where = Filter(all=True)
        selection = Selection(ids=job_ids, where=where, yes=yes, dry_run=dry_run)
        return function(*args, selection=selection, **rest)

    return selected


def _refuse_beside_all(job_ids: tuple[int, ...], where: Filter) -> None:
    if job_ids or not where.is_empty:
        msg = "--all means every job: say either that, or which jobs, not both."
        raise UsageError(msg)


def print_preview(found: Preview, verb: Verb, output: Output) -> None:
    """Print a preview, as a dry run does."""
    if found.is_cut:
        click.echo(CUT, err=True)
    if output.prints(replace(found, verb=verb.name)):
        return
    print_table(PREVIEW, list(_rows(found)))
    click.echo(
        f"{count(found.count, 'job')} to {verb.name}{_part(found)}. Nothing was done."
    )


def is_agreed(app: App, verb: Verb, selection: Selection) -> bool:
    """
    Ask whether to do it, where that is asked at all.

    Raises:
        UsageError: there is nobody to ask.
    """
    if selection.yes or (selection.ids and not verb.always_asks):
        return True
    found = app.preview_sync(verb.is_, selection.of(verb))
    if not found.count:
        return True  # which says of each id why not, and of a filter that none fits
    many = count(found.count, "job")
    if sys.stdin is None or not sys.stdin.isatty():
        msg = (
            f"This would {verb.name} {many}, and there is nobody to ask:"
            " add --yes to do it, or --dry-run to look at them."
        )
        raise UsageError(msg)
    for jobs, *what in _rows(found):
        told = "  ".join(cell.text if isinstance(cell, Cell) else cell for cell in what)
        # An error's text is whoever's: it must not overwrite the question.
        line = printable(f"  {jobs} {told}".rstrip())
        width = terminal_width()
        click.echo(line if width is None else cut(line, width), err=True)
    if found.is_cut:
        click.echo(CUT, err=True)
    asked = f"{verb.name.capitalize()} {many}{_part(found)}?"
    return click.confirm(asked, default=False, err=True)


def _rows(found: Preview) -> Iterator[list[str | Cell]]:
    for group in found.groups:
        yield [
            str(group.jobs),
            Cell(str(group.status), colour.OF_STATUS[group.status]),
            group.task,
            group.last_error or "",
        ]


def _part(found: Preview) -> str:
    is_part = found.sampled < found.count
    return f", of which {found.sampled} were looked at" if is_part else ""
