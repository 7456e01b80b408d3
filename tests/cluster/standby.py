"""A second server that follows a first one, and may take its place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.cluster import keeper
from tests.cluster.server import Cluster, _free_port


@contextmanager
def standby_of(server: Cluster, folder: Path) -> Iterator[Cluster]:
    """Copy a server, and have the copy follow it, with its feedback by a slot."""
    folder.mkdir(mode=0o711)
    for name in ("data", "socket"):
        (folder / name).mkdir(mode=0o700)
        if os.getuid() == 0:
            os.chown(folder / name, keeper.NOBODY, keeper.NOBODY)
    copied = subprocess.run(
        [
            server.programs / "pg_basebackup",
            *("--pgdata", folder / "data", "--dbname", server.url),
            *("--write-recovery-conf", "--create-slot", "--slot", "copy"),
            *("--checkpoint", "fast", "--no-sync"),
        ],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        **keeper.unprivileged(),
    )
    assert copied.returncode == 0, copied.stderr
    settings = {
        **server.settings,
        "hot_standby_feedback": "on",
        "wal_receiver_status_interval": "1",
        # Once it is promoted, it has none of its own.
        "synchronous_standby_names": "",
    }
    standby = replace(server, directory=folder, port=_free_port(), settings=settings)
    standby.start()
    try:
        yield standby
    finally:
        standby.stop("immediate")
