"""A worker that takes its time between a claim and the start of its handlers."""

from __future__ import annotations

import asyncio
from typing import Any

from rowlock import App
from rowlock._store import Claimed
from tests.journal import Journal
from tests.programs import gated
from tests.serve import serve

PAUSE_S = 0.3


def register(app: App, journal: Journal) -> None:
    gated.register(app, journal)
    claim = app._store.claim

    async def claim_and_pause(*args: Any, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
        claimed = await claim(*args, **options)
        await asyncio.sleep(PAUSE_S if claimed.claims else 0)  # the case's own
        return claimed

    app._store.claim = claim_and_pause  # type: ignore[method-assign]  # to slow it down


if __name__ == "__main__":
    serve(register)
