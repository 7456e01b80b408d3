"""A worker that is killed in the moment after its job's cancellation was asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rowlock import App, current_attempt
from tests.journal import Journal
from tests.serve import serve

if TYPE_CHECKING:
    from rowlock._job import Outcome
    from rowlock._store import Claimed, Settled


def register(app: App, _journal: Journal) -> None:
    claim, finish = app._store.claim, app._store.finish

    async def cancel_and_die(job_id: int) -> None:
        await app.cancel(job_id)
        os.kill(os.getpid(), signal.SIGKILL)

    async def claim_and_die(*args: Any, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
        claimed = await claim(*args, **options)
        for each in claimed.claims:
            if '"claimed"' in each.payload:
                await cancel_and_die(each.job_id)
        return claimed

    async def die_and_finish(outcomes: Sequence[Outcome]) -> Sequence[Settled]:
        for outcome in outcomes:
            await cancel_and_die(outcome.key.job_id)
        return await finish(outcomes)

    app._store.claim = claim_and_die  # type: ignore[method-assign]  # it dies there
    app._store.finish = die_and_finish  # type: ignore[method-assign]  # and there

    @app.task
    async def work(stage: str) -> None:
        if stage == "running":
            await cancel_and_die(current_attempt().job_id)


if __name__ == "__main__":
    serve(register)
