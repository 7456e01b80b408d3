"""
Idempotency keys: what it means that a key is held, where no database has to say it.

`on_conflict` is what becomes of a call whose key another job holds: a duplicate, an
error where it means something else, or what that job is given instead.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

from rowlock._errors import KeyConflict, UsageError
from rowlock._job import NewJob, OnConflict, check_jobs


def check_on_conflict(value: object, argument: str) -> OnConflict:
    """Read what becomes of a call whose key is held."""
    if value not in get_args(OnConflict):
        msg = f"{argument} is 'skip', 'raise' or 'replace', not {value!r}."
        raise UsageError(msg)
    return value  # type: ignore[return-value]  # one of them


def conflict(job: NewJob, job_id: int | None) -> KeyConflict:
    """Name the job that is in the way of another; None is one of the same call."""
    return KeyConflict(job.task, str(job.idempotency_key), job_id)


def check_spawned(jobs: object, call: str) -> list[NewJob]:
    """Read jobs that are to go in with an outcome."""
    listed = check_jobs(jobs, call)
    for job in listed:
        if job.on_conflict == "raise":
            msg = (
                f"{call} takes no job that may raise, as {job.task!r} with"
                " on_conflict='raise': it goes in with the end of an attempt, when"
                " nobody is there to be told. Use 'skip' or 'replace'."
            )
            raise UsageError(msg)
    return listed


def spawned_of(job: NewJob) -> NewJob:
    """
    Make a job fit to go in with an outcome, which no conflict may keep out.

    It is a duplicate where the code that runs would have it raise.
    """
    return replace(job, on_conflict="skip") if job.on_conflict == "raise" else job


def is_same(one: str, other: str) -> bool:
    """
    Say whether two payloads mean the same: the order of an object's keys is nothing.

        >>> is_same('{"a":1,"b":[2]}', '{"b":[2.0],"a":1}'), is_same("[1]", "[true]")
        (True, False)
    """
    if one == other:
        return True
    try:
        return _is_same(_read(one), _read(other))
    except (ValueError, RecursionError):  # a hand has written what isn't JSON
        return False


def _read(text: str) -> object:
    from decimal import Decimal

    # Numbers as they are written: a float would take two of them for one.
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _is_same(value, other[name]) for name, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and one == other
