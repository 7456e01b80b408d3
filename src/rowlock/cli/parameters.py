"""Options that several commands share, and the kinds of values they take."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import click

from rowlock._durations import to_delay
from rowlock._errors import UsageError
from rowlock._job import check_id
from rowlock._options import check_interval, check_lease, check_name
from rowlock._served import HEAVIEST
from rowlock.cli import colour
from rowlock.cli.documents import Output

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# Fewer than those of which Python refuses to make a number.
_DIGITS = re.compile("[0-9]{1,30}")
# What looks like an app's name.
APP = re.compile(r"[\w.]+:[\w.]+")
_LAST_PORT = 65_535
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def read_name(
    _ctx: click.Context, param: click.Parameter, value: str | None
) -> str | None:
    """
    Read a task, a queue, a key, an app or a URL: a text that a store takes.

    Empty it is refused, or a variable that isn't set would name another database.
    """
    return None if value is None else check_name(value, param.opts[0])


def read_names(
    _ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Read names, None where there are none."""
    return tuple(check_name(value, param.opts[0]) for value in values) or None


def read_limits(
    _ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> Mapping[str, int | None] | None:
    """Read queues, each with how many of it run at once or none; None: no queue."""
    limits: dict[str, int | None] = {}
    for value in values:
        queue, limit = value, None
        if "=" in value:
            queue, limit = _counted(value, param.opts[0])
        check_name(queue, param.opts[0])
        _add(limits, queue, limit, param.opts[0])
    return limits or None


def read_weights(
    _ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> Mapping[str, int]:
    """Read how queues count beside others."""
    option, weights = param.opts[0], dict[str, int]()
    for value in values:
        queue, weight = _counted(value, option)
        if weight > HEAVIEST:
            msg = f"{option} {queue} is {HEAVIEST} at most, not {weight}."
            raise UsageError(msg)
        _add(weights, queue, weight, option)
    return weights


def _add(counts: dict[str, T], queue: str, count: T, option: str) -> None:
    if counts.setdefault(queue, count) != count:
        msg = f"{option} {queue} is given twice, with two numbers."
        raise UsageError(msg)


def _counted(value: str, option: str) -> tuple[str, int]:
    """Read a name and a count, as in mail=10."""
    name, _, count = value.rpartition("=")
    if not name or not _DIGITS.fullmatch(count) or not int(count):
        msg = (
            f"{option} takes the name of a queue and a whole number from 1 on, as in"
            f" mail=10, not {value!r}."
        )
        raise UsageError(msg)
    return name, int(count)


def read_id(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> int | None:
    """Read a job's id."""
    return None if value is None else _id(value)


def read_ids(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> tuple[int, ...]:
    """Read ids of jobs."""
    return tuple(_id(value) for value in values)


def _id(value: str) -> int:
    if APP.fullmatch(value):
        msg = f"{value!r} is no job's id. An app is named by -A {value}."
        raise UsageError(msg)
    return check_id(int(value) if _DIGITS.fullmatch(value) else value)


def read_seconds(
    _ctx: click.Context, param: click.Parameter, value: str | None
) -> timedelta | None:
    """Read a duration: a number of seconds, or of what the letter behind it says."""
    if value is None:
        return None
    number, unit = (value[:-1], value[-1]) if value[-1:] in _UNITS else (value, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        msg = (
            f"{param.opts[0]} takes a number of seconds, or a duration as in 10m, 2h or"
            f" 3d, not {value!r}."
        )
        raise UsageError(msg) from None
    return to_delay(seconds, param.opts[0])


def read_lease(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> timedelta | None:
    """Read a lease."""
    seconds = read_seconds(ctx, param, value)
    return None if seconds is None else check_lease(seconds, param.opts[0])


def read_interval(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> timedelta | None:
    """Read how often, or after how long, something is done."""
    seconds = read_seconds(ctx, param, value)
    return None if seconds is None else check_interval(seconds, param.opts[0])


class Address(NamedTuple):
    """Where something is served."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_address(
    _ctx: click.Context, param: click.Parameter, value: str | None
) -> Address | None:
    """Read a host and a port; without a host it is every one of this machine."""
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not _DIGITS.fullmatch(port) or int(port) > _LAST_PORT:
        msg = (
            f"{param.opts[0]} takes a host and a port, as in 127.0.0.1:8080, not"
            f" {value!r}."
        )
        raise UsageError(msg)
    return Address(host or "0.0.0.0", int(port))  # noqa: S104 - what `:8080` says


def read_rate(
    _ctx: click.Context, param: click.Parameter, value: str | None
) -> float | None:
    """Read jobs a second, or in what is behind the slash."""
    if value is None:
        return None
    number, slash, unit = value.partition("/")
    try:
        rate = float(number) / _UNITS[unit if slash else "s"]
    except (ValueError, KeyError):
        rate = 0.0
    if not 0 < rate < math.inf:
        msg = (
            f"{param.opts[0]} takes jobs a second, as in 50 or 50/s, or in 100/m and"
            f" 1000/h, not {value!r}."
        )
        raise UsageError(msg)
    return rate


def read_instant(
    _ctx: click.Context, param: click.Parameter, value: str | None
) -> datetime | None:
    """Read an instant with its time zone, as ISO-8601 writes it."""
    if value is None:
        return None
    example = "write it as 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00"
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        msg = f"{param.opts[0]} takes an instant, not {value!r}: {example}."
        raise UsageError(msg) from None
    if instant.utcoffset() is None:
        msg = f"{param.opts[0]} has no time zone in {value!r}: {example}."
        raise UsageError(msg)
    return instant


def app_option(function: F) -> F:
    """Add `-A`, which names the app."""
    return click.option(
        "-A",
        "--app",
        "named_app",
        metavar="MODULE:ATTRIBUTE",
        default=None,
        callback=read_name,
        help="The app, as in shop:app; else ROWLOCK_APP, else pyproject.toml.",
    )(function)


class Place(NamedTuple):
    """Which database is meant: the one named, else that of an app."""

    database: str | None
    named_app: str | None


def place_options(function: Callable[..., T]) -> Callable[..., T]:
    """Add `--database` and `-A`, and hand on as `place` what they say."""

    @click.option(
        "--database",
        metavar="URL",
        default=None,
        callback=read_name,
        help="Where the jobs are; else the app's, else ROWLOCK_DATABASE_URL, else"
        " DATABASE_URL, else sqlite:///rowlock.db.",
    )
    @app_option
    @functools.wraps(function)
    def placed(
        *args: object, database: str | None, named_app: str | None, **rest: object
    ) -> T:
        return function(*args, place=Place(database, named_app), **rest)

    return placed


def colour_option(function: F) -> F:
    """Add `--no-color`, which each command has, since nobody knows where it goes."""
    return click.option(
        "--no-color",
        is_flag=True,
        default=False,
        is_eager=True,
        expose_value=False,
        callback=colour.refuse,
        help="Show no colours; NO_COLOR=1 does the same.",
    )(function)


def output_options(function: Callable[..., T]) -> Callable[..., T]:
    """Add `--json` and `--jsonl`, and hand on as `output` what is asked for."""

    @click.option(
        "--json",
        "as_json",
        is_flag=True,
        default=False,
        help="Print one JSON document.",
    )
    @click.option(
        "--jsonl",
        "as_jsonl",
        is_flag=True,
        default=False,
        help="Print one JSON document a line.",
    )
    @colour_option
    @functools.wraps(function)
    def with_output(*args: object, as_json: bool, as_jsonl: bool, **rest: object) -> T:
        if as_json and as_jsonl:
            msg = "Say either --json or --jsonl, not both."
            raise UsageError(msg)
        return function(*args, output=Output(as_json, as_jsonl), **rest)

    return with_output
