"""What a payload, and any other text that is stored, may be: its size, its letters."""

from __future__ import annotations

import re

from rowlock._errors import UsageError

MAX_PAYLOAD = 1024 * 1024

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> str:
    r"""
    Put U+FFFD for what no store takes: U+0000 and lone surrogates.

        >>> print(ascii(storable("bad\0")))
        'bad\ufffd'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def check_text(value: object, argument: str, *, longest: int | None = None) -> str:
    """Read a text that a store takes as it is; `argument` names it in the refusal."""
    if not isinstance(value, str) or not value:
        msg = f"{argument} takes a text that isn't empty, not {value!r}."
        raise UsageError(msg)
    if longest is not None and len(value) > longest:
        msg = f"{argument} has at most {longest} characters, not {len(value)}."
        raise UsageError(msg)
    if not is_storable(value):
        msg = f"{argument} can't hold NUL or a lone surrogate: {value!r}."
        raise UsageError(msg)
    return value


def is_storable(text: str) -> bool:
    """Tell whether every store takes a text as it is."""
    return _UNSTORABLE.search(text) is None
