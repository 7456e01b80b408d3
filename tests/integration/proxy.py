"""A proxy before a server: it changes what the server says, or falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Passes bytes on, and can stop doing so without a word to either side."""

    def __init__(self, url: str, change: Callable[[bytes], bytes]) -> None:
        self._server = urlsplit(url)
        self._change = change
        self._serving: set[asyncio.Task[Any]] = set()
        self._refuses = False
        self._silenced: list[asyncio.Event] = []
        self._passes = _passing()
        self.url = url
        self.connected: list[float] = []
        """When each connection was asked for, by the loop's clock."""

    def fall_silent(self, *, to_new: bool = True) -> None:
        """
        Take every byte, and pass none on: of old connections, and perhaps of new ones.

        What stands in between a server that is lost and its clients acts so: no
        client hears of it, and its kernel takes all that it sends for received.
        """
        self._passes.clear()
        self._silenced.append(self._passes)
        if not to_new:
            self._passes = _passing()

    def refuse(self) -> None:
        """End every connection, and take no new one, as where a server has stopped."""
        self._refuses = True
        for task in self._serving:
            task.cancel()

    def accept(self) -> None:
        """Take connections again."""
        self._refuses = False

    def speak(self) -> None:
        """Pass everything on again, also what came meanwhile."""
        for passes in self._silenced:
            passes.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Proxy]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as proxy:
            _, port = proxy.sockets[0].getsockname()
            login = self._server.netloc.rpartition("@")[0]
            netloc = f"{login}@127.0.0.1:{port}"
            self.url = urlunsplit(self._server._replace(netloc=netloc))
            yield self
            self.speak()
            # A client that gave up while it connected may keep its socket until
            # Python collects it.
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connected.append(asyncio.get_running_loop().time())
        if self._refuses:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        passes = self._passes
        # A cancelled one would be told as an error by asyncio, to whom it belongs.
        with suppress(ConnectionError, asyncio.CancelledError), closing(writer):
            await passes.wait()
            answers, server = await asyncio.open_connection(
                self._server.hostname, self._server.port
            )
            with closing(server):
                await asyncio.gather(
                    self._pump(reader, server, passes),
                    self._pump(answers, writer, passes),
                )

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passes: asyncio.Event,
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await passes.wait()
                writer.write(self._change(data))
                await writer.drain()
        await passes.wait()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def _passing() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def _as_it_is(said: bytes) -> bytes:
    return said


@asynccontextmanager
async def between(
    url: str, change: Callable[[bytes], bytes] = _as_it_is
) -> AsyncIterator[Proxy]:
    """Stand before a server, and pass on what it says as `change` has it."""
    async with Proxy(url, change).listening() as proxy:
        yield proxy
