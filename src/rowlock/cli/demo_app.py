"""
The demo's app: a service that takes GitHub's webhooks, with five tasks.

`record` succeeds, `announce` fails until the chat is back, `notify` dies of
a bug, `await_ci` snoozes, `report` runs long. It is an app as a user writes
one; what a test or a viewer may turn is on `World`.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from rowlock import App, Backoff, NewJob, Snooze, current_attempt

LONG_TASK = "report"
# What the bug below doesn't survive.
FATAL = ("organization", "member_added")
EARLY = ("star", "organization", "issues", "ping", "check_run", "push", "release")


@dataclass(slots=True, kw_only=True)
class World:
    """
    What the handlers meet outside of the queue.

    The chat is away, and CI runs, until an instant of `time.monotonic()`.
    """

    report_s: float
    chat_is_back_at: float = math.inf
    ci_ends_at: float = math.inf
    is_bug_mended: bool = False


@dataclass(frozen=True, slots=True)
class Webhook:
    """One event as GitHub sent it."""

    event: str
    payload: dict[str, Any]

    @property
    def is_of_organization(self) -> bool:
        """Whether it tells of an organisation's member, so of no repository."""
        return (self.event, self.payload.get("action")) == FATAL


def webhooks() -> list[Webhook]:
    """Read the real payloads that come with the package, those that show most first."""
    text = (files("rowlock.cli") / "data" / "webhooks.jsonl").read_text("utf-8")
    found = [Webhook(**json.loads(line)) for line in text.splitlines()]
    return sorted(found, key=lambda webhook: _rank(webhook.event))


def _rank(event: str) -> int:
    return EARLY.index(event) if event in EARLY else len(EARLY)


def make_app(url: str, world: World, unit: float) -> App:
    """Make the app; `unit` is its shortest pause, in seconds."""
    app = App(url, backoff=Backoff.exponential(unit, factor=2))
    _add_quick_tasks(app, world)
    _add_slow_tasks(app, world, nap=6 * unit)
    return app


def _add_quick_tasks(app: App, world: World) -> None:
    @app.task
    def record(event: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {
            "event": event,
            "action": payload.get("action"),
            "sender": payload.get("sender", {}).get("login"),
            "bytes": len(json.dumps(payload)),
        }

    @app.task(max_attempts=8)
    async def announce(event: str, text: str) -> str:
        if time.monotonic() < world.chat_is_back_at:
            msg = "chat is away"
            raise ConnectionError(msg)
        return f"{event}: {text}"

    @app.task(max_attempts=3)
    def notify(event: str, payload: dict[str, Any]) -> str:
        # The bug: what happens to an organisation has no repository.
        if world.is_bug_mended and "repository" not in payload:
            return f"told {payload['organization']['login']} of {event}"
        return f"told {payload['repository']['owner']['login']} of {event}"


def _add_slow_tasks(app: App, world: World, *, nap: float) -> None:
    @app.task
    async def await_ci(event: str, commit: str) -> str:
        if time.monotonic() < world.ci_ends_at:
            raise Snooze(nap)
        return f"CI has ended for {commit[:7]} ({event})"

    @app.task
    async def report(title: str) -> dict[str, Any]:
        sizes: dict[str, int] = {}
        events = webhooks()
        for webhook in events:
            size = len(json.dumps(webhook.payload))
            sizes[webhook.event] = sizes.get(webhook.event, 0) + size
            await asyncio.sleep(world.report_s / len(events))
        largest = max(sizes, key=lambda event: sizes[event])
        return {
            "title": title,
            "events": len(events),
            "largest": largest,
            "attempt": current_attempt().number,
        }


def jobs_of(app: App, webhook: Webhook) -> Iterator[NewJob]:
    """Tell which jobs the service makes of a webhook."""
    event, payload, tasks = webhook.event, webhook.payload, app.tasks
    yield tasks["record"].job(event=event, payload=payload)
    if event in ("issues", "issue_comment", "discussion", "release"):
        repository = payload["repository"]["full_name"]
        yield tasks["announce"].job(event=event, text=repository)
    if event in ("member", "star") or webhook.is_of_organization:
        yield tasks["notify"].job(event=event, payload=payload)
    if event in ("check_run", "check_suite", "workflow_job"):
        yield tasks["await_ci"].job(event=event, commit=payload[event]["head_sha"])
    if event == "ping":
        yield tasks["report"].job(title="events of the day")
