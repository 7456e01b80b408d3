"""
The benchmarks' command line.

Timings depend on the machine and on what else it does: compare figures of one run, as
ratios, and several runs by their medians.
"""

from __future__ import annotations

import asyncio

import click

from benchmarks import drain as drain_benchmark
from benchmarks import launch as launch_benchmark
from benchmarks import pickup as pickup_benchmark
from benchmarks.databases import place

STORE = click.option(
    "--store",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    help="Which.",
)
URL = click.option(
    "--url", help="A Postgres to make databases on; else one is started, with fsync."
)

PICKUPS = 300


@click.group()
def main() -> None:
    """Measure Rowlock on this machine."""


@main.command()
@STORE
@URL
@click.option("--jobs", type=int, default=20_000, help="How many jobs a run.")
@click.option("--runs", type=int, default=3, help="Runs a setting; medians are told.")
def drain(store: str, url: str | None, jobs: int, runs: int) -> None:
    """Drain a full queue with one process, then tell how soon an idle one begins."""
    with place(store, url) as found:
        asyncio.run(drain_benchmark.run(found, jobs=jobs, runs=runs))
        asyncio.run(pickup_benchmark.run(found, jobs=PICKUPS))


@main.command()
@STORE
@URL
@click.option("--jobs", type=int, default=500, help="How many jobs, one by one.")
def pickup(store: str, url: str | None, jobs: int) -> None:
    """Tell how long an idle worker takes to begin a job of another process."""
    with place(store, url) as found:
        asyncio.run(pickup_benchmark.run(found, jobs=jobs))


@main.command()
@click.option("--runs", type=int, default=15, help="Runs a program; medians are told.")
def launch(runs: int) -> None:
    """Tell what an import, the help, and a process that enqueues cost to start."""
    launch_benchmark.run(runs=runs)


main(prog_name="python -m benchmarks")
