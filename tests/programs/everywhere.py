"""
A program that enqueues and reads from everywhere; its arguments are a URL and `close`.

With `close` it closes its app in the last of its exit hooks, otherwise never.
"""

from __future__ import annotations

import asyncio
import atexit
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from rowlock import App, Task, current_attempt
from tests.endings import finished

POOL = 20


def main(url: str, ending: str) -> None:
    app = App(url)

    @app.task
    def now(who: str) -> None: ...

    # Not due, as a worker warns of jobs that nobody runs.
    note = now.options(delay=3600)

    @app.task
    def in_thread() -> None:
        write_and_read(app, note, "a handler in a thread")

    @app.task
    async def on_loop() -> None:
        job_id = await note.enqueue(who="an async handler")
        assert job_id is not None
        assert (await app.get(job_id)).payload == {"who": "an async handler"}
        assert current_attempt().number == 1

    if ending == "close":
        atexit.register(app.close_sync)
    atexit.register(write_and_read, app, note, "an exit hook")
    write_and_read(app, note, "the main thread")
    with ThreadPoolExecutor(POOL) as pool:
        names = [f"thread {n}" for n in range(POOL)]
        list(pool.map(partial(write_and_read, app, note), names))

    async def work() -> None:
        # A busy machine makes any step long, and the test takes every word for a fault.
        asyncio.get_running_loop().slow_callback_duration = 60
        async with app.worker(queues=["default"]):
            await finished(app, [await in_thread.enqueue(), await on_loop.enqueue()])

    asyncio.run(work())


def write_and_read(app: App, note: Task[[str], None], who: str) -> None:
    """Enqueue a job and see it in the store."""
    job_id = note.enqueue_sync(who)
    assert job_id is not None
    assert app.get_sync(job_id).payload == {"who": who}
    assert app.stats_sync().queues


if __name__ == "__main__":
    main(*sys.argv[1:])
