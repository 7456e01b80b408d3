"""A server that is too old, as far as its own word goes: there is none to start."""

from __future__ import annotations

import re

import pytest

from rowlock import App, ConfigError
from tests.cluster_fixtures import FreshDatabase

from .proxy import between

SAYS = re.compile(rb"(server_version\0)\d\d")


@pytest.mark.parametrize("major", [b"14", b"13"])
async def test_a_server_that_is_too_old_is_told_with_what_to_do(
    fresh_database: FreshDatabase, major: bytes
) -> None:
    def aged(said: bytes) -> bytes:
        return SAYS.sub(rb"\g<1>" + major, said)

    async with between(fresh_database(), aged) as server:
        for call in (App(server.url).open, App(server.url)._store.migrate):
            with pytest.raises(ConfigError) as refusal:
                await call()

            assert f"is PostgreSQL {major.decode()}, and Rowlock needs 15" in str(
                refusal.value
            )
            assert "upgrade the server" in str(refusal.value)
            assert "\n" not in str(refusal.value)
