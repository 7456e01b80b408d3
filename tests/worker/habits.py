"""Tasks that do in a child process what handlers do to a process of their own."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import time
from types import FrameType

from rowlock import App

app = App(backoff=0)
logger = logging.getLogger("habits")


class Picky(Exception):
    def __init__(self, _one: int, _two: int) -> None:
        super().__init__("goes into a pickle, and not out of it")


class Talkative:
    """Is in a cycle, so that it goes whenever memory is collected."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        logger.info("collected")


def how_it_ended(fork: int) -> str:
    _, status = os.waitpid(fork, 0)
    return f"exit code {os.waitstatus_to_exitcode(status)}"


@app.task(executor="process", max_attempts=1)
def answer() -> int:
    return 42


@app.task(executor="process", max_attempts=1)
def come_out_twice(how: str) -> str:
    if (fork := os.fork()) == 0:
        if how == "raise":
            raise LookupError(how)
        return "the fork's"
    return how_it_ended(fork)


@app.task(executor="process", max_attempts=1)
async def come_out_twice_async() -> str:
    if (fork := os.fork()) == 0:
        return "the fork's"
    return how_it_ended(fork)


@app.task(executor="process", max_attempts=1, timeout=10)
def terminate_fork() -> int:
    process = multiprocessing.get_context("fork").Process(target=signal.pause)
    process.start()
    process.terminate()
    process.join()
    return process.exitcode or 0


@app.task(executor="process", max_attempts=1)
def interrupt_program() -> int:
    program = subprocess.Popen(["sleep", "1000"])  # noqa: S607 - wherever it is
    program.send_signal(signal.SIGINT)
    try:
        return program.wait(5)
    finally:
        program.kill()


@app.task(executor="process", max_attempts=1)
def log_what_is_picky() -> int:
    logger.info("seen", extra={"error": Picky(1, 2), "sizes": {"all": [1, 2.5]}})
    return 42


@app.task(executor="process", max_attempts=1, timeout=20)
def log_at_any_moment() -> int:
    def hear(_number: int, _frame: FrameType | None) -> None:
        logger.info("heard")

    signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    for _ in range(500):
        Talkative()
        logger.info("x" * 20_000)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return 42


@app.task(executor="process", max_attempts=1)
def log_from_forks() -> int:
    forks = []
    for _ in range(4):
        fork = os.fork()
        if fork == 0:
            for _ in range(100):
                logger.info("x" * 30_000)
            os._exit(0)
        forks.append(fork)
    for fork in forks:
        os.waitpid(fork, 0)
    return 42


@app.task(executor="process", max_attempts=1)
def leave_signals() -> int:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return os.getpid()


@app.task(executor="process", max_attempts=1)
def outlast_alarm() -> int:
    time.sleep(0.5)  # for longer than the alarm that was left
    return os.getpid() if callable(signal.getsignal(signal.SIGTERM)) else 0


@app.task(executor="process", max_attempts=1)
def send_garbage() -> None:
    for pipe in range(3, 100):
        try:
            os.write(pipe, b"\x00\x00\x00\x04junk")
        except OSError:
            continue
    time.sleep(60)  # until it is killed
