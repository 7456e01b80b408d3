"""Figures: what is counted for an operator who asks, as a seam of its own."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple, Protocol

# More jobs than these before one aren't counted.
AHEAD_COUNTED = 10_000


class Place(NamedTuple):
    """
    Where a pending job stands: how many due jobs are claimed before it.

    Of those `by_priority` come first by theirs; both end at `AHEAD_COUNTED`. A suspect
    stands among suspects.
    """

    is_suspect: bool
    ahead: int
    by_priority: int


class Figures(Protocol):
    """What can be counted in a store, at a price that only an operator pays."""

    async def now(self) -> datetime:
        """Tell the store's time, which its instants are compared with (law 14)."""
        ...

    async def place(self, job_id: int, *, tasks: Collection[str]) -> Place | None:
        """
        Tell where a job stands among the due ones of these tasks in its queue.

        None where it isn't pending.
        """
        ...
