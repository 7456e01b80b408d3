"""
A program with four forked children that enqueue, as it does itself, all at once.

Arguments: a URL, how many each enqueues, and `worker` where a handler forks while a
worker runs.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import time

from rowlock import App, Status

CHILDREN = 4
LEASE_S = 1.0


def main(url: str, count: int) -> None:
    app = App(url)

    @app.task
    def note(who: str) -> None: ...

    note.enqueue_sync(who="parent")
    children = []
    for number in range(CHILDREN):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            for _ in range(count):
                note.enqueue_sync(who=f"child {number}")
            leave()
        children.append(child)
    for _ in range(count):
        note.enqueue_sync(who="parent")
    for child in children:
        check(child)
    app.close_sync()


async def work(url: str, count: int) -> None:
    app = App(url, lease=LEASE_S)
    runs = []

    @app.task(queue="other")
    def note(who: str) -> None: ...

    @app.task
    def fork() -> int:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            for _ in range(count):
                note.enqueue_sync(who="child")
            time.sleep(2 * LEASE_S)  # what renews its parent's claims would by now
            leave()
        check(child)
        return child

    @app.task
    async def greet() -> None:
        runs.append(os.getpid())

    async with app, app.worker(queues=["default"]):
        job_id = await fork.enqueue()
        job = await app.wait(job_id or 0, timeout=30)
        assert (job.status, job.claims, job.losses) == (Status.SUCCEEDED, 1, 0), job
        # By another process, so that it is heard of by the listener.
        began = time.monotonic()
        asked = os.spawnl(  # noqa: ASYNC220, S606 - it is only started
            os.P_NOWAIT,
            sys.executable,
            *(sys.executable, "-m", "tests.programs.forked_children", url, "0", "ask"),
        )
        while not runs:  # noqa: ASYNC110 - bounded by the alarm
            await asyncio.sleep(0.02)
        assert time.monotonic() - began < 15  # half of the safety interval
        check(asked)
    assert runs == [os.getpid()]


def ask(url: str) -> None:
    """Enqueue what the worker runs, as another program does."""
    with App(url) as app:

        @app.task
        async def greet() -> None: ...

        greet.enqueue_sync()


def leave() -> None:
    """End with all that an exit does to what the parent has open."""
    atexit._run_exitfuncs()
    os._exit(0)


def check(child: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


if __name__ == "__main__":
    signal.alarm(90)  # whatever hangs, and wherever
    if sys.argv[3:] == ["worker"]:
        asyncio.run(work(sys.argv[1], int(sys.argv[2])))
    elif sys.argv[3:] == ["ask"]:
        ask(sys.argv[1])
    else:
        main(sys.argv[1], int(sys.argv[2]))
