"""Event loops of our own making: one that psycopg can use, also on Windows."""

from __future__ import annotations

import asyncio
import sys


def new_loop() -> asyncio.AbstractEventLoop:
    """Make an event loop; the default one of Windows doesn't wait for sockets."""
    if sys.platform == "win32":
        return asyncio.SelectorEventLoop()
    return asyncio.new_event_loop()
