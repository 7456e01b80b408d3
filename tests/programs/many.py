"""
A worker that runs many jobs that do nothing, and tells its memory as it goes.

Arguments: a URL, and how many. Half are async, half in threads. Each line is how many
are over, and the megabytes in use then.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from pathlib import Path

from rowlock import App

BATCH = 5000


def resident_mb() -> float:
    """Tell how much memory this process has, in MB."""
    if (statm := Path("/proc/self/statm")).exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS: the most


async def main(url: str, count: int) -> None:
    app = App(url)
    over = 0

    @app.task
    async def on_loop(number: int) -> None:  # noqa: ARG001 - jobs differ
        nonlocal over
        over += 1

    @app.task
    def in_thread(number: int) -> None:
        pass

    began = time.monotonic()
    async with app, app.worker(concurrency=50):
        for start in range(0, count, BATCH):
            jobs = [
                (on_loop if n % 2 else in_thread).job(number=n)
                for n in range(start, min(start + BATCH, count))
            ]
            ids = await app.enqueue_many(jobs)
            del jobs
            await app.wait(max(each or 0 for each in ids), timeout=300)
            gc.collect()
            took = time.monotonic() - began
            print(start + BATCH, f"{resident_mb():.1f}", f"{took:.1f}", flush=True)  # noqa: T201 - what it is for
    assert over == count // 2


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
