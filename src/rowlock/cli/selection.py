"""
Which jobs a verb is about, a look at them beforehand, and the question whether to.

By ids or by a filter, never by neither: an empty filter would fit every job.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rowlock._errors import UsageError
from rowlock._filter import Filter
from rowlock._job import Status
from rowlock.cli import colour
from rowlock.cli.filtering import FILTER_OPTIONS
from rowlock.cli.parameters import read_ids
from rowlock.cli.table import Cell, Column, print_table

if TYPE_CHECKING:
    from rowlock._app import App
    from rowlock._job import Job
    from rowlock.cli.documents import Output

T = TypeVar("T")

# Of how many jobs a preview tells the tasks and errors; it counts all of them.
SAMPLE = 500

PREVIEW = (
    Column("JOBS", is_number=True),
    Column("STATUS"),
    Column("TASK", may_shrink=True),
    Column("LAST ERROR", may_shrink=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """
    A verb on jobs, and the statuses that it takes.

    One that `always_asks` does so for ids too; one that takes the `whole` is handed
    all jobs in one call, not those of each status.
    """

    name: str
    statuses: tuple[Status, ...]
    always_asks: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The jobs that were named, by ids or by a filter, and how sure one is of it."""

    ids: tuple[int, ...]
    where: Filter
    yes: bool
    dry_run: bool

    def parts(self, verb: Verb) -> list[tuple[int, ...] | Filter]:
        """
        Give what to hand to the verb: the ids, or a filter a status that it takes.

        Raises:
            UsageError: nothing is selected, or what the verb never takes.
        """
        is_filtered = not self.where.is_empty
        if self.ids and is_filtered:
            msg = "Say which jobs either by their ids or by a filter, not by both."
            raise UsageError(msg)
        if self.ids:
            return [self.ids]
        if not is_filtered:
            msg = (
                f"Say which jobs to {verb.name}: their ids, a filter such as"
                " --task send_receipt, or --all."
            )
            raise UsageError(msg)
        asked = self.where.status
        if asked is not None and asked not in verb.statuses:
            takes = " and ".join(verb.statuses)
            msg = f"`jobs {verb.name}` takes {takes} jobs, and none that is {asked}."
            raise UsageError(msg)
        statuses = verb.statuses if asked is None else (asked,)
        where = replace(self.where, all=False)
        return [replace(where, status=status) for status in statuses]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """How many jobs there are, and of a sample of them the tasks and errors."""

    verb: str
    count: int
    sampled: int
    sample: tuple[dict[str, object], ...]


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


def preview(app: App, verb: Verb, selection: Selection) -> Preview:
    """Look which jobs a verb would take, without touching any."""
    sample: list[Job] = []
    count = 0
    for part in selection.parts(verb):
        found = ids(app, part)
        sample += _read(app, found[: SAMPLE - len(sample)])
        count += len(found)
    if selection.ids:
        # Of named ids all are read, or what isn't there would be counted.
        sample = [job for job in sample if job.status in verb.statuses]
        count = len(sample) if len(selection.ids) <= SAMPLE else count
    groups = Counter((str(job.status), job.task, error_of(job)) for job in sample)
    return Preview(
        verb=verb.name,
        count=count,
        sampled=len(sample),
        sample=tuple(
            {"jobs": jobs, "status": status, "task": task, "last_error": error}
            for (status, task, error), jobs in groups.most_common()
        ),
    )


def print_preview(found: Preview, output: Output) -> None:
    """Print a preview, as a dry run does."""
    if output.prints(found):
        return
    print_table(PREVIEW, list(_rows(found)))
    part = f", the newest {found.sampled} of them above" * (found.sampled < found.count)
    click.echo(f"{_jobs(found.count)} to {found.verb}{part}. Nothing was done.")


def is_agreed(app: App, verb: Verb, selection: Selection) -> bool:
    """
    Ask whether to do it, where that is asked at all.

    Raises:
        UsageError: there is nobody to ask.
    """
    if selection.yes or (selection.ids and not verb.always_asks):
        return True
    found = preview(app, verb, selection)
    if not found.count:
        return True  # which says of each id why not, and of a filter that none fits
    if not sys.stdin.isatty():
        msg = (
            f"This would {verb.name} {_jobs(found.count)}, and there is nobody to ask:"
            " add --yes to do it, or --dry-run to look at them."
        )
        raise UsageError(msg)
    for jobs, *what in _rows(found):
        told = "  ".join(cell.text if isinstance(cell, Cell) else cell for cell in what)
        click.echo(f"  {jobs} {told}".rstrip(), err=True)
    asked = f"{verb.name.capitalize()} {_jobs(found.count)}?"
    return click.confirm(asked, default=False, err=True)


def ids(app: App, part: tuple[int, ...] | Filter) -> list[int]:
    """Give the ids of a part of a selection, those of a filter newest first."""
    if not isinstance(part, Filter):
        return list(dict.fromkeys(part))

    async def found() -> list[int]:
        await app.open()
        return [job_id async for ids in app._steps(part) for job_id in ids]

    return app._portal.run(found(), "app.list")


def _read(app: App, chosen: list[int]) -> list[Job]:
    if not chosen:
        return []

    async def found() -> list[Job]:
        await app.open()
        return list(await app._store.get(chosen))

    return app._portal.run(found(), "app.get")


def error_of(job: Job) -> str | None:
    """
    Give the first line of what is wrong with a job; None where nothing is.

    The row of a job that succeeded in the end keeps the last error that it had, which
    is a part of its story: in a table it would look like a failure.
    """
    if job.status is Status.SUCCEEDED:
        return None
    return (job.last_error or "").partition("\n")[0] or None


def _rows(found: Preview) -> Iterator[list[str | Cell]]:
    for group in found.sample:
        status = Status(str(group["status"]))
        yield [
            str(group["jobs"]),
            Cell(str(status), colour.OF_STATUS[status]),
            str(group["task"]),
            str(group["last_error"] or ""),
        ]


def _jobs(count: int) -> str:
    return f"{count:,} job{'s' * (count != 1)}"
