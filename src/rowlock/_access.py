"""
How an app reaches its jobs: all that would be another on another database.

One object, so that a test puts an app elsewhere by one name, and nothing that was
forgotten still writes to the database that the app has in production.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rowlock._awaited import mark_by_asyncio
from rowlock._clock import Clock
from rowlock._errors import StoreUnavailable
from rowlock._task import Task

if TYPE_CHECKING:
    from rowlock._register import Register
    from rowlock._store import Store
    from rowlock._sync import Portal


class Access:
    """A store, its clock, its synchronous door, and what tells it of tasks."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tasks: Mapping[str, Task[..., Any]],
        max_payload: int,
    ) -> None:
        from rowlock._register import Register
        from rowlock._sync import Portal

        self.store: Store = store
        self.clock: Clock = clock
        self.portal: Portal = Portal()
        self.register: Register = Register(store, tasks, max_payload, clock)
        # Tasks whose handlers wait for jobs, of which each is warned of once.
        self.warned: set[str] = set()
        mark_by_asyncio()

    async def open(self) -> None:
        """Connect, unless that is done."""
        await self.store.open()
        self.register.nudge()

    async def open_beside(self) -> None:
        """Connect beside a connection that is lent, where that lets it in."""
        try:
            await self.open()
        except StoreUnavailable:
            # That connection may have a lock by what it reads, and needs no other then.
            if not self.store.lent.makes_schema:
                raise

    async def close(self) -> None:
        """Let go of every connection; the next call connects again."""
        self.register.forget()
        await self.store.close()


class Reaching:
    """What the parts of an app have in common: they reach its jobs, by one way."""

    _access: Access

    @property
    def _store(self) -> Store:
        return self._access.store

    @property
    def _portal(self) -> Portal:
        return self._access.portal
