"""A worker whose handler does nothing, which is quick."""

from __future__ import annotations

from rowlock import App
from tests.journal import Journal
from tests.serve import serve


def register(app: App, journal: Journal) -> None:
    @app.task(max_attempts=1)
    async def step(n: int) -> int:
        return n

    @app.task(max_attempts=1, queue="others")
    async def tick() -> None:
        """Do nothing, for a job that must not wait behind those."""

    assert journal.label


if __name__ == "__main__":
    serve(register)
