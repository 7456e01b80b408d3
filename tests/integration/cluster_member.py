"""
A process that uses a session's cluster until its input ends: `... SESSION PREPARED`.

It prints where the cluster is, and notes in the file PREPARED that it filled the
template, which one of the session does. For each line it is sent it forks a child,
which lives until the input ends too.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.cluster.databases import of_session


def main(session: str, prepared: Path) -> None:
    def prepare(url: str) -> None:
        with prepared.open("a") as file:
            file.write(f"{url}\n")

    with of_session(session, prepare=prepare) as databases:
        cluster = databases.cluster
        told = {
            "directory": str(cluster.directory) if cluster else None,
            "url": databases.clone(),
        }
        tell(json.dumps(told))
        for _ in sys.stdin:
            child = os.fork()
            if not child:
                sys.stdin.read()
                os._exit(0)
            tell(str(child))


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
