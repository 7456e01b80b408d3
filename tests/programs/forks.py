"""A program that enqueues, forks, and enqueues on both sides; its argument is a URL."""

from __future__ import annotations

import os
import signal
import sys

from rowlock import App


def main(url: str) -> int:
    signal.alarm(60)  # whatever hangs, and wherever
    app = App(url)

    @app.task
    def note(who: str) -> None: ...

    note.enqueue_sync(who="parent, before")
    # As another thread may at that moment: the child has its lock, and not the thread.
    app._portal._lock.acquire()
    child = os.fork()
    if child != 0:
        app._portal._lock.release()
    if child == 0:
        signal.alarm(60)
        note.enqueue_sync(who="child")
        assert len(app.list_sync().jobs) >= 2
        app.close_sync()
        os._exit(0)
    note.enqueue_sync(who="parent, after")
    _, status = os.waitpid(child, 0)
    app.close_sync()
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
