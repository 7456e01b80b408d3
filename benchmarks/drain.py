"""
How many jobs a second one process runs, when all are there from the start.

Timed is from the worker's start until the last outcome is written. CPU is that of this
process, which for an embedded store holds the store's work too, and of the server.
"""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import dataclass
from statistics import median

import click

from benchmarks.databases import Place
from rowlock.events import AttemptSucceeded, Event

DEFAULT_CONCURRENCY = 5
# Tried in turn; the fastest is told as the best setting.
CONCURRENCIES = (50, 200, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One run."""

    jobs_per_s: float
    cpu_us_per_job: float
    server_us_per_job: float | None


async def run(place: Place, *, jobs: int, runs: int) -> None:
    """Measure each setting and print the medians."""
    gc.freeze()  # as `rowlock worker` does
    click.echo(f"drain, store {place.store}, {jobs} no-op jobs, median of {runs} runs")
    medians: dict[int, Figure] = {}
    for concurrency in (DEFAULT_CONCURRENCY, *CONCURRENCIES):
        figures = [await _drain(place, jobs, concurrency) for _ in range(runs)]
        on_server = [
            figure.server_us_per_job
            for figure in figures
            if figure.server_us_per_job is not None
        ]
        medians[concurrency] = Figure(
            jobs_per_s=median(figure.jobs_per_s for figure in figures),
            cpu_us_per_job=median(figure.cpu_us_per_job for figure in figures),
            server_us_per_job=median(on_server) if on_server else None,
        )
        _tell(f"concurrency {concurrency:>4}", medians[concurrency])
    best = max(medians, key=lambda concurrency: medians[concurrency].jobs_per_s)
    _tell(f"best setting: {best}", medians[best])
    _tell(f"defaults: {DEFAULT_CONCURRENCY}", medians[DEFAULT_CONCURRENCY])


async def _drain(place: Place, jobs: int, concurrency: int) -> Figure:
    async with place.fresh_app() as (app, _):
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
        on_server = place.server_cpu_s()
        began, cpu = time.perf_counter(), time.process_time()
        async with app.worker(concurrency=concurrency):
            await done.wait()
            took = time.perf_counter() - began
            cpu = time.process_time() - cpu
        burnt = place.server_cpu_s()
        return Figure(
            jobs_per_s=jobs / took,
            cpu_us_per_job=cpu / jobs * 1e6,
            server_us_per_job=(
                None
                if on_server is None or burnt is None
                else (burnt - on_server) / jobs * 1e6
            ),
        )


def _tell(setting: str, figure: Figure) -> None:
    server = (
        ""
        if figure.server_us_per_job is None
        else f", {figure.server_us_per_job:.0f} us of the server"
    )
    click.echo(
        f"{setting:<20} {figure.jobs_per_s:>9,.0f} jobs/s"
        f" {figure.cpu_us_per_job:>7.0f} us CPU a job{server}"
    )
