"""
A worker process's side of the line to its supervisor.

A thread of its own speaks, so that a handler that blocks the event loop silences
nothing. Where the supervisor has died, the kernel kills this process with its group.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, NoReturn

from rowlock._errors import UsageError
from rowlock.cli.channel import VARIABLE, Channel, Message

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rowlock._worker.health import Health

logger = logging.getLogger("rowlock.cli")

# Between two looks at how the worker is, and between two words that nothing is new.
LOOK_S = 0.05
BEAT_S = 1.0


def supervised() -> Supervised | None:
    """
    Take over the line to the supervisor; None: this process has none.

    Raises:
        UsageError: the variable that names it is somebody else's.
    """
    # Taken out, or a worker that a handler starts would speak on our line.
    told = os.environ.pop(VARIABLE, None)
    if told is None:
        return None
    try:
        control, life = map(int, told.split(","))
        end = socket.socket(fileno=control)
        for each in (control, life):
            os.set_inheritable(each, False)  # noqa: FBT003 - it takes no name
    except (ValueError, OSError) as error:
        msg = (
            f"{VARIABLE} is {told!r}, and there is no supervisor behind it: only a"
            " supervisor sets it, so unset it."
        )
        raise UsageError(msg) from error
    return Supervised(end, life)


class Supervised:
    """The line to the supervisor; made before the app is imported."""

    def __init__(self, end: socket.socket, life: int) -> None:
        _die_with(life)
        _leave_to_supervisor()
        end.settimeout(LOOK_S)
        self._channel = Channel(end)
        self._health: Callable[[], Health] | None = None
        self._told: Health | None = None
        self._told_at = 0.0
        self._stop: Callable[[int], None] | None = None
        self._recover: Callable[[str], Future[int]] | None = None
        self._recovering: set[str] = set()
        threading.Thread(
            target=self._listen, name="rowlock-supervised", daemon=True
        ).start()

    def show(self, health: Callable[[], Health]) -> None:
        """Tell how the worker is, from now on."""
        self._health = health

    def tell_worker(self, worker: str) -> None:
        """
        Tell the worker's id, before it holds anything.

        But not before the store is open: what dies without it has nothing to recover,
        and while a store is away there may be thousands of them.
        """
        with contextlib.suppress(OSError):
            self._channel.send(worker=worker)

    def tell_failure(self, sentence: str) -> None:
        """Tell why this process ends at its start."""
        with contextlib.suppress(OSError):
            self._channel.send(failed=sentence)

    def serve(
        self, stop: Callable[[int], None], recover: Callable[[str], Future[int]]
    ) -> None:
        """Have the worker do what the supervisor says."""
        self._recover = recover
        self._stop = stop

    def _listen(self) -> None:
        while True:
            try:
                for message in self._channel.receive():
                    self._take(message)
            except TimeoutError:
                pass
            except (EOFError, OSError):
                _die()
            except Exception:
                # Who hears nothing any more couldn't be stopped but by force.
                logger.exception("What the supervisor said couldn't be done.")
            self._tell_health()

    def _take(self, message: Message) -> None:
        if "stop" in message:
            if self._stop is None:
                os._exit(0)  # it holds nothing yet
            self._stop(message["stop"])
        if "recover" in message:
            self._have_recovered(message["recover"])

    def _have_recovered(self, lost: str) -> None:
        # Asked again, where the store takes its time.
        if self._recover is None or lost in self._recovering:
            return

        def tell(recovering: Future[int]) -> None:
            self._recovering.discard(lost)
            if recovering.cancelled():
                return
            if (error := recovering.exception()) is not None:
                logger.error("What %s held isn't recovered.", lost, exc_info=error)
                return
            with contextlib.suppress(OSError):
                self._channel.send(recovered=lost)

        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
            future = self._recover(lost)
            self._recovering.add(lost)
            future.add_done_callback(tell)

    def _tell_health(self) -> None:
        if self._health is None:
            return
        health, now = self._health(), time.monotonic()
        is_news = self._told is None or _sight(health) != _sight(self._told)
        if is_news or now - self._told_at >= BEAT_S:
            self._told, self._told_at = health, now
            with contextlib.suppress(OSError):
                self._channel.send(health=asdict(health))


def _sight(health: Health) -> tuple[object, ...]:
    """Give what is told at once where it changes."""
    return health.healthy, health.ready, health.stuck, health.loop_blocks


def _leave_to_supervisor() -> None:
    """
    Let a SIGHUP pass, which the supervisor acts upon.

    It comes here too where it is sent by the command line (`pkill -HUP -f`), which is
    the same, or to all of a unit, and would cost every job that runs.
    """
    if sys.platform != "win32":
        if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            signal.signal(signal.SIGHUP, lambda _number, _frame: None)
        # Held back since the start of this process.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])


def _die_with(life: int) -> None:
    """
    Have the kernel kill this group when the supervisor has died, whatever runs here.

    As `rowlock._worker.child` does: the end of a pipe that the supervisor alone holds
    open is a signal, and the signal is SIGKILL.
    """
    if sys.platform == "linux" and os.getpgrp() == os.getpid():
        import fcntl

        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(life, fcntl.F_GETFL)
        fcntl.fcntl(life, fcntl.F_SETFL, flags | os.O_ASYNC)


def _die() -> NoReturn:
    """Die with the supervisor, and with all that was started here."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
