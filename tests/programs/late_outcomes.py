"""A worker whose only handler fails, and whose outcome is late: the store is away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowlock import App
from rowlock._job import Outcome
from rowlock._store import Claimed, Settled
from tests.journal import Gate, Journal
from tests.serve import serve


def register(app: App, journal: Journal) -> None:
    gate = Gate(journal.folder, "store")
    claim, finish = app._store.claim, app._store.finish
    has_claimed = False

    @app.task(name="gated")
    async def fail(gate: str) -> None:
        journal.record("started", gate=gate)
        raise TimeoutError

    async def claim_once(*args: Any, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
        nonlocal has_claimed
        if has_claimed:
            await gate.passed()
        claimed = await claim(*args, **options)
        has_claimed |= bool(claimed.claims)
        return claimed

    async def finish_late(outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        await gate.passed()
        return await finish(outcomes)

    app._store.claim = claim_once  # type: ignore[method-assign]  # to hold it up
    app._store.finish = finish_late  # type: ignore[method-assign]  # to hold it up


if __name__ == "__main__":
    serve(register)
