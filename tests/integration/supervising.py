"""What tests of a supervisor share: its app, and how its processes are found."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from pathlib import Path

from rowlock import App
from tests.eventually import eventually

from .command_line import Command

SHOP = '''
import asyncio
import os
import re
import subprocess
import sys

from rowlock import App, current_attempt

VERSION = 1

app = App()


def began(more: object = "") -> None:
    job = current_attempt()
    where = f"{job.task} {job.job_id}/{job.number} in {os.getpid()}"
    print("began", where, more, flush=True)


@app.task
async def nap(seconds: float = 600.0) -> int:
    began()
    await asyncio.sleep(seconds)
    return os.getpid()


@app.task
async def count(n: int) -> int:
    with open("counted", "a") as file:
        file.write(f"{n} {VERSION} {os.getpid()}\\n")
    await asyncio.sleep(0.02)
    return VERSION


@app.task
async def hold_lock() -> None:
    """Block the loop in C code that holds the interpreter's lock."""
    began()
    re.match("(a+)+$", "a" * 60 + "b")


@app.task
def start_another() -> None:
    """Start a process that outlives its handler's."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    began(child.pid)
    child.wait()


@app.task(executor="process")
def apart() -> None:
    began(os.getppid())
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])


@app.task
def leave_orphans() -> None:
    """Start processes that end when their parent is gone."""
    for _ in range(5):
        subprocess.run(["sh", "-c", "sleep 0.1 &"], check=True)


@app.task
def quit() -> None:
    os._exit(0)


@app.task(timeout=0.1, max_attempts=1)
def hangs() -> None:
    import threading
    threading.Event().wait()
'''

# At which the lease of a job says nothing of when it starts again.
SOON_S = 2.0


async def prints(worker: Command, text: str, within: float = 30) -> re.Match[str]:
    """Wait until a pattern is in what it has printed."""

    async def printed() -> re.Match[str] | None:
        return re.search(text, worker.output)

    try:
        return await eventually(printed, within=within, what=text)
    except AssertionError as error:
        msg = f"{error}\n{worker.output}"
        raise AssertionError(msg) from None


def app_of(folder: Path, name: str, text: str) -> App:
    """Write an app as a module for workers, and give the same app in here."""
    (folder / f"{name}.py").write_text(text)
    namespace: dict[str, App] = {}
    exec(text, namespace)  # noqa: S102 - the very text that workers import
    return namespace["app"]


async def started(worker: Command, count: int) -> None:
    """Wait until so many workers have started in all."""
    await eventually(
        lambda: worker.output.count("worker.started") >= count,
        within=40,
        what=f"{count} started:\n{worker.output}",
    )


async def ends(worker: Command, within: float = 20) -> int:
    return await asyncio.to_thread(worker.ends, within)


def children_of(pid: int) -> list[int]:
    """Give the processes that one has started, or adopted, zombies too."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        # The thread whose file it is may end before it is read.
        with suppress(FileNotFoundError, ProcessLookupError):
            found.extend(map(int, file.read_text().split()))
    return found


def lives(pid: int) -> bool:
    """Tell whether a process runs; a zombie doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
