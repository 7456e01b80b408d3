"""
Asking the probes of automatic replay: async ones on the loop, plain ones in threads.

Whatever a probe does - raise, hang, refuse its cancellation - is an answer.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rowlock._outcome import in_words
from rowlock._worker.execute import describe
from rowlock._worker.threads import Threads

if TYPE_CHECKING:
    from rowlock._dead_letters import ReplayRule

TIMEOUT_S = 30.0
LONGEST_ERROR = 300


class Verdict(NamedTuple):
    """Whether a probe has passed; `error` says why not, where it raised or hung."""

    passed: bool
    error: str | None = None


class Probes:
    """The probes of one worker, of which each runs once at a time."""

    def __init__(self) -> None:
        self._threads = Threads()
        self._asked: dict[str, asyncio.Future[Verdict]] = {}

    def close(self) -> None:
        """Let idle threads end; a probe that hangs is left behind."""
        self._threads.close()

    async def ask(self, rule: ReplayRule) -> Verdict:
        """Ask a rule's probe, for at most 30 s."""
        if rule.task in self._asked:
            # Another thread each time would be one more that hangs.
            return Verdict(passed=False, error="the probe before this one still runs")
        asked = self._asked[rule.task] = self._begin(rule.probe)
        asked.add_done_callback(lambda _: self._asked.pop(rule.task))
        try:
            await asyncio.wait({asked}, timeout=TIMEOUT_S)
        finally:
            if not asked.done() and isinstance(asked, asyncio.Task):
                asked.cancel()
        if asked.done():
            return asked.result()
        return Verdict(
            passed=False, error=f"the probe took longer than {TIMEOUT_S:g} s"
        )

    def _begin(self, probe: Callable[[], object]) -> asyncio.Future[Verdict]:
        loop = asyncio.get_running_loop()
        if is_async(probe):
            return loop.create_task(_awaited(probe))
        asked: asyncio.Future[Verdict] = loop.create_future()

        def call() -> None:
            verdict = _called(probe)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(asked.set_result, verdict)

        self._threads.run(call)
        return asked


def is_async(probe: object) -> bool:
    """Say whether a probe has to be awaited."""
    return inspect.iscoroutinefunction(probe) or inspect.iscoroutinefunction(
        getattr(probe, "__call__", None)  # noqa: B004 - whether that is async
    )


async def _awaited(probe: Callable[[], object]) -> Verdict:
    try:
        answer = probe()
        return Verdict(bool(await answer if isinstance(answer, Awaitable) else answer))
    except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop
        return _failed(error)


def _called(probe: Callable[[], object]) -> Verdict:
    try:
        answer = probe()
        if isinstance(answer, Coroutine):
            answer.close()  # or Python complains that nobody has awaited it
            error = "the probe returned a coroutine, which nobody runs: `async def` it"
            return Verdict(passed=False, error=error)
        return Verdict(bool(answer))
    except BaseException as error:  # noqa: BLE001 - SystemExit would end the thread
        return _failed(error)


def _failed(error: BaseException) -> Verdict:
    line = " ".join(in_words(describe(error)).split())
    return Verdict(passed=False, error=line[:LONGEST_ERROR])
