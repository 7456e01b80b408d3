"""
How long an idle worker takes to begin a job that another process enqueues.

Timed is from before the enqueue until the handler's first line, by the machine's clock.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from statistics import median, quantiles

import click

from benchmarks.databases import Place
from rowlock import App

PAUSE_S = 0.03  # between two jobs: long enough for the worker to be asleep again
START_S = 1.0


async def run(place: Place, *, jobs: int) -> None:
    """Measure, and print the median and the 99th percentile."""
    async with place.fresh_app() as (app, url):
        waits: list[float] = []
        done = asyncio.Event()

        @app.task
        async def begin(at: float) -> None:
            waits.append(time.time() - at)
            if len(waits) == jobs:
                done.set()

        context = multiprocessing.get_context("spawn")
        sender = context.Process(target=_send, args=(url, jobs))
        async with app.worker():
            sender.start()
            await done.wait()
        sender.join()
    in_ms = sorted(1000 * wait for wait in waits)
    click.echo(
        f"pickup, store {place.store}, {jobs} jobs one by one:"
        f" median {median(in_ms):.1f} ms, p99 {quantiles(in_ms, n=100)[98]:.1f} ms"
    )


def _send(url: str, jobs: int) -> None:
    app = App(url)

    @app.task
    async def begin(at: float) -> None: ...

    begin.enqueue_sync(at=time.time())
    time.sleep(START_S)
    for _ in range(jobs - 1):
        time.sleep(PAUSE_S * random.uniform(0.5, 1.5))
        begin.enqueue_sync(at=time.time())
    app.close_sync()
