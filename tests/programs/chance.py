"""A worker whose handlers fail by chance, the same for a job's attempt in every run."""

from __future__ import annotations

import asyncio
import random
import time

from rowlock import App, Backoff, current_attempt
from tests.journal import Journal
from tests.serve import serve


class Unlucky(Exception):
    """What these handlers raise."""


def register(app: App, journal: Journal) -> None:
    def begin() -> float:
        """Write down the start; tell how long the handler takes."""
        attempt = current_attempt()
        journal.record("started", job_id=attempt.job_id, number=attempt.number)
        return random.Random(attempt.job_id * 100 + attempt.number).uniform(0.1, 0.4)

    def end() -> None:
        """Write down the end, and fail four times in ten."""
        attempt = current_attempt()
        is_lucky = random.Random(f"{attempt.job_id}/{attempt.number}").random() > 0.4
        journal.record(
            "returned" if is_lucky else "raised",
            job_id=attempt.job_id,
            number=attempt.number,
        )
        if not is_lucky:
            msg = f"attempt {attempt.number} of job {attempt.job_id} was unlucky"
            raise Unlucky(msg)

    @app.task(max_attempts=4, backoff=Backoff.fixed(0.2))
    async def gamble() -> None:
        await asyncio.sleep(begin())  # a job that takes time can be killed
        end()

    @app.task(max_attempts=4, backoff=Backoff.fixed(0.2))
    def gamble_in_thread() -> None:
        time.sleep(begin())  # a job that takes time can be killed
        end()


if __name__ == "__main__":
    serve(register)
