"""A worker process as its supervisor holds it: a line, and the power to kill it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from rowlock.cli.channel import VARIABLE, Channel, Message


class Child:
    """
    A worker process, in a process group of its own.

    What it says is heard by `hear`: its `worker` id, its `health`, why it `failed`.
    """

    def __init__(self) -> None:
        self.worker: str | None = None
        self.health: dict[str, Any] | None = None
        self.failure: str | None = None
        self.code: int | None = None
        self.told_at: float | None = None
        self.recovered: list[str] = []
        self.began_at = self.heard_at = time.monotonic()
        self.ready_at: float | None = None
        self.died_at = 0.0
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        ours.settimeout(0)
        self.channel = Channel(ours)
        # A child gets them held back, and lets them come when it can hear them: one
        # that goes to all, as by `pkill -HUP`, would kill it while it starts.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own
                # As this process was started, so that it is the same in everything:
                # options of the interpreter, and a program that calls `main` itself.
                [sys.executable, *sys.orig_argv[1:]],
                # A group in the background that reads from its terminal is stopped.
                stdin=subprocess.DEVNULL,
                env={**os.environ, VARIABLE: f"{theirs.fileno()},{life}"},
                pass_fds=(theirs.fileno(), life),
                process_group=0,
            )
        except OSError:
            self.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            theirs.close()
            os.close(life)
        self.pid = self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether it claims."""
        return self.health is not None and bool(self.health["ready"])

    def hear(self) -> bool:
        """Take in what it has said; False: it has hung up."""
        while True:
            try:
                messages = self.channel.receive()
            except BlockingIOError:
                return True
            except (EOFError, OSError, ValueError):
                return False
            self._take(messages)

    def recover(self, worker: str) -> None:
        """Have it recover what a dead worker held."""
        with contextlib.suppress(OSError):  # it is asked again
            self.channel.send(recover=worker)

    def stop(self, number: int) -> None:
        """Tell it to stop, as that signal would."""
        if self.told_at is not None or self.code is not None:
            return
        self.told_at = time.monotonic()
        try:
            self.channel.send(stop=number)
        except OSError:  # a handler has closed what isn't its own
            self._signal(number)

    def kill(self) -> None:
        """Kill it, and all in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def is_group_gone(self) -> bool:
        """Tell whether nothing of its group is left."""
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # somebody else's by now, or one that has become root
            return sys.platform != "linux"
        return False

    def died(self, code: int) -> None:
        """Note how it ended, once it was reaped, and let go of what belonged to it."""
        self.hear()
        self.code = self._process.returncode = code
        self.died_at = time.monotonic()
        self.close()

    def close(self) -> None:
        """Close the line, and the pipe whose end kills it."""
        self.channel.close()
        os.close(self._life)

    @property
    def has_drained(self) -> bool:
        """Whether it ended well, as it was told to."""
        return self.told_at is not None and self.code == 0

    def how_it_ended(self) -> str:
        """Say by which signal or with which exit code it ended."""
        code = self.code or 0
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"

    def _take(self, messages: list[Message]) -> None:
        self.heard_at = time.monotonic()
        for message in messages:
            self.worker = message.get("worker", self.worker)
            self.health = message.get("health", self.health)
            self.failure = message.get("failed", self.failure)
            if "recovered" in message:
                self.recovered.append(message["recovered"])
        if self.ready_at is None and self.is_ready:
            self.ready_at = self.heard_at

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
