"""
A job's whole story, for a person to read.

What a job doesn't have isn't said; `--json` has every field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import datetime

from rowlock._durations import iso
from rowlock._job import JSON, Job, Status
from rowlock._outcome import in_words
from rowlock.cli import colour
from rowlock.cli.instants import relative, span
from rowlock.cli.table import printable

INDENT = "  "
# Told apart from the plain fields, which come first.
IN_THE_TITLE = {"id", "task", "status"}
DOCUMENTS = ("payload", "result", "state", "progress", "meta")


def tell(job: Job, now: datetime, *, longest: int | None = None) -> Iterator[str]:
    """
    Tell a job's story line by line: fields, payload, result, errors oldest first.

    A document of more than `longest` lines is cut, None cuts none.
    """
    yield (
        f"{colour.bold(f'job {job.id}')}  {printable(job.task)}"
        f"  {colour.of_status(job.status)}"
    )
    yield ""
    yield from _plain_fields(job, now)
    for name in DOCUMENTS:
        value = getattr(job, name)
        if value is not None and (value != {} or name == "payload"):
            yield ""
            yield colour.bold(name)
            yield from _document(value, longest)
    if job.errors:
        yield ""
        yield colour.bold("errors, oldest first")
        before = None
        for entry in job.errors:
            yield from _entry(entry, now, before)
            before = entry.get("traceback")


def _plain_fields(job: Job, now: datetime) -> Iterator[str]:
    told = {
        field.name: said
        for field in fields(job)
        if field.name not in {*IN_THE_TITLE, *DOCUMENTS, "errors", "last_error"}
        and (said := _said(job, field.name, now)) is not None
    }
    width = max(map(len, told))
    for name, said in told.items():
        yield f"{INDENT}{colour.dim(f'{name:<{width}}')}  {said}"


def _said(job: Job, name: str, now: datetime) -> str | None:
    value = getattr(job, name)
    if value is None:
        return "the task's own" if name in ("timeout", "backoff") else None
    if isinstance(value, datetime):
        away = relative(value, now)
        late = name == "leased_until" and value < now and job.status is Status.RUNNING
        return f"{iso(value)}  {away}{' - its worker may be lost' if late else ''}"
    if name == "timeout":
        return span(value) if value else "none"
    return printable(json.dumps(value) if isinstance(value, Mapping) else str(value))


def _document(value: JSON, longest: int | None) -> Iterator[str]:
    lines = json.dumps(value, indent=2, ensure_ascii=False).splitlines()
    shown = lines if longest is None else lines[:longest]
    for line in shown:
        yield f"{INDENT}{printable(line)}"
    if len(shown) < len(lines):
        yield colour.dim(f"{INDENT}... {len(lines) - len(shown)} more lines")


def _entry(entry: Mapping[str, JSON], now: datetime, before: JSON) -> Iterator[str]:
    """
    Tell a failure or a loss with its traceback, or what an operator did.

    A traceback that is the one `before` isn't told again.
    """
    left = {key: value for key, value in entry.items() if value is not None}
    attempt, event = left.pop("attempt", None), left.pop("event", "")
    error: dict[str, JSON] = {
        key: left.pop(key) for key in ("type", "message") if key in left
    }
    traceback = left.pop("traceback", None)
    title = event if attempt is None else f"attempt {attempt} {event}"
    yield f"{INDENT}{colour.bold(printable(str(title)))}"
    if "type" in error:
        yield from _lines(in_words(error), INDENT * 2)
    width = max(map(len, left), default=0)
    for key, value in left.items():
        yield f"{INDENT * 2}{colour.dim(f'{key:<{width}}')}  {_dated(value, now)}"
    if traceback is not None and traceback == before:
        yield colour.dim(f"{INDENT * 3}the same traceback")
    elif traceback is not None:
        yield from _lines(str(traceback), INDENT * 3)


def _dated(value: JSON, now: datetime) -> str:
    try:
        instant = datetime.fromisoformat(str(value))
        return f"{value}  {relative(instant, now)}"
    except (ValueError, TypeError):  # no instant, or none with a zone
        return printable(str(value))


def _lines(text: str, indent: str) -> Iterator[str]:
    for line in text.rstrip().splitlines():
        yield f"{indent}{printable(line.expandtabs(4))}".rstrip()
