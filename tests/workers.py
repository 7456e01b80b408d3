"""
Worker processes: started, killed, stopped, frozen and thawed by a test.

Whatever happens to the test, none of them outlives it: `close` kills them all, and a
worker ends by itself where its test's process has died.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from rowlock import App, StoreUnavailable
from rowlock._served import Queues

from . import journal
from .eventually import eventually
from .journal import Record
from .serve import Settings

ROOT = Path(__file__).parent.parent
START_S = 40.0  # busy cores, and an interpreter that imports everything
LOG_SHOWN = 2000

# The shortest lease there is, and how long it takes at most until the claim of a worker
# that died is recovered: the lease, a round of the recover loop, some for busy cores.
LEASE_S = 1.0
RECOVERED_S = LEASE_S * (1 + 0.25 * 1.2) + 1.5


class WorkerProcess:
    """A process that runs `python -m <program>`."""

    def __init__(self, program: str, settings: Settings) -> None:
        self.label = settings.label
        self.log = Path(settings.folder) / f"{settings.label}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", program, json.dumps(asdict(settings))],
                cwd=ROOT,
                # Held open by this process alone: its end is how a worker sees ours.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        self.name = f"{settings.label}-{self._process.pid}"
        self._is_ours = True

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, *, within: float = 20) -> int:
        """Send SIGTERM, and wait until it has drained; its exit code."""
        self._signal(signal.SIGTERM)
        return self._process.wait(within)

    async def freeze(self, app: App) -> None:
        """
        Stop it with SIGSTOP, so that none of its threads goes on.

        Not in the middle of a write, which would stop all the others too.
        """
        while True:
            self._signal(signal.SIGSTOP)
            try:
                await app._store.renew((), worker="w-test", lease=app.lease)
            except StoreUnavailable:
                self.thaw()
            else:
                return

    def freeze_now(self) -> None:
        """Stop it with SIGSTOP, in the middle of whatever it does."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on with SIGCONT."""
        self._signal(signal.SIGCONT)

    def has_died(self) -> bool:
        """Tell whether it has ended by itself, as a poisonous job makes it."""
        if self._process.poll() is None:
            return False
        self._is_ours = False
        return True

    def told(self) -> str:
        """Read the end of its log."""
        return self.log.read_text()[-LOG_SHOWN:]

    def close(self) -> str | None:
        """Kill it where it lives; tell how it ended if it ended by itself."""
        code = self._process.poll()
        has_died = self._is_ours and code is not None
        if code is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not has_died:
            return None
        return f"{self.name} exited with {code}:\n{self.log.read_text()}"

    def _signal(self, number: signal.Signals) -> None:
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._is_ours = False
        self._process.send_signal(number)


class Workers:
    """The worker processes of one test, on one database and one journal."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._processes: list[WorkerProcess] = []

    async def start(
        self,
        program: str,
        label: str = "worker",
        *,
        concurrency: int = 5,
        queues: Queues | None = None,
        lease: float = LEASE_S,
        shutdown_timeout: float = 15,
        safety_interval: float = 30,
    ) -> WorkerProcess:
        """Start one, and wait until it claims."""
        process = self.launch(
            program,
            label,
            concurrency=concurrency,
            queues=queues,
            lease=lease,
            shutdown_timeout=shutdown_timeout,
            safety_interval=safety_interval,
        )
        await self.until("worker.started", process=process.name, within=START_S)
        return process

    def launch(
        self,
        program: str,
        label: str = "worker",
        *,
        concurrency: int = 5,
        queues: Queues | None = None,
        lease: float = LEASE_S,
        shutdown_timeout: float = 15,
        safety_interval: float = 30,
        clock_off: float = 0,
    ) -> WorkerProcess:
        """Start one, and don't wait for it."""
        process = WorkerProcess(
            f"tests.programs.{program}",
            Settings(
                url=self._url,
                folder=str(self._folder),
                label=label,
                concurrency=concurrency,
                queues=queues,
                lease=lease,
                shutdown_timeout=shutdown_timeout,
                safety_interval=safety_interval,
                clock_off=clock_off,
            ),
        )
        self._processes.append(process)
        return process

    def records(self, what: str | None = None, **of: object) -> list[Record]:
        """Read what was recorded; `process=` and the event's own fields choose."""
        return [
            record
            for record in journal.read(self._folder)
            if what in (None, record.what)
            and all(
                value == (record.process if name == "process" else record.of.get(name))
                for name, value in of.items()
            )
        ]

    async def until(
        self, what: str, *, count: int = 1, within: float = 10, **of: object
    ) -> list[Record]:
        """Wait until so many such events were recorded; all there are."""

        async def recorded() -> list[Record]:
            records = self.records(what, **of)
            return records if len(records) >= count else []

        try:
            return await eventually(
                recorded, within=within, what=f"{count} {what} {of}"
            )
        except AssertionError as error:
            logs = [f"{each.name}:\n{each.told()}" for each in self._processes]
            raise AssertionError("\n".join([str(error), *logs])) from None

    def close(self) -> None:
        """Kill all that live; fail where one has ended by itself."""
        died = [told for process in self._processes if (told := process.close())]
        assert not died, "\n".join(died)
