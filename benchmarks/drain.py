"""
How many jobs a second one process runs, when all are there from the start.

Timed is from the worker's start until the last outcome is written. CPU is that of this
process, so for an embedded store it holds the store's work too.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click

from rowlock import App
from rowlock._events import AttemptSucceeded, Event

DEFAULT_CONCURRENCY = 5
# Tried in turn; the fastest is told as the best setting.
CONCURRENCIES = (50, 200, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One run."""

    jobs_per_s: float
    cpu_us_per_job: float


async def run(store: str, *, jobs: int, runs: int) -> None:
    """Measure each setting and print the medians."""
    click.echo(f"drain, store {store}, {jobs} no-op jobs, median of {runs} runs")
    medians: dict[int, Figure] = {}
    for concurrency in (DEFAULT_CONCURRENCY, *CONCURRENCIES):
        figures = [await _drain(store, jobs, concurrency) for _ in range(runs)]
        medians[concurrency] = Figure(
            jobs_per_s=median(figure.jobs_per_s for figure in figures),
            cpu_us_per_job=median(figure.cpu_us_per_job for figure in figures),
        )
        _tell(f"concurrency {concurrency:>4}", medians[concurrency])
    best = max(medians, key=lambda concurrency: medians[concurrency].jobs_per_s)
    _tell(f"best setting: {best}", medians[best])
    _tell(f"defaults: {DEFAULT_CONCURRENCY}", medians[DEFAULT_CONCURRENCY])


async def _drain(store: str, jobs: int, concurrency: int) -> Figure:
    async with _fresh_app(store) as app:
        done = asyncio.Event()
        left = jobs

        @app.task
        async def nothing(n: int) -> None:
            pass

        def count(event: Event) -> None:
            nonlocal left
            if isinstance(event, AttemptSucceeded):
                left -= 1
                if not left:
                    done.set()

        app.listen(count)
        await app.enqueue_many(nothing.job(n=n) for n in range(jobs))
        began, cpu = time.perf_counter(), time.process_time()
        async with app.worker(concurrency=concurrency):
            await done.wait()
            took = time.perf_counter() - began
            cpu = time.process_time() - cpu
        return Figure(jobs_per_s=jobs / took, cpu_us_per_job=cpu / jobs * 1e6)


@asynccontextmanager
async def _fresh_app(store: str) -> AsyncIterator[App]:
    with tempfile.TemporaryDirectory(prefix=f"rowlock-{store}-") as folder:
        async with App(f"sqlite:///{Path(folder) / 'bench.db'}") as app:
            yield app


def _tell(setting: str, figure: Figure) -> None:
    click.echo(
        f"{setting:<20} {figure.jobs_per_s:>9,.0f} jobs/s"
        f" {figure.cpu_us_per_job:>7.0f} us CPU a job"
    )
