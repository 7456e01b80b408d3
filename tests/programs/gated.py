"""A worker whose handlers wait until the test lets them go on."""

from __future__ import annotations

import asyncio

from rowlock import App, current_attempt
from tests.journal import Gate, Journal
from tests.serve import serve


def register(app: App, journal: Journal) -> None:
    def begin() -> None:
        attempt = current_attempt()
        journal.record("started", job_id=attempt.job_id, number=attempt.number)

    @app.task
    async def gated(gate: str) -> str:
        """Wait at a gate; tell which worker ran it."""
        begin()
        await Gate(journal.folder, gate).passed()
        return journal.label

    @app.task
    def gated_in_thread(gate: str) -> str:
        """Do the same in a thread, which nobody can cancel."""
        begin()
        asyncio.run(Gate(journal.folder, gate).passed())
        return journal.label

    @app.task
    async def slow_to_stop(gate: str) -> str:
        """Wait at a gate; when cancelled, clean up until the next one opens."""
        begin()
        try:
            await Gate(journal.folder, gate).passed()
        finally:
            await Gate(journal.folder, f"{gate}-cleaned").passed()
            journal.record("cleaned")
        return journal.label

    @app.task
    async def nap(seconds: float) -> None:
        begin()
        await asyncio.sleep(seconds)  # a handler that takes as long as its test says


if __name__ == "__main__":
    serve(register)
