"""An assertion that nobody awaits fails its test, whatever runs the test."""

from __future__ import annotations

import asyncio

import pytest

from rowlock import App
from rowlock.testing import assert_enqueued, drain, isolated, refute_enqueued

SHOP = """
from rowlock import App

app = App("sqlite://")

@app.task
async def send(n: int) -> None: ...
"""

DROPS = """
import pytest
import shop
from rowlock.testing import assert_enqueued, drain, isolated, refute_enqueued

kept = []

@MARK
async def test_asserts():
    assert_enqueued(shop.app, "send", count=99)

@MARK
async def test_refutes():
    await shop.send.enqueue(1)
    refute_enqueued(shop.app, shop.send)

@MARK
async def test_drains():
    call = drain(shop.app)

@MARK
async def test_asserts_in_a_fixture(rowlock_app):
    assert_enqueued(rowlock_app, "send", count=99)

@pytest.fixture
async def assertion():
    kept.append(assert_enqueued(shop.app, "send", count=99))
    yield
    kept.clear()

@MARK
async def test_keeps_it_until_its_end(assertion):
    pass

@MARK
async def test_awaits():
    await shop.send.enqueue(2)
    await assert_enqueued(shop.app, "send", args={"n": 2})
    await drain(shop.app)
"""

RUNNERS = {
    "asyncio": ("pytest.mark.asyncio", ("-p", "no:anyio", "--asyncio-mode=auto")),
    "anyio": ("pytest.mark.anyio", ("-p", "no:asyncio")),
    "xdist": ("pytest.mark.asyncio", ("-n", "2", "--asyncio-mode=auto")),
}


@pytest.mark.parametrize("runner", RUNNERS)
def test_pytest_fails_the_test_that_dropped_it(
    pytester: pytest.Pytester, runner: str
) -> None:
    mark, options = RUNNERS[runner]
    conftest = "import pytest\nanyio_backend = pytest.fixture(lambda: 'asyncio')\n"
    pytester.makepyfile(
        shop=SHOP, conftest=conftest, test_drops=DROPS.replace("@MARK", f"@{mark}")
    )
    pytester.makefile(".ini", pytest="[pytest]\nrowlock_app = shop:app\npythonpath=.")

    ran = pytester.runpytest_subprocess(*options, timeout=100)

    # Its own end is too soon for one that is kept: the end of its fixtures tells.
    ran.assert_outcomes(passed=2, failed=4, errors=1)
    for call in ("assert_enqueued", "refute_enqueued", "drain"):
        ran.stdout.fnmatch_lines(
            [f"{call}(...) was called without await at */test_drops.py:*Write `await*"]
        )


def fail(app: App) -> None:
    with isolated(app):
        drain(app)  # type: ignore[unused-coroutine]  # the trap
        raise LookupError


def test_elsewhere_the_end_of_the_isolation_fails() -> None:
    app = App("sqlite://")

    async def test() -> None:
        async with isolated(app):
            assert_enqueued(app, "send")  # type: ignore[unused-coroutine]  # the trap
            refute_enqueued(app, "send")  # type: ignore[unused-coroutine]  # the trap

    with pytest.raises(AssertionError) as told:
        asyncio.run(test())
    with pytest.raises(AssertionError, match="drain_sync"), isolated(app):
        drain(app)  # type: ignore[unused-coroutine]  # the trap
    with pytest.raises(LookupError):
        fail(app)

    first, second = str(told.value).splitlines()
    assert first.startswith("assert_enqueued(...) was called without await at ")
    assert second.startswith("refute_enqueued(...) was called without await at ")
