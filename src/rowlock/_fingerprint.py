"""
What makes two errors the same one: a short hash of their type and message.

What differs from job to job is taken out of the message before: numbers and whatever
has a digit in it, ids, addresses, and what stands in quotes. Only the first line
counts: after it come a statement's text and its parameters.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from rowlock._job import JSON

LENGTH = 8
# Of a message so much is read; a worker keeps no more of one.
READ = 2048
SHOWN = 200

# One pass, and nothing that could be tried in many ways: whatever a message holds, each
# of its places is looked at a bounded number of times.
_TAKEN_OUT = re.compile(
    r"""
    # The status of an answer says what went wrong: '404 Not Found'.
    (?P<kept> (?<=['"]) [1-5]\d\d (?= [ ][A-Z][a-z]) )
    # Not an apostrophe. One that the cut has left open goes to the end.
    | (?P<quoted> (?<!\w) [bru]{0,2} (?:
        ' (?! [1-5]\d\d [ ][A-Z][a-z] ) (?: [^'\\] | \\. )* (?: '(?!\w) | \Z )
        | " (?! [1-5]\d\d [ ][A-Z][a-z] ) (?: [^"\\] | \\. )* (?: "(?!\w) | \Z )
        | ` [^`]* (?: ` | \Z )
        | \u201c [^\u201d]* (?: \u201d | \Z )
        | \u00ab [^\u00bb]* (?: \u00bb | \Z )
    ) )
    | (?P<url> \b [a-z][a-z0-9+.-]{1,20} :// [^\s'"<>]+ )
    | (?P<email> (?<![\w.+-]) [\w.+-]{1,64} @ [\w-]+ (?: \.[\w-]+ )* )
    | (?P<number>
        (?<![\w-]) [0-9a-f]{8} (?: -[0-9a-f]{4} ){3} -[0-9a-f]{12} (?!\w)  # a UUID
        | (?<![\w:]) (?: [0-9a-f]{0,4} : ){2,7} [0-9a-f]{0,4} (?![\w:])  # IPv6
        | (?<!\w) [0-9a-f]{16,} (?!\w)
        # A word with a digit, and those that go on with it: 2026-11-30T07:00:00.5+01:00
        | (?<!\w) [-+]? (?=\w*\d) \w+ (?: [.:,+-]+ (?=\w*\d) \w+ )*
    )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_MARKS = {"quoted": "'*'", "url": "<url>", "email": "<email>", "number": "#"}
# Of several the count differs, too.
_SEVERAL = re.compile(r"(#|'\*'|<url>|<email>)(?:,? ?\1)+")


def fingerprint(error: Mapping[str, JSON]) -> str:
    """
    Hash what is the same of an error whenever it happens.

        >>> one = {"type": "LookupError", "message": "no order 42 of 'Ada'"}
        >>> other = {"type": "LookupError", "message": "no order 7 of 'Bo'"}
        >>> fingerprint(one) == fingerprint(other)
        True
    """
    return hashlib.sha256(_same(error).encode("utf-8", "replace")).hexdigest()[:LENGTH]


def same_words(error: Mapping[str, JSON]) -> str:
    """
    Say an error by what is the same of it whenever it happens, on one line.

        >>> same_words({"type": "LookupError", "message": "no order 42 of 'Ada'"})
        "LookupError: no order # of '*'"
    """
    return _same(error)[:SHOWN]


def _same(error: Mapping[str, JSON]) -> str:
    kind = str(error.get("type") or "Error")
    lines = str(error.get("message") or "")[:READ].strip().splitlines()
    first = " ".join(lines[0].split()) if lines else ""
    told = _SEVERAL.sub(r"\1", _TAKEN_OUT.sub(_mark, first))
    return f"{kind}: {told}" if told else kind


def _mark(found: re.Match[str]) -> str:
    return _MARKS.get(found.lastgroup or "", found[0])
