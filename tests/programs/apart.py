"""A worker whose tasks run in child processes, until it is killed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from rowlock import App

app = App()


@app.task(executor="process")
def grind(file: str) -> None:
    """Hold the interpreter's lock for longer than anybody waits."""
    grandchild = subprocess.Popen(["sleep", "1000"])  # noqa: S607 - wherever it is
    Path(f"{file}.new").write_text(f"{os.getpid()} {grandchild.pid}")
    Path(f"{file}.new").rename(file)
    re.match(r"(a+)+$", "a" * 80 + "b")


async def main() -> None:
    async with app.worker(concurrency=1):
        await grind.enqueue(sys.argv[1])
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
