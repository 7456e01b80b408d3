"""A race: acts that start at the same moment, each in a thread with its own loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from rowlock._errors import StoreUnavailable
from rowlock._store import Store

Act: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]


class Patient:
    """A store whose callers try again when they were locked out, as a worker does."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Act:
        verb = getattr(self._store, name)

        async def again(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - any verb's
            while True:
                # Law 18: it gave up after a second, and nothing was written.
                with contextlib.suppress(StoreUnavailable):
                    return await verb(*args, **options)

        return again


async def race(rounds: int, *acts: Act) -> list[tuple[Any, ...]]:
    """Let each act run at the same moment as the others, round after round."""
    gate = threading.Barrier(len(acts))

    async def run(act: Act) -> list[Any]:
        answers = []
        for number in range(rounds):
            gate.wait(timeout=60)
            answers.append(await act(number))
        return answers

    def thread(act: Act) -> list[Any]:
        try:
            return asyncio.run(run(act))
        except BaseException:
            gate.abort()
            raise

    with ThreadPoolExecutor(len(acts)) as pool:
        loop = asyncio.get_running_loop()
        each = await asyncio.gather(
            *(loop.run_in_executor(pool, thread, act) for act in acts)
        )
    return list(zip(*each, strict=True))
