"""A worker with a task that kills its process, and one that does no harm."""

from __future__ import annotations

import asyncio
import os
import signal

from rowlock import App, current_attempt
from tests.journal import Gate, Journal
from tests.serve import serve


def register(app: App, journal: Journal) -> None:
    def begin() -> None:
        attempt = current_attempt()
        journal.record("started", job_id=attempt.job_id, number=attempt.number)

    def end() -> None:
        journal.record("ended", job_id=current_attempt().job_id)

    @app.task
    async def poison() -> None:
        begin()
        os.kill(os.getpid(), signal.SIGKILL)

    @app.task
    async def innocent(seconds: float) -> None:
        begin()
        await asyncio.sleep(seconds)  # a handler that takes as long as its test says
        end()

    @app.task
    async def gated(gate: str) -> None:
        begin()
        await Gate(journal.folder, gate).passed()
        end()


if __name__ == "__main__":
    serve(register)
