"""
The benchmarks' command line.

Timings depend on the machine and on what else it does: compare figures of one run, as
ratios, and several runs by their medians.
"""

from __future__ import annotations

import asyncio

import click

from benchmarks import drain as drain_benchmark


@click.group()
def main() -> None:
    """Measure Rowlock on this machine."""


@main.command()
@click.option("--store", type=click.Choice(["sqlite"]), default="sqlite", help="Which.")
@click.option("--jobs", type=int, default=20_000, help="How many jobs a run.")
@click.option("--runs", type=int, default=3, help="Runs a setting; medians are told.")
def drain(store: str, jobs: int, runs: int) -> None:
    """Drain a full queue with one process and a no-op async handler."""
    asyncio.run(drain_benchmark.run(store, jobs=jobs, runs=runs))


main(prog_name="python -m benchmarks")
