"""A worker that keeps the webhooks it is handed."""

from __future__ import annotations

import asyncio
from typing import Any

from rowlock import App
from tests.journal import Journal
from tests.serve import serve


def register(app: App, journal: Journal) -> None:
    @app.task
    async def keep(number: int, event: dict[str, Any]) -> None:
        journal.record("kept", number=number, event=event)
        await asyncio.sleep(0.02)  # or the first worker has them all at once


if __name__ == "__main__":
    serve(register)
