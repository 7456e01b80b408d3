"""
Filters: which jobs are meant, in one grammar for Python, command line and dashboard.

What is None doesn't restrict, and everything that is given must fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import NamedTuple, TypeAlias, TypeGuard

from rowlock._durations import to_delay
from rowlock._errors import UsageError
from rowlock._job import JSON, Status, StatusLike, check_ids, check_status
from rowlock._payload import check_text, is_storable

# Among so many of the newest jobs that fit otherwise are payloads looked at.
PAYLOADS_LOOKED_AT = 20_000

# What a column of counts holds.
_LARGEST = 2**31 - 1
# A larger number isn't written by Python, nor read.
_LARGEST_COMPARED = 10**1000
_BETWEEN = re.compile(r"(-?[0-9]{1,10})?(\.\.)?(-?[0-9]{1,10})?")


class Between(NamedTuple):
    """A range of whole numbers, both ends in it; None is an open end."""

    least: int | None
    most: int | None


ANY = Between(None, None)

BetweenLike: TypeAlias = "int | str | tuple[int | None, int | None]"
"""What `priority=` and `attempts=` take: a number, a pair of bounds, or a text."""


@dataclass(frozen=True, slots=True, init=False)
class Filter:
    """
    Which jobs; what is None doesn't restrict.

    `error` is a text somewhere in the last error, as it is written; `error_type` is
    its type, with or without the module, and `fingerprint` that of `Job.fingerprint`,
    which no job has that succeeded or was cancelled. `priority` and `attempts` are a
    number, or a range as in `"3.."`, `"..-1"`, `"2..5"`. The four ages are the least
    and the most since the creation and since the end, each a `timedelta` or in seconds.
    `payload` has fields as `{"order_id": 42, "customer": {"country": "DE"}}`: of the
    jobs that fit otherwise the newest 20,000 are looked at, and where there are more,
    that is said. `all=True` says that every job is meant, as a verb wants to be told.

        >>> Filter(status="failed", attempts="3..").attempts
        Between(least=3, most=None)
    """

    ids: tuple[int, ...] | None = None
    status: Status | None = None
    task: str | None = None
    queue: str | None = None
    idempotency_key: str | None = None
    error: str | None = None
    error_type: str | None = None
    fingerprint: str | None = None
    priority: Between | None = None
    attempts: Between | None = None
    worker: str | None = None
    older_than: timedelta | None = None
    younger_than: timedelta | None = None
    finished_older_than: timedelta | None = None
    finished_younger_than: timedelta | None = None
    payload: Mapping[str, JSON] | None = field(default=None, hash=False)
    all: bool = False

    def __init__(
        self,
        *,
        ids: Iterable[int] | None = None,
        status: StatusLike | None = None,
        task: str | None = None,
        queue: str | None = None,
        idempotency_key: str | None = None,
        error: str | None = None,
        error_type: str | None = None,
        fingerprint: str | None = None,
        priority: BetweenLike | None = None,
        attempts: BetweenLike | None = None,
        worker: str | None = None,
        older_than: float | timedelta | None = None,
        younger_than: float | timedelta | None = None,
        finished_older_than: float | timedelta | None = None,
        finished_younger_than: float | timedelta | None = None,
        payload: Mapping[str, JSON] | None = None,
        all: bool = False,  # noqa: A002 - what an operator says, as in `--all`
    ) -> None:
        texts = {
            "task": task,
            "queue": queue,
            "idempotency_key": idempotency_key,
            "error": error,
            "error_type": error_type,
            "fingerprint": fingerprint,
            "worker": worker,
        }
        ages = {
            "older_than": older_than,
            "younger_than": younger_than,
            "finished_older_than": finished_older_than,
            "finished_younger_than": finished_younger_than,
        }
        found: dict[str, object] = {
            "ids": None if ids is None else check_ids(ids),
            "status": None if status is None else check_status(status),
            "priority": to_between(priority, "Filter(priority=)"),
            "attempts": to_between(attempts, "Filter(attempts=)"),
            "payload": payload,
            "all": all,
            **{name: _text(value, name) for name, value in texts.items()},
            **{name: _age(value, name) for name, value in ages.items()},
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if self.payload is not None:
            # What can't be compared is refused here, not where it is looked for.
            _check_fields(self.payload)
        if not isinstance(self.all, bool):
            msg = f"Filter(all=) takes True or False, not {self.all!r}."
            raise UsageError(msg)
        if self.all and not replace(self, all=False).is_empty:
            msg = "Filter(all=True) means every job, and goes with nothing else."
            raise UsageError(msg)

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is said, not even that every job is meant."""
        return self == Filter()


TEXTS = (
    *("task", "queue", "idempotency_key", "error", "error_type", "fingerprint"),
    "worker",
)
AGES = ("older_than", "younger_than", "finished_older_than", "finished_younger_than")


def _text(value: object, name: str) -> str | None:
    return None if value is None else check_text(value, f"Filter({name}=)")


def _age(value: float | timedelta | None, name: str) -> timedelta | None:
    return None if value is None else to_delay(value, f"Filter({name}=)")


def to_between(value: object, argument: str) -> Between | None:
    """Read a range: a number, two of them, or a text as in `3..` and `2..5`."""
    match value:
        case None:
            return None
        case bool():
            found = None
        case int():
            found = Between(value, value)
        case str():
            found = _read_between(value)
        case (least, most) if _is_end(least) and _is_end(most):
            found = Between(least, most)
        case _:
            found = None
    if found is None or found == (None, None) or not _is_range(found):
        msg = (
            f"{argument} takes a whole number, or a range as in 3.., ..5 or 3..5, not"
            f" {value!r}."
        )
        raise UsageError(msg)
    return found


def _is_end(value: object) -> TypeGuard[int | None]:
    # To Python True is 1.
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _read_between(text: str) -> Between | None:
    found = _BETWEEN.fullmatch(text)
    if found is None:
        return None
    least, dots, most = found.groups()
    if dots is None:
        # Without dots the first group takes all the digits there are.
        return None if least is None or most else Between(int(least), int(least))
    return Between(
        None if least is None else int(least), None if most is None else int(most)
    )


def _is_range(found: Between) -> bool:
    ends = [end for end in found if end is not None]
    return all(abs(end) <= _LARGEST for end in ends) and ends == sorted(ends)


def _check_fields(payload: object, above: tuple[str, ...] = ()) -> None:
    if not isinstance(payload, Mapping) or not payload:
        msg = (
            "Filter(payload=) takes fields with their values, as in {'order_id': 42},"
            f" not {payload!r}."
        )
        raise UsageError(msg)
    for name, value in payload.items():
        if not isinstance(name, str) or not is_storable(name):
            msg = (
                "Filter(payload=) takes fields by their names, which are texts without"
                f" NUL: {name!r} isn't one."
            )
            raise UsageError(msg)
        if isinstance(value, Mapping):
            _check_fields(value, (*above, name))
        elif not _is_comparable(value):
            # Python refuses to write a number that is as long as that.
            given = "a number too long" if isinstance(value, int) else f"{value!r:.80}"
            msg = (
                "Filter(payload=) compares texts, numbers, true, false and null;"
                f" {'.'.join((*above, name))} is given {given}."
            )
            raise UsageError(msg)


def _is_comparable(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < _LARGEST_COMPARED
    return value is None or (isinstance(value, str) and is_storable(value))
