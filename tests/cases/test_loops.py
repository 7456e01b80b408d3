"""Cases of the kinds *Windows*, *Python versions*: loops that don't fit, and starts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rowlock import App, Status, UsageError
from tests.endings import ended, known


def test_b141_synchronous_calls_work_in_a_thread_without_a_loop(
    database_url: str,
) -> None:
    app = App(database_url)

    @app.task
    def greet() -> None: ...

    async def work() -> None:
        async with app.worker():
            await ended(app, job_id)

    with ThreadPoolExecutor(1) as thread:
        job_id = thread.submit(greet.enqueue_sync).result()
        thread.submit(asyncio.run, work()).result()
        job = thread.submit(app.wait_sync, known(job_id), timeout=10).result()
        thread.submit(app.close_sync).result()

    assert (job.status, job.claims) == (Status.SUCCEEDED, 1)


def test_b141_a_notebooks_loop_refuses_what_would_block_it_and_runs_the_rest(
    database_url: str,
) -> None:
    """Each cell is a coroutine on one loop that goes on between them."""
    app = App(database_url)

    @app.task
    async def greet() -> None: ...

    async def blocks() -> None:
        with pytest.raises(UsageError, match=r"write `await greet\.enqueue\(\.\.\.\)`"):
            greet.enqueue_sync()
        with pytest.raises(UsageError, match=r"write `await app\.wait\(\.\.\.\)`"):
            app.wait_sync(1, timeout=1)
        assert not (await app.list()).jobs

    async def enqueue() -> int:
        return known(await greet.enqueue())

    async def work(job_id: int) -> None:
        async with app.worker():
            await app.wait(job_id, timeout=10)

    with asyncio.Runner() as cells:
        cells.run(blocks())
        job_id = cells.run(enqueue())
        cells.run(work(job_id))
        job = cells.run(app.get(job_id))
        cells.run(app.close())

    assert (job.status, job.claims) == (Status.SUCCEEDED, 1)


async def test_b142_an_app_opens_and_closes_twice_nested_and_at_once(app: App) -> None:
    @app.task
    async def greet() -> None: ...

    async with app, app:
        await greet.enqueue()
    await app.close()
    await app.close()
    await asyncio.gather(*(app.open() for _ in range(5)))
    await greet.enqueue()
    await asyncio.gather(*(app.close() for _ in range(5)))
    await app.open()

    async with app.worker():
        for job in (await app.list()).jobs:
            await ended(app, job.id)
        assert (await ended(app, await greet.enqueue())).status is Status.SUCCEEDED


def watches() -> set[threading.Thread]:
    """Tell of the threads in which workers renew what they hold."""
    return {each for each in threading.enumerate() if each.name == "rowlock-watch"}


async def test_b142_a_worker_that_is_started_twice_refuses_and_the_first_goes_on(
    app: App,
) -> None:
    @app.task
    async def greet() -> None: ...

    worker = app.worker()
    starts = [asyncio.create_task(worker.__aenter__()) for _ in range(3)]
    done = await asyncio.gather(*starts, return_exceptions=True)
    refused = [each for each in done if isinstance(each, UsageError)]
    assert [each for each in done if each is worker]
    assert len(refused) == 2
    assert (await ended(app, await greet.enqueue())).status is Status.SUCCEEDED
    await worker.__aexit__(None, None, None)
    await worker.__aexit__(None, None, None)

    before = watches()
    async with app.worker() as one, app.worker() as two:
        assert one.id != two.id
        assert len(watches() - before) == 2
        assert (await ended(app, await greet.enqueue())).status is Status.SUCCEEDED
    assert watches() == before


# psycopg looks at the loop's class where `sys.platform` is Windows, and only there.
ON_WINDOWS = """
import asyncio, sys
import psycopg, rowlock.cli.main, rowlock.cli.worker, rowlock.stores.postgres
class ProactorEventLoop(asyncio.SelectorEventLoop): pass
asyncio.ProactorEventLoop = ProactorEventLoop
asyncio.new_event_loop = asyncio.events.new_event_loop = ProactorEventLoop
sys.platform = "win32"
"""
LIBRARY = """
from rowlock import App, ConfigError
app = App(sys.argv[1])
try:
    asyncio.run(app.open())
except ConfigError as error:
    print(error)
app.list_sync()
print("read")
"""
SHOP = """
import signal
from rowlock import App
app = App({url!r})
@app.task
def stop():
    print("stops")
    signal.raise_signal(signal.SIGTERM)
stop.enqueue_sync()
"""
COMMAND = """
rowlock.cli.main.main(["worker", "shop:app", "--no-supervisor"], prog_name="rowlock")
"""


def on_windows(program: str, folder: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ON_WINDOWS + program, *args],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_b139_a_loop_that_the_driver_refuses_is_named_with_what_to_do(
    url: str, tmp_path: Path
) -> None:
    """And synchronous calls, whose loop is our own, work."""
    said, read = on_windows(LIBRARY, tmp_path, url).splitlines()

    assert "ProactorEventLoop" in said
    assert said.endswith("asyncio.Runner(loop_factory=asyncio.SelectorEventLoop).")
    assert read == "read"


def test_b139_a_worker_takes_a_loop_that_the_driver_can_use(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP.format(url=url))

    assert on_windows(COMMAND, tmp_path) == "stops\n"
