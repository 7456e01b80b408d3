"""
A job's whole story, for a person to read.

What a job doesn't have isn't said; `--json` has every field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime

from rowlock._answers import Why
from rowlock._durations import iso, relative, span
from rowlock._job import JSON, Job, Status
from rowlock._outcome import in_words
from rowlock._why import again, asked, running_for, so_far
from rowlock.cli import colour
from rowlock.cli.table import printable

INDENT = "  "
# Told apart from the plain fields, which come first.
IN_THE_TITLE = {"id", "task", "status", "progress"}
# How many failures, losses and acts a store keeps of a job.
KEPT = 10
DOCUMENTS = ("payload", "result", "state", "meta")


def tell(
    job: Job, now: datetime, *, why: Why | None = None, longest: int | None = None
) -> Iterator[str]:
    """
    Tell a job's story line by line: where it stands, its fields, what happened to it.

    `why` is asked of a job that is overdue. A document of more than `longest` lines is
    cut, None cuts none.
    """
    yield (
        f"{colour.bold(f'job {job.id}')}  {printable(job.task)}"
        f"  {colour.of_status(job.status)}"
    )
    yield f"{INDENT}{printable(standing(job, now))}"
    if why is not None and why.status is job.status:
        yield f"{INDENT}{printable(why.sentence)}"
    if job.progress is not None:
        yield f"{INDENT}{printable(in_percent(job.progress))}"
    yield ""
    yield from _plain_fields(job, now)
    for name in DOCUMENTS:
        value = getattr(job, name)
        if value is not None and (value != {} or name == "payload"):
            yield ""
            yield colour.bold(name)
            yield from _document(value, longest)
    yield ""
    yield colour.bold("story, oldest first")
    yield from _events(job, now)


def standing(job: Job, now: datetime) -> str:
    """Say in one sentence where a job stands, and what comes next."""
    attempt = f"attempt {job.attempts}"
    match job.status:
        case Status.PENDING:
            return f"{_waiting(job)} {relative(job.run_at, now)}{_so_far(job)}"
        case Status.RUNNING:
            return f"{attempt} runs for {running_for(job, now)}{asked(job)}"
        case Status.SUCCEEDED:
            return f"{attempt} succeeded{_took(job)}{_so_far(job)}"
        case Status.FAILED:
            return f"a dead letter{_so_far(job)}; {again(job)}"
        case Status.CANCELLED:
            if not job.attempts:
                return "cancelled before it started"
            return f"cancelled {'in' if _ran_last(job) else 'after'} {attempt}"


def in_percent(progress: Mapping[str, JSON]) -> str:
    """
    Say how far a handler is, by what it has told.

        >>> in_percent({"fraction": 0.4, "note": "page 7"})
        'progress 40 %: page 7'
    """
    fraction, note = progress.get("fraction"), progress.get("note")
    share = (
        f" {fraction:.0%}".replace("%", " %")
        if isinstance(fraction, int | float)
        else ""
    )
    return f"progress{share}{f': {note}' if note else ''}"


def _waiting(job: Job) -> str:
    return "due" if job.attempts == 0 else f"attempt {job.attempts + 1} due"


def _so_far(job: Job) -> str:
    """Count what came of earlier attempts."""
    told = so_far(job)
    if (count := len(quiet_attempts(job))) > 0:
        many = "s" * (count > 1)
        told.append(f"{count} snooze{many} or release{many}")
    return f", after {' and '.join(told)}" if told else ""


def quiet_attempts(job: Job) -> list[int]:
    """
    Number the attempts that left no entry: snoozed, or released at a shutdown.

    Of those before the first entry that was kept nobody knows; nor is one of them that
    was cancelled told apart, where the job was replayed after that.
    """
    noted = _noted(job.errors)
    first = min(noted, default=job.attempts) + 1 if len(job.errors) >= KEPT else 1
    last = job.attempts - _ran_last(job)
    return [number for number in range(first, last + 1) if number not in noted]


def _took(job: Job) -> str:
    if job.started_at is None or job.finished_at is None:
        return ""
    return f" in {span((job.finished_at - job.started_at).total_seconds())}"


def _events(job: Job, now: datetime) -> Iterator[str]:
    """Tell what happened to a job, from its enqueue to its end."""
    yield f"{INDENT}{colour.bold('enqueued')}"
    yield from _facts({"at": iso(job.created_at)}, now)
    if len(job.errors) >= KEPT:
        yield colour.dim(f"{INDENT}... of what comes here the last {KEPT} are kept")
    before = None
    quiet = quiet_attempts(job)
    for entry in job.errors:
        for number in _noted([entry]):
            yield from _quiet([each for each in quiet if each < number])
            quiet = [each for each in quiet if each > number]
        yield from _entry(entry, now, before)
        before = entry.get("traceback")
    yield from _quiet(quiet)
    if job.status is Status.RUNNING and job.started_at is not None:
        yield f"{INDENT}{colour.bold(f'attempt {job.attempts} started')}"
        yield from _facts({"worker": job.worker, "at": iso(job.started_at)}, now)
    if job.status is Status.SUCCEEDED and job.finished_at is not None:
        yield f"{INDENT}{colour.bold(f'attempt {job.attempts} succeeded')}"
        told = {"started_at": job.started_at, "ended_at": job.finished_at}
        instants = {name: iso(at) for name, at in told.items() if at is not None}
        yield from _facts({"worker": job.worker, **instants}, now)


def _ran_last(job: Job) -> bool:
    """Say whether the status tells of the last attempt, and not of what came then."""
    # A job that waits is cancelled without being asked.
    if job.status is Status.CANCELLED:
        return job.cancel_requested_at is not None
    return job.status is not Status.PENDING


def _noted(errors: Iterable[Mapping[str, JSON]]) -> set[int]:
    """Number the attempts of which there is an entry."""
    numbers = (entry.get("attempt") for entry in errors)
    return {number for number in numbers if isinstance(number, int)}


def _quiet(numbers: Sequence[int]) -> Iterator[str]:
    if not numbers:
        return
    first, last = numbers[0], numbers[-1]
    which = f"attempt {first}" if first == last else f"attempts {first} to {last}"
    yield f"{INDENT}{colour.bold(f'{which} snoozed or released')}"


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
        return f"{iso(value)}  {away}"
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
    if "by" in left:
        title = f"{title} by {left.pop('by')}"
    yield f"{INDENT}{colour.bold(printable(str(title)))}"
    if "type" in error:
        yield from _lines(in_words(error), INDENT * 2)
    yield from _facts(left, now)
    if traceback is not None and traceback == before:
        yield colour.dim(f"{INDENT * 3}the same traceback")
    elif traceback is not None:
        yield from _lines(str(traceback), INDENT * 3)


def _facts(facts: Mapping[str, JSON], now: datetime) -> Iterator[str]:
    told = {key: value for key, value in facts.items() if value is not None}
    width = max(map(len, told), default=0)
    for key, value in told.items():
        yield f"{INDENT * 2}{colour.dim(f'{key:<{width}}')}  {_dated(value, now)}"


def _dated(value: JSON, now: datetime) -> str:
    try:
        instant = datetime.fromisoformat(str(value))
        return f"{value}  {relative(instant, now)}"
    except (ValueError, TypeError):  # no instant, or none with a zone
        return printable(str(value))


def _lines(text: str, indent: str) -> Iterator[str]:
    for line in text.rstrip().splitlines():
        yield f"{indent}{printable(line.expandtabs(4))}".rstrip()
