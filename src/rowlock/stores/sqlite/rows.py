"""
Rows to values: one function a type, and the instants between them.

An instant is an integer of microseconds since 1970 in a row, an aware datetime in
UTC in a value. Columns are read by position, in the order of the statement's list.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from rowlock._durations import iso as write_instant
from rowlock._job import JSON, Claim, ClaimKey, Job, Status
from rowlock._store import Pause, TaskInfo, WorkerInfo
from rowlock.stores._json import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

Row: TypeAlias = tuple[Any, ...]  # what sqlite3 gives; the statement says what is in it

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# With room for a lease or a timeout to be added.
_LATE = datetime(9998, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(instant: datetime) -> int:
    """Write an aware datetime as a row has it; exact, unlike `timestamp()`."""
    return (instant - _EPOCH) // _MICROSECOND


def to_span(duration: timedelta) -> int:
    """Write a duration in microseconds."""
    return duration // _MICROSECOND


@lru_cache(maxsize=1024)  # the jobs of a batch share most of theirs
def instant(micros: int) -> datetime:
    """Read an instant; what a hand has written there that is none, as a late one."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except (TypeError, OverflowError):
        # A text, which SQLite sorts after every number, or a year past Python's. One
        # row must not fail the claim or the page that it is in.
        return _LATE


def maybe_instant(micros: int | None) -> datetime | None:
    """Read an instant that may be missing."""
    return None if micros is None else instant(micros)


def iso(micros: int) -> str:
    """Write an instant as the view shows it."""
    return write_instant(instant(micros))


def maybe_json(value: Mapping[str, JSON] | None) -> str | None:
    """Write JSON text, or nothing."""
    return None if value is None else write_json(value)


def claim(row: Row) -> Claim:
    """Read what `claim.sql`, `lost.sql` and `lost_of_worker.sql` answer."""
    return Claim(
        key=ClaimKey(row[0], row[1]),
        task=row[2],
        queue=row[3],
        priority=row[4],
        attempts=row[5],
        failures=row[6],
        losses=row[7],
        max_attempts=row[8],
        timeout=row[9],
        backoff=read_json(row[10]),
        idempotency_key=row[11],
        worker=row[12],
        alone=bool(row[13]),
        abandoned=bool(row[14]),
        state=read_json(row[15]),
        run_at=instant(row[16]),
        created_at=instant(row[17]),
        started_at=instant(row[18]),
        leased_until=instant(row[19]),
        cancel_requested_at=maybe_instant(row[20]),
        payload=row[21],
    )


def job(row: Row) -> Job:
    """Read what `get.sql` answers."""
    return Job(
        id=row[0],
        queue=row[1],
        task=row[2],
        status=Status(row[3]),
        priority=row[4],
        run_at=instant(row[5]),
        expires_at=maybe_instant(row[6]),
        claims=row[7],
        attempts=row[8],
        failures=row[9],
        losses=row[10],
        max_attempts=row[11],
        timeout=row[12],
        backoff=read_json(row[13]),
        idempotency_key=row[14],
        leased_until=maybe_instant(row[15]),
        worker=row[16],
        cancel_requested_at=maybe_instant(row[17]),
        last_error=row[18],
        created_at=instant(row[19]),
        started_at=maybe_instant(row[20]),
        finished_at=maybe_instant(row[21]),
        updated_at=instant(row[22]),
        progress=read_json(row[23]),
        meta=_read_object(row[24]),
        errors=_read_errors(row[25]),
        state=read_json(row[26]),
        result=read_json(row[27]),
        payload=_read_object(row[28]),
        fingerprint=row[29],
        key_until=maybe_instant(row[30]),
    )


def pause(row: Row) -> Pause:
    """Read what `pausing.sql` answers."""
    return Pause(
        queue=row[0],
        task=row[1],
        until=maybe_instant(row[2]),
        reason=row[3],
        by=row[4],
        at=instant(row[5]),
    )


def worker(row: Row) -> WorkerInfo:
    """Read what `live_workers.sql` answers."""
    return WorkerInfo(
        id=row[0],
        host=row[1],
        pid=row[2],
        version=row[3],
        rowlock=row[4],
        tasks=tuple(json.loads(row[5])),
        queues=None if row[6] is None else tuple(json.loads(row[6])),
        concurrency=row[7],
        lease=timedelta(microseconds=row[8]),
        started_at=instant(row[9]),
        seen_at=instant(row[10]),
        running=row[11],
        alone=bool(row[12]),
        gives_way=bool(row[13]),
        stuck=tuple(json.loads(row[14])),
    )


def task(row: Row) -> TaskInfo:
    """Read what `registered.sql` answers."""
    return TaskInfo(
        name=row[0],
        queue=row[1],
        defaults=_read_object(row[2]),
        seen_at=instant(row[3]),
    )


def _read_object(text: str) -> Mapping[str, JSON]:
    value = read_json(text)
    return value if isinstance(value, dict) else {"unreadable": text}


def _read_errors(text: str) -> tuple[Mapping[str, JSON], ...]:
    value = read_json(text)
    return tuple(value) if isinstance(value, list) else ({"unreadable": text},)
