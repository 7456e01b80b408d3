"""Copies a database, and prints by how many MiB its memory grew, and its rate."""

from __future__ import annotations

import asyncio
import resource
import sys
import time

from rowlock._copy import copy
from rowlock.stores import connect


def main(source: str, target: str) -> None:
    """Copy from one URL to another."""
    asyncio.run(_copy(source, target))


async def _copy(source: str, target: str) -> None:
    stores = connect(source), connect(target)
    for store in stores:
        await store.open()
        await store.get([1])
    # Once, so that what is loaded at the first use is there.
    before, began = _used(), time.perf_counter()
    copied = await copy(*stores, lambda _done, _total: None)
    took = time.perf_counter() - began
    grown = (_used() - before) / 1024
    sys.stdout.write(f"{copied.total} {grown:.1f} {copied.total / took:.0f}\n")
    for store in stores:
        await store.close()


def _used() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(*sys.argv[1:])
