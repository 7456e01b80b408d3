"""
The demo's second app: one long task that saves how far it is.

It runs in processes of its own, `rowlock worker` as anybody starts one, so that one of
them can be killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any

from rowlock import App, NewJob, current_attempt

QUEUE = "exports"
ROWS, STEP = 1000, 50


def make_app(url: str | None = None) -> App:
    """Make the app: `export` goes through rows, and on from where it was."""
    app = App(url)

    @app.task(queue=QUEUE)
    async def export(seconds: float) -> dict[str, Any]:
        attempt = current_attempt()
        first = rows = (attempt.state or {"rows": 0})["rows"]
        while rows < ROWS:
            await asyncio.sleep(seconds * STEP / ROWS)
            rows += STEP
            # After the step: were it before, a death between would skip its rows.
            await attempt.checkpoint({"rows": rows})
            attempt.progress(rows / ROWS, f"{rows} of {ROWS} rows")
        return {"rows": rows, "resumed_after": first, "attempt": attempt.number}

    return app


def export_job(app: App, seconds: float) -> NewJob:
    """Make the job that goes through all rows in so many seconds."""
    return app.tasks["export"].job(seconds=seconds)


def make_child_app() -> App:
    """Make the app in a process that ends when the demo does, however that ends."""
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    return make_app()


def _end_with_the_demo() -> None:
    # The demo holds the other end, which closes with its process.
    sys.stdin.buffer.read()
    os._exit(0)
