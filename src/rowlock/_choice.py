"""Which jobs a verb is about: ids that were named, or those that a filter fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rowlock._errors import UsageError
from rowlock._filter import Filter
from rowlock._job import TAKES, VerbName, check_ids

if TYPE_CHECKING:
    from rowlock._store import Store

Where: TypeAlias = int | Iterable[int] | Filter
"""Which jobs an operator's verb means: an id, ids, or a `Filter`."""

# How many ids one read gives; no job is read for it.
LARGEST_SEARCH = 20_000


class Choice(NamedTuple):
    """
    Ids in the order in which they were named, or by a filter: then newest first.

    By a filter they are those that the verb can be done to, and all of them are known
    before the first is touched: what a verb changes doesn't change what it is about.
    """

    ids: Sequence[int]
    is_cut: bool = False


async def choose(store: Store, where: Where, verb: VerbName) -> Choice:
    """
    Find the jobs that are meant.

    Raises:
        UsageError: an id is none, the filter is empty, or asks for a status that the
            verb never takes.
    """
    if not isinstance(where, Filter):
        return Choice(check_ids(where))
    if where.is_empty:
        msg = (
            "An empty Filter() fits every job: say which jobs are meant, or"
            " Filter(all=True)."
        )
        raise UsageError(msg)
    check_takes(where, verb, verb)
    found: set[int] = set()
    is_cut = False
    for status in TAKES[verb] if where.status is None else (where.status,):
        part = await _search(store, replace(where, all=False, status=status))
        found.update(part.ids)
        is_cut = is_cut or part.is_cut
    return Choice(sorted(found, reverse=True), is_cut)


def check_takes(where: Filter, verb: VerbName, called: str) -> None:
    """Refuse a filter for what a verb can't be done to; `called` is its name there."""
    asked, takes = where.status, TAKES[verb]
    if asked is not None and asked not in takes:
        msg = f"{called} takes {' and '.join(takes)} jobs, and none that is {asked}."
        raise UsageError(msg)


async def _search(store: Store, where: Filter) -> Choice:
    ids: list[int] = []
    while True:
        after = ids[-1] if ids else None
        found = await store.search(where, after=after, limit=LARGEST_SEARCH)
        ids += found.ids
        # Payloads are looked at once: among the newest, which are one read.
        if len(found.ids) < LARGEST_SEARCH or where.payload is not None:
            return Choice(ids, found.is_cut)
