"""A server that is too old, as far as its own word goes: there is none to start."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

import pytest

from rowlock import App, ConfigError
from tests.cluster_fixtures import FreshDatabase

SAYS = re.compile(rb"(server_version\0)\d\d")


@asynccontextmanager
async def aged(url: str, major: bytes) -> AsyncIterator[str]:
    """Pass a server's bytes on, with another version in its greeting."""
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
                writer.write(SAYS.sub(rb"\g<1>" + major, data))
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


@pytest.mark.parametrize("major", [b"14", b"13"])
async def test_a_server_that_is_too_old_is_told_with_what_to_do(
    fresh_database: FreshDatabase, major: bytes
) -> None:
    async with aged(fresh_database(), major) as url:
        for call in (App(url).open, App(url)._store.migrate):
            with pytest.raises(ConfigError) as refusal:
                await call()

            assert f"is PostgreSQL {major.decode()}, and Rowlock needs 15" in str(
                refusal.value
            )
            assert "upgrade the server" in str(refusal.value)
            assert "\n" not in str(refusal.value)
