"""The course of the demo: feed the app, mend a bug, replay what died of it."""

from __future__ import annotations

import asyncio
import itertools
import time
from datetime import UTC, datetime

import click

from rowlock import App
from rowlock.cli import colour
from rowlock.cli.demo_app import World, jobs_of, make_app, webhooks
from rowlock.cli.demo_kill import kill_and_recover
from rowlock.cli.demo_screen import Screen
from rowlock.cli.demo_view import View
from rowlock.cli.story import tell

# Shares of the whole time: when the world changes, and when each act begins.
CHAT_IS_BACK = 0.3
CI_ENDS = 0.45
REPORT = 0.35
EXPORT = 0.4
MENDING = 0.6
LAST_WEBHOOK = 0.95
# Of a run of 20 s or more; a shorter one is quicker in everything.
NORMAL_S = 20.0
UNIT_S = 0.5
PAUSE_S = 0.4
PATIENCE_S = 30.0
LEASE_S, SHORTEST_LEASE_S = 2.0, 1.0


async def play(url: str, seconds: float) -> None:
    """Run the demo on an empty database, and print what happens."""
    pace = min(seconds / NORMAL_S, 1.0)
    world = World(report_s=seconds * REPORT)
    app = make_app(url, world, UNIT_S * pace)
    _open_the_curtain(app)
    # As long as a lease is, so long it takes until a killed process is missed.
    lease = max(LEASE_S * pace, SHORTEST_LEASE_S)
    worker = app.worker(shutdown_timeout=3, lease=lease)
    screen = Screen()
    try:
        async with app, worker, asyncio.TaskGroup() as group:
            began = time.monotonic()
            world.chat_is_back_at = began + seconds * CHAT_IS_BACK
            world.ci_ends_at = began + seconds * CI_ENDS
            view = View(began, screen)
            app.listen(view.hear)
            counting = group.create_task(view.count(app))
            feeding = group.create_task(
                _feed(app, PAUSE_S * pace, until=began + seconds * LAST_WEBHOOK)
            )
            killing = group.create_task(
                kill_and_recover(app, url, view, seconds=seconds * EXPORT, lease=lease)
            )
            await _until(began + seconds * MENDING)
            await _mend_and_replay(app, world, view)
            await asyncio.gather(feeding, killing)
            await _until(began + seconds)
            counting.cancel()
    finally:
        screen.close()
    await _take_the_bow(app, view)


def _open_the_curtain(app: App) -> None:
    click.secho("Rowlock demo", bold=True)
    click.echo(
        "A service takes webhooks as GitHub sends them, and makes jobs of them. A\n"
        "worker in this process, another for exports, and a database that is a file:\n"
        f"{colour.dim(app.url)}\n"
    )
    for task, does in (
        ("record", "succeeds"),
        ("announce", "fails while the chat is away, and recovers"),
        ("notify", "has a bug that one of its jobs dies of"),
        ("await_ci", "snoozes until CI has ended"),
        ("report", "runs long"),
        ("export", "runs in a process that is killed, and resumes in another"),
    ):
        click.echo(f"  {colour.bold(f'{task:<8}')}  {does}")
    click.echo()


async def _feed(app: App, pause: float, *, until: float) -> None:
    """Enqueue what comes of each webhook, in one transaction a webhook."""
    for webhook in itertools.cycle(webhooks()):
        await app.enqueue_many(jobs_of(app, webhook))
        await asyncio.sleep(pause)
        if time.monotonic() >= until:
            return


async def _mend_and_replay(app: App, world: World, view: View) -> None:
    async with asyncio.timeout(PATIENCE_S):
        job_id = await view.dead_letter()
    say = view.screen.say
    title = "A dead letter, as `rowlock jobs show` tells it"
    say(f"\n{colour.bold(title)}\n")
    for line in tell(await app.get(job_id), datetime.now(UTC), longest=6):
        say(f"  {line}".rstrip())
    say(
        "\nAn organisation's event has no repository, and the handler took one for\n"
        "granted. That is mended now, and the job replayed:\n"
    )
    world.is_bug_mended = True
    (answer,) = await app.replay(job_id)
    say(f"  {colour.bold(f'app.replay({job_id})')}  {answer}\n")
    async with asyncio.timeout(PATIENCE_S):
        await view.success_of(job_id)


async def _take_the_bow(app: App, view: View) -> None:
    click.echo()
    click.secho("What happened", bold=True)
    for line in view.summary(await app.stats()):
        click.echo(f"  {line}")
    await app.close()
    click.echo()


async def _until(instant: float) -> None:
    await asyncio.sleep(max(instant - time.monotonic(), 0))
