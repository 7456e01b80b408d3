"""The options of a filter, and how the values that they take are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from rowlock._errors import UsageError
from rowlock._filter import Between, to_between
from rowlock._job import JSON, Status
from rowlock.cli import completion
from rowlock.cli.parameters import read_name, read_seconds

T = TypeVar("T")


def read_between(
    _ctx: click.Context, param: click.Parameter, value: str | None
) -> Between | None:
    """Read a whole number, or a range of them."""
    return to_between(value, param.opts[0])


def read_payload(
    _ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> Mapping[str, JSON] | None:
    """Read fields with their values: JSON, or a text that needs no quotes."""
    payload: dict[str, Any] = {}
    for given in values:
        path, equals, text = given.partition("=")
        if not path or not equals or not _put(payload, path.split("."), _value(text)):
            msg = (
                f"{param.opts[0]} takes a field and its value, each field once, as in"
                f" order_id=42 or customer.country=DE, not {given!r}."
            )
            raise UsageError(msg)
    return payload or None


def _put(payload: dict[str, Any], path: list[str], value: JSON) -> bool:
    """Put a value where the path leads; False: something else is there."""
    *above, name = path
    for step in above:
        inside = payload.setdefault(step, {})
        if not isinstance(inside, dict):
            return False
        payload = inside
    return payload.setdefault(name, value) is value


def _value(text: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def once(read: Callable[..., T]) -> Callable[..., T]:
    """
    Let an option be given once; what click does with a second is to forget the first.

    A list that shows less than was asked for, or a verb that takes less, says nothing
    of it.
    """

    def read_one(
        ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
    ) -> T:
        if len(values) > 1:
            msg = f"{param.opts[0]} takes one value, and is given {len(values)}."
            raise UsageError(msg)
        return read(ctx, param, values[0] if values else None)

    return read_one


def _as_it_is(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    return value


def _age(since: str) -> Mapping[str, Any]:
    return {
        "multiple": True,
        "callback": once(read_seconds),
        "metavar": "DURATION",
        "help": f"Only those {since}, as in 90, 10m, 2h or 3d.",
    }


def _name(what: str, **more: object) -> Mapping[str, Any]:
    return {"multiple": True, "callback": once(read_name), "help": what, **more}


def _range(of: str) -> Mapping[str, Any]:
    return {
        "multiple": True,
        "callback": once(read_between),
        "metavar": "NUMBER",
        "help": f"Only with this {of}, or one in a range as in 3.., ..5 or 3..5.",
    }


# By the filter's own names, in the order in which help shows them.
FILTER_OPTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "status": click.option(
        "--status",
        type=click.Choice([str(status) for status in Status]),
        multiple=True,
        callback=once(_as_it_is),
        help="Only jobs in this status.",
    ),
    "task": click.option(
        "--task", **_name("Only of this task.", shell_complete=completion.tasks)
    ),
    "queue": click.option(
        "--queue", **_name("Only of this queue.", shell_complete=completion.queues)
    ),
    "idempotency_key": click.option(
        "--idempotency-key", **_name("Only with this idempotency key.")
    ),
    "error": click.option(
        "--error", **_name("Only with this text in the last error.", metavar="TEXT")
    ),
    "error_type": click.option(
        "--error-type",
        **_name("Only with a last error of this type.", metavar="TYPE"),
    ),
    "fingerprint": click.option(
        "--fingerprint",
        **_name("Only with this error, as `rowlock jobs dead` names it."),
    ),
    "priority": click.option("--priority", **_range("priority")),
    "attempts": click.option("--attempts", **_range("number of attempts")),
    "worker": click.option(
        "--worker", **_name("Only those that this worker has, or had last.")
    ),
    "older_than": click.option("--older-than", **_age("enqueued longer ago")),
    "younger_than": click.option("--younger-than", **_age("enqueued since")),
    "finished_older_than": click.option(
        "--finished-older-than", **_age("that ended longer ago")
    ),
    "finished_younger_than": click.option(
        "--finished-younger-than", **_age("that ended since")
    ),
    "payload": click.option(
        "--payload",
        multiple=True,
        callback=read_payload,
        metavar="FIELD=VALUE",
        help="Only with this field in the payload, as in order_id=42 or"
        " customer.country=DE; looks at the newest 20,000 that fit otherwise. Can be"
        " given several times.",
    ),
}
