"""Waiting for what other processes and tasks do, up to a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from rowlock import App, Job

T = TypeVar("T")

POLL_S = 0.02


async def eventually(
    ask: Callable[[], Awaitable[T | None]], *, within: float = 10, what: str = ""
) -> T:
    """Ask until the answer is true-ish, and give it; fail after `within` seconds."""
    give_up_at = time.monotonic() + within
    while not (answer := await ask()):
        if time.monotonic() > give_up_at:
            msg = f"Not within {within:g} s: {what or ask.__name__}"
            raise AssertionError(msg)
        await asyncio.sleep(POLL_S)  # what is asked for happens elsewhere
    return answer


async def finished(
    app: App, ids: Iterable[int | None], *, within: float = 10
) -> Sequence[Job]:
    """Wait until all these jobs are over; the jobs, in order."""
    job_ids = [job_id for job_id in ids if job_id is not None]
    give_up_at = time.monotonic() + within
    for job_id in job_ids:

        async def is_over(job_id: int = job_id) -> bool:
            return (await app.get(job_id)).status.is_final

        left = give_up_at - time.monotonic()
        await eventually(is_over, within=left, what=f"the end of job {job_id}")
    return await app.store.get(job_ids)
