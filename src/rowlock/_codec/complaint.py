"""What msgspec complains of in a JSON text, as a fault with the exact path."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from rowlock._codec.faults import Fault, segment

# As in: Expected `int`, got `str` - at `$.prices[...][0]`.
_COMPLAINT = re.compile(r"(.*?)(?: - at (?:`key` in )?`\$(.*)`)?")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def misfit(
    text: bytes | str, error: Exception, read: Callable[[bytes], object]
) -> Fault:
    """Tell what `read` raised for this text."""
    return replace(_told(text, error, read), is_misfit=True)


def _told(
    text: bytes | str, error: Exception, read: Callable[[bytes], object]
) -> Fault:
    if isinstance(error, RecursionError):
        return Fault("it is nested too deeply")
    if not isinstance(error, msgspec.DecodeError):
        return Fault(f"reading it raised {type(error).__name__}: {error}")
    if not isinstance(error, msgspec.ValidationError):
        return Fault(f"it isn't JSON ({error})")
    found = _COMPLAINT.fullmatch(" ".join(str(error).split()))
    problem, path = (found[1], found[2] or "") if found else (str(error), "")
    if "[...]" in path:
        path = _with_keys(path, text, str(error), read)
    field = _FIELD.fullmatch(problem)
    if field is None:
        return Fault(problem[:1].lower() + problem[1:], path)
    problem = "it is missing"
    if field[1] != "missing required":
        problem = f"there is no such {'field' if path else 'parameter'}"
    return Fault(problem, f"{path}.{field[2]}")


def _with_keys(
    path: str, text: bytes | str, complaint: str, read: Callable[[bytes], object]
) -> str:
    """Put the key for each `[...]`, which msgspec writes for any value of a dict."""

    def still_complains() -> bool:
        try:
            read(msgspec.json.encode(document))
        except msgspec.ValidationError as error:
            return str(error) == complaint
        return False

    document = at = msgspec.json.decode(text)
    exact = ""
    for name, index in _STEP.findall(path):
        key: Any = name or index
        if index == "...":
            key = _culprit(at, still_complains)
        elif index:
            key = int(index)
        try:
            at = at[key]
        except (LookupError, TypeError):
            # The type is read from other JSON than its own, as with `array_like`.
            return path
        exact += f"[{index}]" if index.isdigit() else segment(key)
    return exact


def _culprit(values: dict[str, object], still_complains: Callable[[], bool]) -> str:
    """Halve the dict while the complaint stays, until one key is left."""
    items = list(values.items())
    while len(items) > 1:
        half = items[: len(items) // 2]
        values.clear()
        values.update(half)
        items = half if still_complains() else items[len(half) :]
    values.clear()
    values.update(items)
    return items[0][0]
