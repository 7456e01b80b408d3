"""A proxy before a server, which changes what the server says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


@asynccontextmanager
async def between(url: str, change: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """Pass a server's bytes on, what it says as `change` has it; the proxy's URL."""
    parts = urlsplit(url)
    serving: set[asyncio.Task[object] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        server = await asyncio.open_connection(parts.hostname, parts.port)
        both = [pump(reader, server[1]), pump(server[0], writer)]
        await asyncio.gather(*both)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(change(data))
                await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as proxy:
        _, port = proxy.sockets[0].getsockname()
        login = parts.netloc.rpartition("@")[0]
        netloc = f"{login}@127.0.0.1:{port}"
        yield urlunsplit(parts._replace(netloc=netloc))
        await asyncio.gather(*filter(None, serving))
