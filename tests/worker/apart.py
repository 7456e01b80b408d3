"""Tasks that run in child processes, which find them here."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from rowlock import App, Attempt, Retry, Snooze, Unrecoverable, current_attempt

app = App(backoff=0)
seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")


@contextlib.asynccontextmanager
async def around(attempt: Attempt) -> AsyncGenerator[None]:
    seen.set(f"{attempt.task} in {os.getpid()}")
    yield


app.around(around)


class Stubborn(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.lock = __import__("threading").Lock()


class Unreadable(Exception):
    """One that is pickled, and can't be read: its `args` aren't what it takes."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@app.task(executor="process", max_attempts=1)
def log_much() -> None:
    more = {"one": [1, "a"], "is_it": True}
    extra = {"error": Unreadable(1, 2), "more": more, "errors": [Unreadable(3, 4)]}
    logging.getLogger("shop").warning("with more", extra=extra)


@app.task(executor="process", max_attempts=1)
def complete() -> None:
    current_attempt().complete_sync(connection=object())


@app.task(executor="process", max_attempts=1)
async def hold() -> None:
    await current_attempt().hold(connection=object())


@app.task(executor="process")
def pid() -> int:
    return os.getpid()


@app.task(executor="process")
async def async_pid() -> int:
    await asyncio.sleep(0)
    return os.getpid()


@app.task(executor="process", max_attempts=1)
def end(how: str) -> None:
    match how:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "raise":
            raise Stubborn(1, 2)
        case "exit politely":
            sys.exit(4)


@app.task(executor="process")
def linger(gate: str) -> int:
    # No daemon: the end of its process would wait for it.
    threading.Thread(target=time.sleep, args=(600,)).start()
    return wait_for(gate)


@app.task(executor="process")
def wait_for(file: str) -> int:
    while not Path(file).exists():
        time.sleep(0.02)  # another process's file is waited for
    return current_attempt().number


@app.task(executor="process", on_shutdown="keep")
def touch(file: str) -> None:
    Path(file).touch()


@app.task(executor="process", max_attempts=1)
def tell_and_hang(file: str) -> None:
    """Write this process's id and a grandchild's, then ignore whatever comes."""
    grandchild = subprocess.Popen(["sleep", "1000"])  # noqa: S607 - wherever it is
    told = f"{os.getpid()} {grandchild.pid}"
    Path(f"{file}.new").write_text(told)
    Path(f"{file}.new").rename(file)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1000)


@app.task(executor="process", max_attempts=1)
def tell_and_sleep(file: str) -> None:
    Path(f"{file}.new").write_text(f"{os.getpid()} {os.getpid()}")
    Path(f"{file}.new").rename(file)
    try:
        time.sleep(1000)
    finally:
        Path(f"{file}.reason").write_text(str(current_attempt().cancelled.reason))


@app.task(executor="process", max_attempts=1)
async def async_tell_and_sleep(file: str) -> None:
    Path(f"{file}.new").write_text(f"{os.getpid()} {os.getpid()}")
    Path(f"{file}.new").rename(file)
    try:
        await asyncio.sleep(1000)
    finally:
        Path(f"{file}.reason").write_text(str(current_attempt().cancelled.reason))


@app.task(executor="process", max_memory_mb=300, max_attempts=1)
def eat(mb: int, seconds: float = 0) -> int:
    eaten = b"x" * (mb * 2**20)
    time.sleep(seconds)  # until it is seen
    return os.getpid() + 0 * len(eaten)


@app.task(executor="process", max_jobs_per_child=2)
def pid_of_two() -> int:
    return os.getpid()


@app.task(executor="process")
def tell_all(text: str) -> str:
    attempt = current_attempt()
    print("printed", text)  # noqa: T201 - so do handlers
    attempt.progress(0.5, "half")
    if attempt.state is None:
        attempt.checkpoint_sync({"text": text})
        logging.getLogger("shop").info("saved %s", len(text))
        raise Retry(delay=0)
    attempt.spawn(pid.job())
    pid.enqueue_sync()
    return str(attempt.state["text"])


@app.task(executor="process")
def what_is_seen() -> str:
    return seen.get()


@app.task(executor="process")
async def what_is_seen_async() -> str:
    await current_attempt().checkpoint(1)
    return seen.get()


@app.task(executor="process", dead_on=(KeyError,))
def steer(how: str) -> str:
    match how:
        case "snooze":
            if current_attempt().number == 1:
                raise Snooze(0)
        case "unrecoverable":
            raise Unrecoverable
        case "dead_on":
            raise KeyError(how)
        case "swallow":
            with contextlib.suppress(Exception):
                raise Snooze(60)
    return how


@app.task(executor="process")
def multiply() -> int:
    process = multiprocessing.get_context("fork").Process(target=os.getpid)
    process.start()
    process.join()
    return process.exitcode or 0


@app.task(executor="process")
def stop_fork_server() -> str:
    """Kill this process's parent, as systemd's SIGTERM to a whole service does."""
    os.kill(os.getppid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.5)  # until both have come
    return "unharmed"


kept: list[bytes] = []


@app.task(executor="process")
def keep(mb: int) -> None:
    kept.append(b"x" * (mb * 2**20))
