"""How things are said to people: how many there are, and which name was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def count(number: float, noun: str) -> str:
    """
    Count things in words.

        >>> count(1, "job"), count(1200, "page")
        ('1 job', '1,200 pages')
    """
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """
    End a sentence with the known name that is nearest, where one is near.

        >>> "There is no task 'gret'" + did_you_mean("gret", ["greet", "bill"])
        "There is no task 'gret'; did you mean 'greet'?"
        >>> did_you_mean("xyz", ["greet"])
        '.'
    """
    near = get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else "."
