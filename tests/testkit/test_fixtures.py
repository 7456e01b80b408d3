"""The fixtures, as users run them: pytest itself, in a folder with a project in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SHOP = """
from rowlock import App

app = App("sqlite:///production.db", max_attempts=2, backoff=[60])
sent = []

@app.task
async def send(n: int) -> None:
    sent.append(n)
    if n < 0:
        raise LookupError(n)

@app.task
def plain(n: int) -> None:
    send.enqueue_sync(n)
"""

SETTINGS = """
[pytest]
rowlock_app = shop:app
pythonpath = .
filterwarnings = error
asyncio_default_fixture_loop_scope = function
"""

# Each of these would fail in the next test if anything of the one before were left.
USES = """
import contextvars, os, threading
import pytest
import shop
from rowlock import Status
from rowlock.testing import (
    assert_enqueued, assert_enqueued_sync, drain, drain_sync, refute_enqueued_sync,
)

production = shop.app.url
variables = len(contextvars.copy_context())
threads = threading.active_count()

@pytest.fixture(autouse=True)
def untouched():
    assert shop.app.url == production
    shop.sent.clear()
    yield
    assert shop.app.url == production
    assert shop.app._inline is None
    assert set(shop.app.tasks) == {"send", "plain"}
    assert len(shop.app._extensions._listeners) == 1
    assert len(contextvars.copy_context()) == variables
    assert not os.path.exists("production.db")

@pytest.mark.parametrize("turn", range(2))
def test_plain(rowlock_app, rowlock_clock, turn):
    refute_enqueued_sync(rowlock_app, "send")
    rowlock_app.listen(lambda event: None)
    rowlock_app.task(name="more")(lambda: None)
    shop.plain.options(delay=3600).enqueue_sync(turn)
    assert drain_sync(rowlock_app).ran == ()
    rowlock_clock.advance(3600)
    assert drain_sync(rowlock_app).succeeded == 2
    assert shop.sent == [turn]
    assert_enqueued_sync(rowlock_app, "send", args={"n": turn}, count=1)

@pytest.mark.parametrize("turn", range(2))
def test_plain_inline(rowlock_inline, turn):
    shop.plain.enqueue_sync(turn)
    assert shop.sent == [turn]
    with pytest.raises(LookupError):
        shop.send.enqueue_sync(-1)

@MARK
@pytest.mark.parametrize("turn", range(2))
async def test_async(rowlock_app, turn):
    await shop.send.enqueue(-1)
    assert (await drain(rowlock_app, advance=120, raises=False)).failed == 1
    (job,) = await assert_enqueued(rowlock_app, shop.send, count=1, status="failed")
    assert job.attempts == 2
    async with rowlock_app.worker():
        job_id = await shop.plain.enqueue(turn)
        assert (await rowlock_app.wait(job_id, 10)).status is Status.SUCCEEDED

@MARK
@pytest.mark.parametrize("turn", range(2))
async def test_async_inline(rowlock_inline, turn):
    await shop.plain.enqueue(turn)
    assert shop.sent == [turn]
    with pytest.raises(LookupError):
        await shop.send.enqueue(-1)
"""

ANYIO = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""

RUNNERS = {
    "asyncio": ("pytest.mark.asyncio", ("-p", "no:anyio")),
    "anyio": ("pytest.mark.anyio", ("-p", "no:asyncio")),
    "both": ("pytest.mark.anyio", ()),
    "xdist": ("pytest.mark.asyncio", ("-n", "2")),
}


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with an app that its modules import."""
    pytester.makefile(".py", shop=SHOP, conftest=ANYIO)
    pytester.makefile(".ini", pytest=SETTINGS)
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    if "-p" in options and "no:asyncio" in options:
        (project.path / "pytest.ini").write_text(
            SETTINGS.replace("asyncio_default_fixture_loop_scope = function\n", "")
        )
    return project.runpytest_subprocess(*options, timeout=100)


@pytest.mark.parametrize(
    ("runner", "database"),
    [
        *(("asyncio", "sqlite"), ("asyncio", "postgres"), ("anyio", "sqlite")),
        *(("anyio", "postgres"), ("both", "sqlite"), ("xdist", "postgres")),
    ],
)
def test_the_fixtures_work_in_every_kind_of_test_and_leave_nothing(
    project: pytest.Pytester,
    request: pytest.FixtureRequest,
    runner: str,
    database: str,
) -> None:
    mark, options = RUNNERS[runner]
    project.makepyfile(test_uses=USES.replace("@MARK", f"@{mark}"))
    if database == "postgres":
        url = request.getfixturevalue("postgres_url")
        options = (*options, "-o", f"rowlock_database={url}")

    ran = run(project, *options)

    ran.assert_outcomes(passed=8)
    assert ran.ret == 0


def test_the_pages_test_on_an_own_connection_to_postgres_passes(
    project: pytest.Pytester, postgres_url: str
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (shop,) = (block for block in blocks if "app = App(" in block)
    (test,) = (block for block in blocks if "psycopg.connect(" in block)
    project.makepyfile(shop=shop, test_uses=test)

    ran = run(project, "-o", f"rowlock_database={postgres_url}")

    ran.assert_outcomes(passed=1)


def test_in_memory_no_driver_reaches_the_jobs_and_that_is_said(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(test_uses="def test_one(rowlock_database): ...")

    ran = run(project)

    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines(["The jobs of this test are in memory, where no other*"])


def test_no_thread_and_no_loop_stays(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_uses="""
        import gc, asyncio, threading, time
        import pytest, shop
        from rowlock.testing import drain_sync

        @pytest.fixture(autouse=True)
        def nothing_stays():
            yield
            until = time.monotonic() + 10
            # A handler's thread is told to end, and is waited for by nobody.
            while threading.active_count() > 1 and time.monotonic() < until:
                time.sleep(0.01)
            assert threading.enumerate() == [threading.main_thread()]
            gc.collect()
            for each in gc.get_objects():
                assert not isinstance(each, asyncio.BaseEventLoop) or each.is_closed()

        @pytest.mark.parametrize("turn", range(3))
        def test_one(rowlock_app, turn):
            shop.plain.enqueue_sync(turn)
            drain_sync(rowlock_app)
        """
    )

    run(project, "-p", "no:asyncio").assert_outcomes(passed=3)


def test_a_failure_is_the_tests_and_shows_no_line_of_ours(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        test_uses="""
        import shop
        from rowlock.testing import assert_enqueued_sync

        def test_wrong(rowlock_app):
            shop.send.enqueue_sync(42)
            assert_enqueued_sync(rowlock_app, "send", args={"n": 43})

        def test_raises(rowlock_inline):
            shop.send.enqueue_sync(-1)
        """
    )

    ran = run(project)

    ran.assert_outcomes(failed=2)
    ran.stdout.fnmatch_lines(
        [
            "E*AssertionError: No job of 'send' with args {'n': 43} was enqueued.",
            "E*1  send  {'n': 42}  queue default, pending, due *",
            "E*The nearest is job 1: its n is 42, not 43.",
            "E*LookupError: -1",
            "E*In attempt 1 of job 1, task 'send'; the job is due again later.",
        ]
    )
    ran.stdout.no_fnmatch_line("*testing/_expect.py*")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("", "rowlock_app doesn't know your app: say where your app is*"),
        ("rowlock_app = shop:no", "rowlock_app = 'shop:no' can't be found*"),
        ("rowlock_app = no:app", "rowlock_app = 'no:app' can't be found*"),
        ("rowlock_app = shop:sent", "rowlock_app = 'shop:sent' is a list and no App*"),
    ],
)
def test_an_app_that_is_not_found_is_one_sentence(
    project: pytest.Pytester, settings: str, told: str
) -> None:
    project.makefile(".ini", pytest=f"[pytest]\npythonpath = .\n{settings}\n")
    project.makepyfile(test_uses="def test_one(rowlock_app): ...")

    ran = run(project)

    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines([told])


def test_a_conftest_may_say_which_app_and_which_database(
    project: pytest.Pytester,
) -> None:
    project.makefile(".ini", pytest="[pytest]\npythonpath = .\n")
    project.makepyfile(
        conftest="""
        import pytest, shop
        from rowlock.testing import isolated

        @pytest.fixture
        def rowlock_url(tmp_path):
            return f"sqlite:///{tmp_path}/jobs.db"

        @pytest.fixture
        def rowlock_app(rowlock_url, rowlock_clock):
            with isolated(shop.app, rowlock_url, clock=rowlock_clock) as app:
                yield app
        """,
        test_uses="""
        import shop

        def test_one(rowlock_inline, tmp_path):
            shop.plain.enqueue_sync(1)
            assert shop.sent == [1]
            assert (tmp_path / "jobs.db").exists()
        """,
    )

    run(project).assert_outcomes(passed=1)


def test_a_run_that_uses_none_of_it_loads_none_of_it(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_one():
            ours = {name for name in sys.modules if name.partition(".")[0] == "rowlock"}
            assert "_rowlock_pytest" in sys.modules
            assert not ours
        """
    )

    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_sqlite_needs_no_driver_of_postgres(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_uses="""
        import sys
        import shop

        def test_one(rowlock_inline):
            shop.send.enqueue_sync(1)
            assert shop.sent == [1]
            assert not {"psycopg", "click"} & set(sys.modules)
        """
    )

    run(project).assert_outcomes(passed=1)
