"""What a payload, and any other text that is stored, may be: its size, its letters."""

from __future__ import annotations

import re

MAX_PAYLOAD = 1024 * 1024

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> str:
    r"""
    Put U+FFFD for what no store takes: U+0000 and lone surrogates.

        >>> print(ascii(storable("bad\0")))
        'bad\ufffd'
    """
    return _UNSTORABLE.sub("\ufffd", text)
