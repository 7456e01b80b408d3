"""
Values to parameters and rows to values: one function a type.

A batch travels as arrays, a column each, written as Postgres writes them. Columns are
read by position, in the order of the statement's list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rowlock._errors import StoreError
from rowlock._job import JSON, Claim, ClaimKey, Job, Status
from rowlock._store import Pause, TaskInfo, WorkerInfo
from rowlock.stores._json import read_json, write_json
from rowlock.stores.postgres.sessions import EARLIEST, Row

_MICROSECOND = timedelta(microseconds=1)

# Asked for each row, and quicker than the call.
STATUS: Mapping[str, Status] = {status.value: status for status in Status}


def numbers(values: Sequence[float | None]) -> str | None:
    """Write an array of numbers; none at all where each is None."""
    if None not in values:
        return f"{{{','.join(map(str, values))}}}"
    if values.count(None) == len(values):
        return None
    return f"{{{','.join('NULL' if v is None else str(v) for v in values)}}}"


def read_numbers(text: str) -> tuple[int | None, ...]:
    """Read an array of whole numbers."""
    written = text[1:-1].split(",")
    if "NULL" not in text:
        return tuple(map(int, written))
    return tuple(None if number == "NULL" else int(number) for number in written)


def flags(values: Sequence[bool]) -> str:
    """Write an array of 1 and 0."""
    return f"{{{','.join('1' if value else '0' for value in values)}}}"


def instants(values: Sequence[datetime | None]) -> str | None:
    """Write an array of instants; none at all where each is None."""
    if values.count(None) == len(values):
        return None
    return f"{{{','.join(map(_instant, values))}}}"


def _instant(value: datetime | None) -> str:
    if value is None:
        return "NULL"
    # The server's calendar begins before Python's.
    return "-infinity" if value <= EARLIEST else value.isoformat()


def texts(values: Sequence[str | None]) -> str | None:
    """Write an array of texts; none at all where each is None."""
    if None in values:
        if values.count(None) == len(values):
            return None
        return "{" + ",".join("NULL" if v is None else _quoted(v) for v in values) + "}"
    # All at once, which takes a fifth of the time: a NUL, which no text of Postgres
    # has, keeps them apart meanwhile.
    joined = "\0".join(values)  # type: ignore[arg-type]  # None was looked for above
    if joined.count("\0") != max(0, len(values) - 1):
        msg = "Postgres can't store a text with a NUL character; nothing was written."
        raise StoreError(msg)
    if not values:
        return "{}"
    escaped = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + escaped.replace("\0", '","') + '"}'


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def micros(duration: timedelta) -> int:
    """Write a duration in microseconds."""
    return duration // _MICROSECOND


def maybe_micros(duration: timedelta | None) -> int | None:
    """Write a duration in microseconds, or nothing."""
    return None if duration is None else micros(duration)


def to_json(value: JSON) -> str:
    """Write JSON text that `jsonb` takes: it has neither NUL nor half a surrogate."""
    return clean(write_json(value).replace("\\u0000", "\\ufffd"))


def maybe_json(value: Mapping[str, JSON] | None) -> str | None:
    """Write JSON text, or nothing."""
    return None if value is None else to_json(value)


def clean(text: str) -> str:
    """Replace what no text of Postgres can have; for what only people read."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


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
        alone=row[13],
        abandoned=row[14],
        state=read_json(row[15]),
        run_at=row[16],
        created_at=row[17],
        started_at=row[18],
        leased_until=row[19],
        cancel_requested_at=row[20],
        payload=row[21],
    )


def job(row: Row) -> Job:
    """Read what `get.sql` and the lists answer."""
    return Job(
        id=row[0],
        queue=row[1],
        task=row[2],
        status=STATUS[row[3]],
        priority=row[4],
        run_at=row[5],
        expires_at=row[6],
        claims=row[7],
        attempts=row[8],
        failures=row[9],
        losses=row[10],
        max_attempts=row[11],
        timeout=row[12],
        backoff=read_json(row[13]),
        idempotency_key=row[14],
        leased_until=row[15],
        worker=row[16],
        cancel_requested_at=row[17],
        last_error=row[18],
        created_at=row[19],
        started_at=row[20],
        finished_at=row[21],
        updated_at=row[22],
        progress=read_json(row[23]),
        meta=read_json(row[24]),
        errors=tuple(read_json(row[25])),
        state=read_json(row[26]),
        result=read_json(row[27]),
        payload=read_json(row[28]),
        fingerprint=row[29],
        key_until=row[30],
    )


def pause(row: Row) -> Pause:
    """Read what `pausing.sql` answers."""
    return Pause(
        queue=row[0],
        task=row[1],
        until=row[2],
        reason=row[3],
        by=row[4],
        at=row[5],
    )


def worker(row: Row) -> WorkerInfo:
    """Read what `live_workers.sql` answers, after the store's now."""
    return WorkerInfo(
        id=row[1],
        host=row[2],
        pid=row[3],
        version=row[4],
        rowlock=row[5],
        tasks=tuple(row[6]),
        queues=None if row[7] is None else tuple(row[7]),
        concurrency=row[8],
        lease=row[9],
        started_at=row[10],
        seen_at=row[11],
        running=row[12],
        alone=row[13],
        gives_way=row[14],
        stuck=tuple(row[15]),
    )


def task(row: Row) -> TaskInfo:
    """Read what `registered.sql` answers."""
    return TaskInfo(
        name=row[0], queue=row[1], defaults=read_json(row[2]), seen_at=row[3]
    )
