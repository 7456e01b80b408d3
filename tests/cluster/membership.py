"""
One cluster for all processes of a session: started by the first, ended by the last.

The count of members is the kernel's: each holds a shared lock on the cluster's
`members` file, which ends with the process. Three rules keep it sound: a cluster is
made, joined and swept away only by who holds the door; a lock counts only while its
file is still the one at that path; nobody waits for a lock but the keeper, and at the
door.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tests.cluster.binaries import Binaries, traversable
from tests.cluster.keeper import LOOK, PATIENCE, alone, end, same
from tests.cluster.server import Cluster

_held: set[BinaryIO] = set()


def _forget() -> None:
    # A lock is the open file's, so a forked child that outlives its parent would
    # keep the cluster. Closing its copy gives nothing of the parent's up.
    for members in _held:
        members.close()
    _held.clear()


os.register_at_fork(after_in_child=_forget)


def place(*, on_disk: bool = False) -> Path:
    """
    Find the folder of this user's clusters, made where it is missing.

    `on_disk` is for a server with fsync, which would be for nothing in memory.
    """
    temporary = Path("/var/tmp" if on_disk else tempfile.gettempdir())  # noqa: S108 - owned by us below, checked
    if os.getuid() == 0 and not traversable(temporary):
        temporary = Path("/tmp")  # noqa: S108 - the same
    folder = temporary / f"rowlock-pg-{os.getuid()}"
    folder.mkdir(mode=0o711, exist_ok=True)
    found = folder.lstat()
    # Everybody may write to /tmp: what stands there under our name must be ours.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        message = f"{folder} belongs to somebody else: remove it, or set TMPDIR."
        raise PermissionError(message)
    folder.chmod(0o711)
    return folder


@contextmanager
def joined(
    session: str, folder: Path, make: Callable[[Path], Cluster]
) -> Iterator[Cluster]:
    """
    Use the session's cluster, made by `make` in the directory it is given.

    What dead sessions left in the folder is removed first.
    """
    with (folder / "door").open("wb") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        sweep(folder)
        members, cluster = _enter(session, folder, make)
    _held.add(members)
    try:
        yield cluster
    finally:
        _held.discard(members)
        members.close()
        _end_if_last(cluster.directory)


@contextmanager
def own(
    binaries: Binaries,
    *,
    fsync: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Use a cluster that is this process's alone."""
    make = partial(Cluster.make, binaries=binaries, fsync=fsync, settings=settings)
    with joined(secrets.token_hex(), place(on_disk=fsync), make) as cluster:
        yield cluster


def sweep(folder: Path) -> None:
    """Remove the clusters that nobody is in. For who holds the door."""
    for directory in folder.iterdir():
        if not directory.is_dir():
            continue
        if not (directory / "members").exists():
            shutil.rmtree(directory, ignore_errors=True)
        elif members := alone(directory):
            with members:
                end(directory)


def _enter(
    session: str, folder: Path, make: Callable[[Path], Cluster]
) -> tuple[BinaryIO, Cluster]:
    # Short, for a socket's path may have a hundred letters only.
    name = hashlib.sha256(session.encode()).hexdigest()[:6]
    for finished in folder.glob(f"{name}-*/cluster.json"):
        if members := _shared(finished.parent / "members"):
            return members, Cluster.load(finished.parent)
    # Under a name of its own: of an earlier one something may still be writing there.
    directory = folder / f"{name}-{secrets.token_hex(2)}"
    directory.mkdir(mode=0o711)
    (directory / "members").touch(mode=0o600)
    made = _shared(directory / "members")
    assert made is not None, "nobody else comes in while we hold the door"
    try:
        return made, make(directory)
    except BaseException:
        with made:
            end(directory)
        raise


def _shared(path: Path) -> BinaryIO | None:
    try:
        members = path.open("rb")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(members, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if same(members, path):
            return members
    except BlockingIOError:
        pass
    members.close()
    return None


def _end_if_last(directory: Path) -> None:
    """Come back when the cluster is gone, or at once where others are in."""
    until = time.monotonic() + PATIENCE
    while directory.exists() and time.monotonic() < until:
        if members := alone(directory):
            with members:
                end(directory)
            return
        if others := _shared(directory / "members"):
            others.close()
            return
        # Its keeper was quicker.
        time.sleep(LOOK)
