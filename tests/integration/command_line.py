"""Ways to run `rowlock`, and the app that it runs on."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from click.testing import CliRunner, Result

import rowlock
from rowlock.cli.main import main

SHOP = """
import asyncio
import builtins
import logging
import threading
import time

from rowlock import App, Unrecoverable, current_attempt

app = App("sqlite:///shop.db")


@app.task(queue="mail")
def greet(name: str, times: int = 1) -> str:
    return f"Hello {name}" * times


@app.task
def log(text: str) -> None:
    logging.getLogger("shop").info(text)


@app.task
def die(reason: str = "broken") -> None:
    raise Unrecoverable(reason)


@app.task
def wait(seconds: float = 60.0) -> None:
    print("waiting", flush=True)
    current_attempt().cancelled.wait(seconds)
    time.sleep(0.1)


@app.task
async def sleep(seconds: float = 60.0) -> None:
    print("sleeping", flush=True)
    await asyncio.sleep(seconds)


@app.task
async def block(seconds: float = 60.0) -> None:
    print("blocking", flush=True)
    time.sleep(seconds)


@app.task(max_attempts=1)
def quits(with_: str) -> None:
    raise getattr(builtins, with_)


@app.task
def never_ends() -> None:
    print("stuck", flush=True)
    threading.Event().wait()


@app.task(timeout=0.1, max_attempts=1)
def hangs() -> None:
    threading.Event().wait()
"""

# Variables by which whoever runs the tests would change what a terminal shows.
UNPLAIN = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
SOURCES = Path(rowlock.__file__).parent.parent


def run(
    *args: object,
    env: dict[str, str] | None = None,
    stdin: str | bytes | None = None,
) -> Result:
    """Run `rowlock` in this process."""
    return CliRunner().invoke(main, [str(arg) for arg in args], stdin, env)


def run_json(*args: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Run `rowlock ... --json`, which must succeed, and read what it prints."""
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def fails(
    code: int,
    *args: object,
    env: dict[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Run `rowlock`, which must fail with one sentence; give the sentence."""
    result = run(*args, env=env, stdin=stdin)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert line.endswith((".", ")", "?"))
    return line.removeprefix("Error: ")


class OnTerminal(Protocol):
    """Runs `rowlock` on a terminal of 80 columns; gives its code and what it shows."""

    def __call__(
        self, *args: str, types: str = "", env: dict[str, str] | None = None
    ) -> tuple[int, str]: ...


def run_on_terminal(
    *args: str, types: str = "", env: dict[str, str] | None = None
) -> tuple[int, str]:
    """Run `rowlock` on a terminal, in which somebody types."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (30, 80))
    plain = {name: os.environ[name] for name in os.environ if name not in UNPLAIN}
    process = subprocess.Popen(
        [sys.executable, "-m", "rowlock", *args],
        env={**plain, "PYTHONPATH": str(SOURCES), "TERM": "xterm", **(env or {})},
        stdin=its,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    os.write(ours, types.encode())
    shown = b""
    # Linux says that the other end has closed by an error, others by nothing read.
    with contextlib.suppress(OSError):
        while read := os.read(ours, 65536):
            shown += read
    os.close(ours)
    return process.wait(60), shown.decode().replace("\r\n", "\n")


class Command:
    """`rowlock` as a process, its lines gathered as they come."""

    started: list[Command]

    def __init__(self, *args: object, program: str | None = None) -> None:
        how = ["-m", "rowlock"] if program is None else ["-c", program]
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", *how, *map(str, args)],
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(self)
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    @property
    def output(self) -> str:
        """What it has printed so far, on both streams."""
        return "".join(self.lines)

    def prints(self, text: str, within: float = 20.0) -> str:
        """Wait until it has printed a text; give the line."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            for line in tuple(self.lines):
                if text in line:
                    return line
            # A process prints when it likes, on no clock of ours.
            time.sleep(0.01)
        message = f"{text!r} wasn't printed within {within} s:\n{self.output}"
        raise AssertionError(message)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def ends(self, within: float = 20.0, *, with_traceback: bool = False) -> int:
        """Wait until it has ended; give the exit code."""
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            message = f"It hasn't ended within {within} s:\n{self.output}"
            raise AssertionError(message) from None
        self._reading.join(5)
        assert ("Traceback" in self.output) is with_traceback, self.output
        return code

    def kill(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        self._reading.join(5)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)
