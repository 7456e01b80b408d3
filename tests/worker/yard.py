"""An app whose jobs wait at gates, and one of them is suspect."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from rowlock import App, _outcome
from rowlock._store import Claimed, Demand
from tests.endings import known
from tests.eventually import eventually

LEASE = timedelta(seconds=300)
SAFETY_S = 30
DUE_IN_S = 100


class Yard:
    """An app whose jobs wait at gates: which have started, and how often it claimed."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.started: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.claims = 0
        self.may_claim = asyncio.Event()
        self.may_claim.set()
        claim = app._store.claim

        async def counted(*args: Any, **options: Any) -> Claimed:  # noqa: ANN401 - as they come
            self.claims += 1
            await self.may_claim.wait()
            return await claim(*args, **options)

        app._store.claim = counted  # type: ignore[method-assign]  # it counts and waits

        @app.task
        async def visit(gate: str) -> None:
            self.started.append(gate)
            await self.gate(gate).wait()

        self.visit = visit

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    def open(self, *names: str) -> None:
        for name in names:
            self.gate(name).set()

    async def enqueue(self, *gates: str, queue: str = "default") -> list[int]:
        jobs = [self.visit.options(queue=queue).job(gate=gate) for gate in gates]
        return [known(job_id) for job_id in await self.app.enqueue_many(jobs)]

    async def suspect(
        self, gate: str, *, queue: str = "default", due_in: float = DUE_IN_S
    ) -> int:
        """Have a job that a worker was lost with, before there is another; its id."""
        (job_id,) = await self.enqueue(gate, queue=queue)
        demand = Demand(total=9, tasks=frozenset({"visit"}), queues={queue: 9})
        claimed = await self.app._store.claim(demand, worker="w-dead", lease=LEASE)
        (held,) = claimed.claims
        delay = timedelta(seconds=due_in)
        await self.app._store.finish([_outcome.lost(held)._replace(delay=delay)])
        return job_id

    async def has_started(self, *gates: str) -> None:
        await eventually(
            lambda: self.started == [*gates], what=f"{self.started} were {gates}"
        )

    async def has_started_in_any_order(self, *gates: str) -> None:
        await eventually(
            lambda: sorted(self.started) == sorted(gates),
            what=f"{self.started} were {gates}, in any order",
        )

    async def nothing_starts(self) -> None:
        before = list(self.started)
        await asyncio.sleep(0.15)  # what would happen now, mustn't
        assert self.started == before
