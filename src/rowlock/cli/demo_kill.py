"""
The demo's act of violence: a process is killed in the middle of a job.

Its lease runs out, the job is recovered, and the next process goes on from what the
first had saved.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from rowlock.cli.demo_exporter import QUEUE, ROWS, export_job, make_app

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from rowlock import App, Job
    from rowlock.cli.demo_view import View

LOOK_S = 0.1
PATIENCE_S = 60.0
KILL_AFTER = ROWS * 2 // 5


async def kill_and_recover(
    app: App, url: str, view: View, *, seconds: float, lease: float
) -> None:
    """Have a process start the export, kill it, and have another one finish it."""
    exporter = make_app(url)
    (job_id,) = await app.enqueue_many([export_job(exporter, seconds)])
    assert job_id is not None  # noqa: S101 - it has no key
    async with asyncio.timeout(PATIENCE_S):
        async with _worker(url, lease) as first:
            view.tell("export", job_id, f"a process of its own starts: {first.pid}")
            await _watch(app, job_id, view, until_rows=KILL_AFTER)
            first.kill()
            await first.wait()
        view.killed(job_id, first.pid, lease)
        async with _worker(url, lease) as second:
            view.tell("export", job_id, f"the next process starts: {second.pid}")
            view.exported(await _watch(app, job_id, view))


@contextlib.asynccontextmanager
async def _worker(url: str, lease: float) -> AsyncIterator[Process]:
    # Killed without anybody who sees it, as where the whole machine is lost.
    app_name = f"{make_app.__module__}:make_child_app"
    words = ("worker", app_name, "--no-supervisor", "--queue", QUEUE)
    options = ("--concurrency", "1", "--lease", f"{lease:g}", "--log-level", "error")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "rowlock", *words, *options),
        env={**os.environ, "ROWLOCK_DATABASE_URL": url},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        # Ctrl-C is for the demo, which ends them itself.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _watch(
    app: App, job_id: int, view: View, *, until_rows: int | None = None
) -> Job:
    """Show how far a job is, until it is that far or has ended."""
    attempt = 1
    while True:
        job = await app.get(job_id)
        rows = job.state["rows"] if isinstance(job.state, dict) else 0
        view.show_export(job, rows / ROWS)
        if job.attempts > attempt:
            attempt = job.attempts
            view.tell("export", job_id, f"attempt {attempt} goes on after {rows} rows")
        is_there = until_rows is not None and rows >= until_rows
        if is_there or job.status.is_final:
            return job
        await asyncio.sleep(LOOK_S)
