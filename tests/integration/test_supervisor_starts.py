"""A supervisor whose workers don't start, or die again and again; its terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from tests.eventually import eventually

from .command_line import SHOP, Command, run
from .supervising import children_of, lives, prints, started
from .test_cli_worker import come_from_the_future, enqueue

pytestmark = pytest.mark.usefixtures("shop")

# Where a child is only what it says on its line: the supervisor is the real one.
BRIEF = """
import json, os, socket, sys
told = os.environ.get("ROWLOCK_SUPERVISED")
if told:
    line = socket.socket(fileno=int(told.split(",")[0]))
    line.send(b'{"worker": "w-%d"}\\n{"health": {"ready": true}}\\n' % os.getpid())
    if os.fork():
        os._exit(1)
    os.execlp("sleep", "sleep", "600")
from rowlock.cli import slot, main
slot.FIRST_DELAY_S = slot.LONGEST_DELAY_S = 0.0
main.main(prog_name="rowlock")
"""


async def test_b88_after_200_deaths_nothing_is_left_but_the_workers(
    start: type[Command],
) -> None:
    """
    No file, no zombie, no process that one had started.

    The report's deadlock of a fork beside threads can't be: each is a new program, and
    warnings are errors here.
    """
    worker = start(
        *("worker", "shop:app", "--processes", "4", "--log-format", "json"),
        program=BRIEF,
    )
    pid = worker.process.pid

    async def deaths(count: int) -> None:
        await eventually(
            lambda: (
                worker.output.count("was recovered") >= count
                or worker.output.count("ended with exit code 1") >= count
            ),
            within=60,
            what=worker.output[-2000:],
        )

    await deaths(20)
    files = most_files(pid)
    await deaths(220)

    assert most_files(pid) <= files + 2
    assert len(children_of(pid)) <= 8  # four, and what these have started
    worker.signal(signal.SIGTERM)
    worker.process.wait(20)
    assert "Traceback" not in worker.output
    assert "Warning" not in worker.output


def most_files(pid: int) -> int:
    """Count its open files, while processes come and go."""
    counts = []
    for _ in range(20):
        counts.append(len([*Path(f"/proc/{pid}/fd").iterdir()]))
        time.sleep(0.01)  # they come and go in its own time
    return max(counts)


def test_it_loads_neither_the_app_nor_a_store(start: type[Command]) -> None:
    program = """
import atexit, os, sys
if "ROWLOCK_SUPERVISED" not in os.environ:
    atexit.register(lambda: print("loaded", *sys.modules))
from rowlock.cli.main import main
main(prog_name="rowlock")
"""
    worker = start("worker", "shop:app", program=program)
    worker.prints("worker.started")
    worker.signal(signal.SIGTERM)
    loaded = set(worker.prints("loaded ").split())

    assert "rowlock.cli.supervisor" in loaded
    heavy = {"asyncio", "msgspec", "sqlite3", "psycopg", "shop"}
    heavy |= {"rowlock.stores.sqlite", "rowlock.stores.postgres"}
    assert not loaded & heavy
    assert worker.ends() == 0


def test_a_store_that_cant_be_served_is_told_once_and_tried_again(
    start: type[Command], folder: Path
) -> None:
    enqueue("greet", '{"name": "Ada"}')
    come_from_the_future(folder / "shop.db")
    worker = start("worker", "shop:app", "--processes", "2")
    worker.prints("No worker could start, which is tried again: ")
    pids: set[int] = set()
    while len(pids) < 6:
        time.sleep(0.02)  # processes start when they start
        pids |= {*children_of(worker.process.pid)}
    connection = sqlite3.connect(folder / "shop.db")
    with connection:
        connection.execute("UPDATE rowlock_migrations SET version = version - 1000")
    connection.close()
    worker.prints("worker.started")
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    assert worker.output.count("upgrade Rowlock") == 1


def test_probes_tell_why_none_could_start(start: type[Command], folder: Path) -> None:
    enqueue("greet", '{"name": "Ada"}')
    come_from_the_future(folder / "shop.db")
    worker = start("worker", "shop:app", "--health", "127.0.0.1:0")
    line = worker.prints("answered at http://")
    worker.prints("No worker could start, which is tried again: ")
    (address,) = re.findall(r"http://(127.0.0.1:\d+)", line)
    told = run("health", "--ready", address)

    assert told.exit_code == 1
    assert "1 worker of 1 to start: " in told.stdout
    assert "upgrade Rowlock" in told.stdout


# Shows what goes over the line.
SHOWS_LINE = """
from rowlock.cli import channel, main
send = channel.Channel.send
def shown(self, **message):
    print("told", *message, flush=True)
    send(self, **message)
channel.Channel.send = shown
main.main(prog_name="rowlock")
"""


def test_who_never_had_an_open_store_leaves_nothing_to_recover(
    start: type[Command], folder: Path
) -> None:
    """Or the first that starts after an outage would have all of them to look for."""
    enqueue("greet", '{"name": "Ada"}')
    come_from_the_future(folder / "shop.db")
    worker = start("worker", "shop:app", program=SHOWS_LINE)
    worker.prints("told failed")
    assert "told worker" not in worker.output
    connection = sqlite3.connect(folder / "shop.db")
    with connection:
        connection.execute("UPDATE rowlock_migrations SET version = version - 1000")
    connection.close()
    worker.prints("worker.started")
    assert worker.output.count("told worker") == 1
    worker.signal(signal.SIGTERM)

    assert worker.ends() == 0
    assert "told recover" not in worker.output


async def test_a_mistake_at_the_first_start_is_one_sentence_and_ends_it_with_2(
    start: type[Command], folder: Path
) -> None:
    (folder / "shop.py").write_text("import nothing_of_the_kind\n")
    worker = start("worker", "shop:app", "--processes", "3")

    assert worker.ends() == 2
    (line,) = worker.lines
    assert line.startswith("Error: Importing 'shop' failed")


# Its store is open, and a handler ends it before it has said that it claims.
ENDS_WITH_2 = """
import os, socket
if told := os.environ.get("ROWLOCK_SUPERVISED"):
    line = socket.socket(fileno=int(told.split(",")[0]))
    line.send(b'{"worker": "w-1"}\\n')
    os._exit(2)
from rowlock.cli import main
main.main(prog_name="rowlock")
"""


def test_a_handler_that_ends_the_first_worker_with_2_is_no_mistake_at_the_start(
    start: type[Command],
) -> None:
    worker = start("worker", "shop:app", program=ENDS_WITH_2)
    worker.prints("ended with exit code 2; what it held is recovered")
    worker.prints("another is started in 0.2 s")

    assert worker.process.poll() is None


async def test_a_mistake_that_comes_later_is_told_and_tried_again(
    start: type[Command], folder: Path
) -> None:
    worker = start("worker", "shop:app")
    await started(worker, 1)
    (folder / "shop.py").write_text("import nothing_of_the_kind\n")
    await eventually(lambda: claims(worker))
    os.kill(children_of(worker.process.pid)[0], signal.SIGKILL)
    await prints(worker, "which is tried again: Importing 'shop' failed")
    (folder / "shop.py").write_text(SHOP)
    await started(worker, 2)

    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0


def claims(worker: Command) -> bool:
    """Tell whether its supervisor knows that one claims: it has said so for a while."""
    time.sleep(0.3)  # a worker tells it in its own time
    return "worker.started" in worker.output


def on_own_terminal(*args: str) -> tuple[int, int]:
    """Start `rowlock` as a shell of its own; the process, and the terminal's end."""
    pid, terminal = pty.fork()
    if not pid:
        os.execv(  # noqa: S606 - a terminal's session leader
            sys.executable, [sys.executable, "-m", "rowlock", *args]
        )
    return pid, terminal


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("by", ["ctrl_c", "closing"])
def test_ctrl_c_and_a_terminal_that_is_closed_end_it(by: str) -> None:
    """The workers are in groups of their own, so that the supervisor alone is told."""
    pid, terminal = on_own_terminal("worker", "shop:app", "--processes", "2")
    shown = ""
    while len(re.findall("worker.started", shown)) < 2:
        shown += os.read(terminal, 65536).decode()
    children = children_of(pid)
    if by == "ctrl_c":
        os.write(terminal, b"\x03")
        while "worker.stopped" not in shown:
            shown += os.read(terminal, 65536).decode()
        assert shown.count("SIGINT: claiming no more") >= 1
    else:
        os.close(terminal)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert len(children) == 2
    assert not any(map(lives, children))
    if by == "ctrl_c":
        os.close(terminal)


async def test_what_only_a_supervisor_says_is_refused_from_others(
    start: type[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWLOCK_SUPERVISED", "77,78")
    worker = start("worker", "shop:app")

    assert worker.ends() == 2
    (line,) = worker.lines
    assert line.startswith("Error: ROWLOCK_SUPERVISED is '77,78'")
