"""
Where a value can't be stored as JSON and come back, and why.

A value is refused at the door unless it comes back equal and of the same type, on
every store alike. Two questions are asked of it: `difference` compares what was
given with what was read back, which is the way of every payload; `unstorable` looks
for the culprit where there is nothing to compare with.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Any, cast
from uuid import UUID

import msgspec

from rowlock._codec.pydantic_models import contents, is_model

# A level costs a few frames of Python's stack, in the worker as here; this many fit
# wherever in a program either stands, and no data is as deep.
MAX_DEPTH = 100

# What Python reads unless told otherwise (sys.set_int_max_str_digits).
_TOO_LARGE = 10**4300

_SCALARS = frozenset(
    {NoneType, bool, int, float, str, bytes, bytearray, date, timedelta, UUID}
)
_KNOWN = _SCALARS | {datetime, time, Decimal, memoryview}
_LONGEST_SHOWN = 80
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """
    What is wrong and where, the path as seen from the value that was looked at.

    `wanted` names the annotation that would keep the value as it is. A misfit is one
    that no annotation reads, whether it came from a call or from JSON that was typed.
    """

    problem: str
    path: str = ""
    wanted: str | None = None
    is_misfit: bool = False
    cause: Exception | None = None

    def because(self, cause: Exception) -> Fault:
        """Tell the same fault with what raised."""
        return dataclasses.replace(self, cause=cause)

    def inside(self, segment: str) -> Fault:
        """Tell the same fault as seen from the container."""
        return dataclasses.replace(self, path=segment + self.path)


_TOO_DEEP = Fault(f"it is nested more than {MAX_DEPTH} levels deep, or contains itself")


def difference(sent: object, back: object) -> Fault | None:
    """
    Find the first part that didn't come back equal and of the same type.

    An int may come back as the equal float, where the annotation is float.
    """
    try:
        return _difference(sent, back, MAX_DEPTH)
    except RecursionError:
        return _TOO_DEEP


def _difference(sent: object, back: object, depth: int) -> Fault | None:
    kind = type(sent)
    if kind is not type(back):
        if kind is int and type(back) is float and sent == back:
            return None
        return _value_fault(sent) or _changed_type(sent, back)
    if kind in _SCALARS:
        return None if sent == back else _changed_value(sent)
    if depth == 0:
        return _TOO_DEEP
    return _DIFFERENCES.get(kind, _object_difference)(sent, back, depth - 1)


def _dict_difference(
    sent: dict[object, object], back: dict[object, object], depth: int
) -> Fault | None:
    if len(sent) != len(back):
        return _dropped_key(sent, back)
    # JSON keeps the order, so the pairs match unless a key changed.
    for (key, value), (key_back, value_back) in zip(
        sent.items(), back.items(), strict=True
    ):
        if key != key_back or type(key) is not type(key_back):
            return _key_fault(key) or _changed_key(key, key_back)
        fault = _difference(value, value_back, depth)
        if fault is not None:
            return fault.inside(segment(key))
    return None


def _dropped_key(
    sent: dict[object, object], back: dict[object, object]
) -> Fault | None:
    for key in sent:
        fault = _key_fault(key)
        if fault is not None:
            return fault
    for key in sent:
        if key not in back:
            problem = "its annotation has no such key, so that it would be dropped"
            return Fault(problem, segment(key))
    return _changed_value(sent)


def _item_difference(
    sent: list[object], back: list[object], depth: int
) -> Fault | None:
    if len(sent) != len(back):
        return _changed_value(sent)
    for index, value in enumerate(sent):
        fault = _difference(value, back[index], depth)
        if fault is not None:
            return fault.inside(f"[{index}]")
    return None


def _set_difference(sent: set[object], back: set[object], depth: int) -> Fault | None:
    # Members that are equal may differ in type, and they come back in any order.
    held = {member: member for member in back}
    for index, value in enumerate(sent):
        if value not in held:
            return (_value_fault(value) or _changed_value(value)).inside(f"[{index}]")
        fault = _difference(value, held[value], depth)
        if fault is not None:
            return fault.inside(f"[{index}]")
    return None if len(sent) == len(back) else _changed_value(sent)


def _object_difference(sent: object, back: object, depth: int) -> Fault | None:
    fault = _value_fault(sent)
    if fault is not None:
        return fault
    if isinstance(sent, datetime):
        return _zone_difference(sent, cast("datetime", back))
    kind: Any = type(sent)
    names = _field_names(kind)
    if names is None:
        fault = None
        if is_model(kind):
            fault = _difference(contents(sent), contents(back), depth)
        return fault or (None if sent == back else _changed_value(sent))
    for name in names:
        fault = _difference(getattr(sent, name), getattr(back, name), depth)
        if fault is not None:
            return fault.inside(f".{name}")
    return None


def _zone_difference(sent: datetime, back: datetime) -> Fault | None:
    # Not `sent == back`, which is never true of two zones in the hour that a clock
    # is put back.
    if sent.utcoffset() == back.utcoffset() and sent.replace(
        tzinfo=None
    ) == back.replace(tzinfo=None):
        return None
    problem = (
        "its UTC offset has seconds, which JSON doesn't keep: use .astimezone(UTC)"
    )
    return Fault(problem)


_DIFFERENCES: dict[type, Callable[[Any, Any, int], Fault | None]] = {
    dict: _dict_difference,
    list: _item_difference,
    tuple: _item_difference,
    set: _set_difference,
    frozenset: _set_difference,
}


def unstorable(value: object, *, in_model: bool = False) -> Fault | None:
    """
    Find the first part that no store takes, or that can't be written as JSON.

    A model's own parts may be of any type, since it writes them itself.
    """
    try:
        return _unstorable(value, in_model=in_model)
    except RecursionError:
        return _TOO_DEEP


def _unstorable(value: object, *, in_model: bool) -> Fault | None:
    parts = _parts(value)
    if parts is None:
        return _value_fault(value) or (None if in_model else _unknown_type(value))
    if isinstance(value, dict) and not in_model:
        for key in value:
            fault = _key_fault(key)
            if fault is not None:
                return fault
    in_model = in_model or is_model(type(value))
    for step, part in parts:
        fault = _unstorable(part, in_model=in_model)
        if fault is not None:
            return fault.inside(step)
    return None


def _parts(value: object) -> Iterable[tuple[str, object]] | None:
    kind: Any = type(value)
    if kind in _KNOWN:
        return None
    if isinstance(value, dict):
        return ((segment(key), part) for key, part in value.items())
    names = _field_names(kind)
    if names is not None:
        return (
            (f".{name}", part)
            for name in names
            if (part := getattr(value, name)) is not msgspec.UNSET
        )
    if isinstance(value, list | tuple | set | frozenset):
        return ((f"[{index}]", part) for index, part in enumerate(value))
    return _parts(contents(value)) if is_model(kind) else None


@lru_cache(maxsize=1024)
def _field_names(kind: Any) -> tuple[str, ...] | None:  # noqa: ANN401 - any class
    if issubclass(kind, msgspec.Struct):
        return tuple(kind.__struct_fields__)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple(kind._fields)
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(field.name for field in kind.__attrs_attrs__)
    return None


def segment(key: object) -> str:
    """Write a dict's key as a step of a path."""
    name = str(key)
    return f".{name}" if name.isidentifier() else f"[{name!r}]"


def _value_fault(value: object) -> Fault | None:
    if isinstance(value, str):
        return _text_fault(value, "it")
    if isinstance(value, int | float | Decimal):
        return _number_fault(value)
    if isinstance(value, datetime | time):
        return _zone_fault(value)
    return None


def _number_fault(value: float | Decimal) -> Fault | None:
    if isinstance(value, int):
        if abs(value) < _TOO_LARGE:
            return None
        return Fault("it has more than 4300 digits, which Python won't read: split it")
    finite = value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)
    if finite:
        return None
    return Fault(f"it is {value}, which JSON doesn't have: pass None or a string")


def _zone_fault(value: datetime | time) -> Fault | None:
    if value.utcoffset() is not None:
        return None
    if isinstance(value, datetime):
        problem = (
            "it has no time zone: write datetime.now(UTC), or set one with"
            " .replace(tzinfo=...)"
        )
        return Fault(problem)
    if value.tzinfo is None:
        return None
    problem = (
        "it has a time zone that has no offset without a date, and would be lost:"
        " pass the zone's name beside it"
    )
    return Fault(problem)


def _key_fault(key: object) -> Fault | None:
    if not isinstance(key, str):
        problem = (
            f"its key {shortened(repr(key))} is `{name_of(type(key))}`, and JSON's keys"
            " are strings: pass str(key)"
        )
        return Fault(problem)
    return _text_fault(key, f"its key {shortened(repr(key))}")


def _text_fault(text: str, what: str) -> Fault | None:
    if "\0" in text:
        return Fault(
            f"{what} has the character U+0000, which no store takes: remove it"
        )
    found = _SURROGATE.search(text)
    if found is None:
        return None
    problem = (
        f"{what} has the lone surrogate U+{ord(found[0]):04X}, which isn't text:"
        " remove it, or pass bytes"
    )
    return Fault(problem)


def _unknown_type(value: object) -> Fault | None:
    if type(value) in _KNOWN or isinstance(value, Enum):
        return None
    problem = (
        f"it is `{name_of(type(value))}`, which can't be written as JSON: pass what it"
        " is made of (str, int, list, dict ...), and make it again from that"
    )
    return Fault(problem)


def _changed_type(sent: object, back: object) -> Fault:
    name, name_back = name_of(type(sent)), name_of(type(back))
    problem = f"it is `{name}` and would come back as `{name_back}`: pass `{name_back}`"
    # To annotate a subclass of what JSON has, such as OrderedDict, is no way out.
    plain = isinstance(sent, type(back)) and not isinstance(sent, Enum)
    return Fault(problem, wanted=None if plain else name)


def _changed_value(sent: object) -> Fault:
    return Fault(f"it is `{name_of(type(sent))}` and wouldn't come back equal")


def _changed_key(key: object, key_back: object) -> Fault:
    fault = _changed_type(key, key_back)
    problem = fault.problem.replace("it is", f"its key {shortened(repr(key))} is", 1)
    return dataclasses.replace(fault, problem=problem)


def shortened(text: str) -> str:
    """Cut what goes into a sentence: a key or a path may be of any length."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def name_of(kind: type) -> str:
    """Name a type as its user would write it, with its module."""
    if kind is NoneType:
        return "None"
    if kind.__module__ == "builtins":
        return kind.__qualname__
    # Private modules are where a library happens to keep it: `pathlib._local` in 3.13.
    parts = (part for part in kind.__module__.split(".") if not part.startswith("_"))
    return ".".join([*parts, kind.__qualname__])
