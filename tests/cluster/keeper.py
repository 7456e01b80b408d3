"""
The server's parent: ends it, and removes its directory, when nobody is in any more.

Run by its path, so it imports the standard library alone: it is up in milliseconds, and
stands whatever the tests do to the package. It answers 0 once the server is ready, and
1 where it isn't to be; the keeper itself lives on in a session of its own, so that
neither a Ctrl-C in the terminal nor the end of the tests' process group reaches it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

PATIENCE = 60.0
LOOK = 0.01

# Any other account would do; this one is in every /etc/passwd.
NOBODY = 65534


def alone(directory: Path, *, wait: bool = False) -> BinaryIO | None:
    """
    Take the exclusive lock of a cluster: nobody is in, and nobody enters.

    None where somebody is in (and `wait` is false), or where the directory is gone.
    """
    path = directory / "members"
    try:
        members = path.open("rb")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(members, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if same(members, path):
            return members
    except BlockingIOError:
        pass
    members.close()
    return None


def same(opened: BinaryIO, path: Path) -> bool:
    """Whether the open file is still the one that the path leads to."""
    try:
        return os.path.samestat(os.fstat(opened.fileno()), path.stat())
    except FileNotFoundError:
        return False


def postmaster(directory: Path) -> tuple[int, str] | None:
    """The server's process and what it says of itself: `starting`, `ready` ..."""
    try:
        lines = (directory / "data" / "postmaster.pid").read_text().splitlines()
        process, status = int(lines[0]), "".join(lines[7:8]).strip()
    except (FileNotFoundError, IndexError, ValueError):
        return None
    return (process, status) if _serves(process, directory) else None


def _serves(process: int, directory: Path) -> bool:
    # After a crash of the machine the number may be anybody's.
    try:
        if sys.platform == "linux":
            command = Path(f"/proc/{process}/cmdline").read_text(errors="replace")
        else:
            ps = ["ps", "-ww", "-o", "command=", "-p", str(process)]
            command = subprocess.run(
                ps, capture_output=True, text=True, check=False
            ).stdout
    except (FileNotFoundError, ProcessLookupError):
        return False
    return str(directory / "data") in command


def send(process: int, number: signal.Signals) -> None:
    """Send the signal, if the process is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def send_tree(process: int, number: signal.Signals) -> None:
    """Send the signal to the server's process and its children."""
    # The parent first: once it is stopped, it makes no children that we would miss.
    send(process, number)
    for child in _children(process):
        send(child, number)


def _children(process: int) -> list[int]:
    listing = Path(f"/proc/{process}/task/{process}/children")
    if listing.exists():
        return [int(child) for child in listing.read_text().split()]
    pgrep = [shutil.which("pgrep") or "pgrep", "-P", str(process)]
    told = subprocess.run(pgrep, capture_output=True, text=True, check=False)
    return [int(child) for child in told.stdout.split()]


def end(directory: Path) -> None:
    """End the server and remove its directory. For who holds it alone."""
    if found := postmaster(directory):
        # At SIGQUIT it frees its shared memory, which SIGKILL would leave behind.
        send(found[0], signal.SIGQUIT)
        # It may have been paused.
        send_tree(found[0], signal.SIGCONT)
        until = time.monotonic() + PATIENCE
        while postmaster(directory):
            if time.monotonic() > until:
                send(found[0], signal.SIGKILL)
            time.sleep(LOOK)
    shutil.rmtree(directory, ignore_errors=True)


def main(directory: Path, command: list[str]) -> int:
    answer, told = os.pipe()
    if os.fork():
        os.close(told)
        return 0 if os.read(answer, 1) else 1
    os.setsid()
    server = subprocess.Popen(
        command, cwd=directory, stdin=subprocess.DEVNULL, **unprivileged()
    )
    held: list[BinaryIO] = []

    def await_the_last() -> None:
        if members := alone(directory, wait=True):
            held.append(members)
            # One that has just been started has no file yet by which `end` knows it.
            send(server.pid, signal.SIGQUIT)
            end(directory)

    waiter = threading.Thread(target=await_the_last, daemon=True)
    waiter.start()
    if _becomes_ready(server, directory):
        os.write(told, b"1")
    else:
        server.send_signal(signal.SIGQUIT)
    os.close(told)
    server.wait()
    if held:
        waiter.join()
    # Else the thread still waits for the lock, and nothing ends that wait.
    os._exit(0)


def unprivileged() -> dict[str, Any]:
    """For subprocess: the server refuses to run as root, so there it runs as nobody."""
    if os.getuid():
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def _becomes_ready(server: subprocess.Popen[bytes], directory: Path) -> bool:
    until = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < until:
        if postmaster(directory) == (server.pid, "ready"):
            return True
        time.sleep(LOOK)
    return False


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
