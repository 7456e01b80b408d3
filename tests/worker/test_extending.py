"""What is refused of listeners, followers, what surrounds; and what they can't do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rowlock import App, Attempt, UsageError
from rowlock.events import Event


async def a_coroutine(_event: Event) -> None: ...


@contextmanager
def no_async_one(_attempt: Attempt) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("way", "wrong", "said"),
    [
        ("listen", 5, "app.listen takes a plain function"),
        ("listen", a_coroutine, "app.listen takes a plain function"),
        ("follow", a_coroutine, "app.follow takes a plain function"),
        ("around", "x", "app.around takes an async context manager"),
        ("around", no_async_one, "@asynccontextmanager over an `async def`"),
    ],
)
def test_what_could_never_work_is_refused_at_once(
    app: App, way: str, wrong: object, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        getattr(app, way)(wrong)


async def test_who_listens_ends_nobody(app: App) -> None:
    @app.task
    def note() -> None: ...

    def leave(_event: Event) -> None:
        raise SystemExit

    app.listen(leave)

    assert await note.enqueue() == 1
