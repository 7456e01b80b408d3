"""What may be ill about a Postgres database: each look is a function of a session."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from psycopg.errors import QueryCanceled

from rowlock import _doctor
from rowlock._answers import Finding, unserved
from rowlock._doctor import warning, well, wrong
from rowlock._durations import span
from rowlock._errors import StoreUnavailable
from rowlock._words import count
from rowlock.stores.postgres import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.stores.postgres.sessions import Session

# A snapshot is old after so many seconds, or transactions where it isn't known since
# when; it is wrong when it has cost so much.
_OLD_S, _OLD_XIDS = 60.0, 10_000
_VERY_OLD_S, _MANY_DEAD = 3600.0, 1_000_000

# Autovacuum looks once a minute: what was due for as long as this it doesn't get at.
_LATE_S = 600.0
_LATE = 2.0  # times as many dead rows as make it due

# Down an index to a line, to the next one, and to the line's first job, with its row.
_PAGES_A_LINE = 20
_PAGES_AT_LEAST = 60
_LONG_LOOK_MS = 1000.0

_READ_ONLY = "default_transaction_read_only"
# What each setting does to jobs, and how bad that is.
_HURTS = {
    "autovacuum": (wrong, "dead rows are never removed, and looks get slower"),
    "default_transaction_isolation": (
        warning,
        (
            "an enqueue in your own transaction raises a serialization error where it"
            " meets a duplicate key; Rowlock's own connections set read committed"
            " themselves"
        ),
    ),
    _READ_ONLY: (wrong, "an enqueue in your own transaction is refused"),
    "fsync": (wrong, "a crash of the machine may damage the database"),
    "full_page_writes": (wrong, "a crash of the machine may damage the database"),
    "session_replication_role": (
        wrong,
        "triggers don't run, and what they enqueue is never enqueued",
    ),
    "synchronous_commit": (
        warning,
        "a crash of the server takes back the last answers: enqueues and outcomes",
    ),
    "track_counts": (wrong, "autovacuum doesn't know what to do"),
}
_FOR_ALL = "the server"  # as settings.sql names the place


def shown(session: Session, operation: str) -> str:
    """Write a statement that somebody else is to run."""
    return f"`{session.text(operation).rstrip(';')}`"


async def settings(session: Session) -> list[Finding]:
    """Find settings by which jobs may be lost or refused."""
    found = []
    for name, place, value, cure in await session.run("settings"):
        judge, hurts = _HURTS[name]
        said = f"{name} is {value} for {place}: {hurts}."
        steps = [shown(session, "let_write")] if name == _READ_ONLY else []
        steps.append(f"`{cure}`")
        if place == _FOR_ALL:
            steps.append(shown(session, "reload"))
            last = "; where it is set in the URL's options, take it out there."
        else:
            last = "; what is connected keeps it until it connects anew."
        found.append(judge("settings", said, f"{', then '.join(steps)}{last}"))
    return found or [
        well("settings", "Settings are such that what is answered is on disk.")
    ]


class Holder(NamedTuple):
    """Who keeps dead rows from being removed; what isn't known is None."""

    kind: str
    name: str
    user: str | None
    application: str | None
    state: str | None
    query: str | None
    held_for: float | None
    held_over: int
    cure: str | None
    has_jobs: bool

    @property
    def is_old(self) -> bool:
        """Whether it has been there for longer than any statement of a queue's."""
        return (self.held_for or 0) >= _OLD_S or self.held_over >= _OLD_XIDS

    def __str__(self) -> str:
        """Name it."""
        told = [
            f"user {self.user}" if self.user else "",
            self.application or "",
            self.state or "",
            # A query of several lines is shown as one.
            f"its last query: {' '.join(self.query.split())}" if self.query else "",
        ]
        behind = f" ({', '.join(filter(None, told))})" if any(told) else ""
        return f"{_KINDS[self.kind]} {self.name}{behind}"


_JOBS = (
    " The jobs that it has locked, as a handler's hold() and complete() lock theirs,"
    " run until it ends: nobody recovers or cancels them."
)
_KINDS = {
    "session": "Session",
    "prepared": "The prepared transaction",
    "slot": "The unused replication slot",
    "used slot": "A standby by the replication slot",
    "standby": "A standby, by the feedback of its session",
}


async def horizon(session: Session) -> list[Finding]:
    """Name who keeps dead rows, and what that costs."""
    holders = [Holder(*row) for row in await session.run("horizon")]
    old = [holder for holder in holders if holder.is_old]
    if not old:
        return [well("horizon", "Nobody holds an old snapshot, so dead rows can go.")]
    dead = sum(table.dead for table in await _tables(session) if table.is_live)
    on_the_standby = (
        "On the standby, end what reads for so long, or run"
        f" {shown(session, 'leave_standbys')}, then {shown(session, 'reload')}."
    )
    return [
        _holds(
            holder, dead, f"End it: `{holder.cure}`." if holder.cure else on_the_standby
        )
        for holder in old
    ]


def _holds(holder: Holder, dead: int, cure: str) -> Finding:
    spans = [
        f"for {span(holder.held_for)}" if holder.held_for is not None else "",
        f"over {holder.held_over:,} transactions",
    ]
    is_grave = (holder.held_for or 0) >= _VERY_OLD_S or dead >= _MANY_DEAD
    return (wrong if is_grave else warning)(
        "horizon",
        f"{holder} has held a snapshot {' and '.join(filter(None, spans))}: rows that"
        f" died since can't be removed, about {dead:,} of the live jobs' so far, and"
        f" each full look of a worker steps over them.{_JOBS * holder.has_jobs}",
        cure,
    )


class Table(NamedTuple):
    """How autovacuum stands to a table."""

    name: str
    is_on: bool
    dead: int
    due_at: float
    idle_s: float | None
    turns_on: str
    vacuums: str

    @property
    def is_live(self) -> bool:
        """Whether the unfinished jobs are in it."""
        return self.name.endswith(".live")

    @property
    def is_late(self) -> bool:
        """Whether it was due for long, or has never been done."""
        is_idle = self.idle_s is None or self.idle_s >= _LATE_S
        return self.dead > _LATE * self.due_at and is_idle


async def _tables(session: Session) -> list[Table]:
    return [Table(*row) for row in await session.run("dead_rows")]


async def autovacuum(session: Session) -> list[Finding]:
    """Find tables that autovacuum leaves alone, or doesn't get at."""
    tables = await _tables(session)
    found = _left_alone(tables)
    for table in tables:
        if table.is_on and table.is_late:
            ran = "never" if table.idle_s is None else f"not for {span(table.idle_s)}"
            found.append(
                warning(
                    "autovacuum",
                    f"{table.name} has about {table.dead:,} dead rows, from"
                    f" {table.due_at:,.0f} on it is due for a vacuum, and it had one"
                    f" {ran}.",
                    f"`{table.vacuums}`; where it falls behind again,"
                    f" {shown(session, 'hurry_vacuums')}, then"
                    f" {shown(session, 'reload')}.",
                )
            )
    ((most, busy, more),) = await session.run("vacuums")
    if busy >= most:
        found.append(
            warning(
                "autovacuum",
                f"At this moment no autovacuum worker of {most} is free: tables wait.",
                f"`{more}`, and restart the server; pg_stat_progress_vacuum shows what"
                " they are at.",
            )
        )
    return found or [well("autovacuum", "Autovacuum is on, and not behind.")]


def _left_alone(tables: Sequence[Table]) -> list[Finding]:
    off = {table.turns_on: table.name for table in tables if not table.is_on}
    if not off:
        return []
    # A table has the name of the large values that are kept apart from it, too.
    names = ", ".join(dict.fromkeys(off.values()))
    return [
        wrong(
            "autovacuum",
            f"Autovacuum is off for {names}: what dies there is never removed.",
            f"{', '.join(f'`{turns_on}`' for turns_on in off)}.",
        )
    ]


async def head(session: Session) -> list[Finding]:
    """Measure what stands dead before the first pending jobs, in the claim's order."""
    cure = (
        f"{shown(session, 'vacuum_live')}, after the cure of what is said here of the"
        " horizon and of autovacuum."
    )
    try:
        ((text,),) = await session.run("dead_head")
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        endless = (
            "Dead entries stand at the head of the index live_pending: a full look for"
            " the first pending job of each queue and priority took longer than this"
            " doctor waits, 5 s."
        )
        return [wrong("head", endless, cure)]
    (told,) = json.loads(text)
    plan, took_ms = told["Plan"], told["Execution Time"]
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    lines = plan["Actual Rows"]
    looked = (
        "a full look for the first pending job of each queue and priority"
        f" ({count(lines, 'job')}) read {count(pages, 'page')} in"
        f" {span(took_ms / 1000)}"
    )
    if pages <= _PAGES_AT_LEAST + _PAGES_A_LINE * lines:
        return [well("head", f"Nothing dead is in a claim's way: {looked}.")]
    return [
        (wrong if took_ms >= _LONG_LOOK_MS else warning)(
            "head",
            f"Dead entries stand at the head of the index live_pending: {looked}, and"
            " each worker does so now and then, at the latest every `safety_interval`.",
            cure,
        )
    ]


async def partitions(session: Session) -> list[Finding]:
    """Find days of the history that are missing or stuck, and jobs left behind."""
    missing = await session.run("missing_days")
    found = []
    if missing:
        days = ", ".join(day.isoformat() for day, _ in missing)
        is_today = any(is_today for _, is_today in missing)
        found.append(
            (wrong if is_today else warning)(
                "partitions",
                f"The history has no partition of {days}: whoever finishes a job first"
                " has to make it, and a job completed in a caller's transaction stays"
                " among the live ones.",
                "Run `rowlock migrate`, and see that a worker runs: its upkeep makes"
                " them a week ahead.",
            )
        )
    for name, cure in await session.run("pending_detaches"):
        found.append(
            warning(
                "partitions",
                f"The detach of {name} was interrupted, and no other day can be let go"
                " of before it.",
                f"`{cure}`, or leave it to a worker's next pruning.",
            )
        )
    if left := await session.run("left_jobs"):
        days = ", ".join(day.isoformat() for day, _ in left)
        finished = count(sum(number for _, number in left), "finished job")
        found.append(
            warning(
                "partitions",
                f"Among the live jobs there is still {finished}, as the history had no"
                f" partition of {days}.",
                "Start a worker: its pruning, at its start and then hourly, makes the"
                " partitions and moves them.",
            )
        )
    return found or [well("partitions", "The history has its days, a week ahead.")]


async def unlogged(session: Session) -> list[Finding]:
    """Find tables that a crash would empty."""
    return [
        wrong(
            "unlogged",
            f"{name} is unlogged: a crash of the server empties it, and a standby"
            " doesn't have it.",
            f"`{cure}`",
        )
        for name, cure in await session.run("unlogged")
    ] or [well("unlogged", "A crash of the server leaves every table as it was.")]


async def rights(session: Session) -> list[Finding]:
    """Find what this user may not do, and a worker has to."""
    lacks = "; ".join(right for (right,) in await session.run("missing_rights"))
    user = session.connection.info.user
    if not lacks:
        return [well("rights", f"The user {user} may do all that a worker does.")]
    return [
        wrong(
            "rights",
            f"The user {user} lacks {lacks}, which a worker needs.",
            f"Run `rowlock migrate --worker-role {shlex.quote(user)}` as the schema's"
            " owner.",
        )
    ]


async def tasks(session: Session) -> list[Finding]:
    """Find tasks with due jobs that no live worker has."""
    workers = (await figures.overview(session)).workers
    return _doctor.tasks(unserved(await figures.due_tasks(session), workers))


async def workers(session: Session) -> list[Finding]:
    """Find workers whose clocks differ from the server's."""
    return _doctor.workers_clocks(
        (f"{worker} ({host}, process {pid})", timedelta(seconds=skew))
        for worker, host, pid, skew in await session.run("workers_clocks")
    )
