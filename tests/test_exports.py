"""The public names: listed once, in `rowlock.__all__`, and nothing beside them."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.fixtures import FixtureFunctionDefinition

import _rowlock_pytest
import rowlock
from rowlock import _events, events, testing
from rowlock._events import attempts, operators, worker

PACKAGE = Path(rowlock.__file__).parent
PUBLIC_MODULES = {"cli", "events", "stores", "testing"}
# What the parameters of public calls take, for those who write such a parameter.
ALIASES = {"BackoffLike", "BetweenLike", "OnConflict", "StatusLike", "Where"}
WAYS_IN = {"Around", "Follower", "Listener"}
TESTING = {
    *("FakeClock", "isolated", "fresh_database", "inline", "HandlerFailed"),
    *("drain", "drain_sync", "Drained", "Ran"),
    *("assert_enqueued", "assert_enqueued_sync"),
    *("refute_enqueued", "refute_enqueued_sync"),
}
FIXTURES = {
    *("rowlock_app", "rowlock_clock", "rowlock_database", "rowlock_inline"),
    "rowlock_url",
}
# What everybody writes, and what a web process does that only enqueues.
IMPORTS = "from rowlock import App, Backoff, Filter, Job, Retry, current_attempt"
ENQUEUES = f"""
{IMPORTS}
app = App("sqlite://")
@app.task
def greet(name: str) -> None: ...
greet.enqueue_sync(name="Ada")
"""
# What takes its time to load, and loads where it is used: ARCHITECTURE.md says why.
LOADED_BY_WHO_NEEDS_IT = {
    *("click", "psycopg", "importlib.metadata", "importlib.resources"),
    *("difflib", "getpass", "rowlock._events.operators", "rowlock._events.worker"),
    *("rowlock._worker", "rowlock.cli", "rowlock.events", "rowlock.testing"),
    *("rowlock.stores.postgres",),
    # What users lend connections of.
    *("aiosqlite", "asyncpg", "django", "psycopg2", "sqlalchemy", "sqlmodel"),
}
LOADED_BY_CALLS = {
    *("asyncio", "concurrent.futures", "socket", "ssl", "subprocess"),
    *("msgspec", "rowlock._codec", "rowlock._store", "rowlock.stores.sqlite"),
    *("rowlock._events", "rowlock._outcome", "rowlock._register", "rowlock._sync"),
    *("sqlite3", "pathlib", "uuid"),
}


def test_what_is_public_is_listed() -> None:
    public = {
        name
        for name, value in vars(rowlock).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        # What `from __future__`, and imports for types, leave behind.
        and name not in ("annotations", "TYPE_CHECKING")
    }

    # These are loaded where they are named.
    assert public | {"Health", "Worker"} == set(rowlock.__all__)


def test_the_list_is_sorted_and_names_each_once() -> None:
    assert list(rowlock.__all__) == sorted(set(rowlock.__all__))


def test_every_other_module_is_private() -> None:
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}

    public = {name for name in modules if not name.startswith("_")}
    assert public == PUBLIC_MODULES


@pytest.mark.parametrize("name", rowlock.__all__)
def test_every_public_name_has_a_docstring_of_its_own(name: str) -> None:
    if name in ALIASES:
        return  # theirs is read from the source, by the reference
    docstring = vars(getattr(rowlock, name)).get("__doc__") or getattr(
        getattr(rowlock, name), "__doc__", None
    )

    assert docstring
    # What a dataclass writes for itself says nothing.
    assert not docstring.startswith(f"{name}(")


@pytest.mark.parametrize("name", rowlock.__all__)
def test_the_fields_of_public_values_can_be_resolved(name: str) -> None:
    """Serializers and web frameworks read the annotations of what they are given."""
    value = getattr(rowlock, name)
    if not dataclasses.is_dataclass(value):
        return

    hints = typing.get_type_hints(value)

    assert hints.keys() >= {field.name for field in dataclasses.fields(value)}


def test_what_is_public_for_tests_is_listed() -> None:
    shown = {name for name in vars(testing) if not name.startswith("_")}

    assert shown - {"annotations"} == set(testing.__all__) == TESTING
    assert list(testing.__all__) == sorted(TESTING)
    assert all(getattr(testing, name).__doc__ for name in TESTING)


def test_the_fixtures_are_what_the_page_shows() -> None:
    fixtures = {
        name
        for name, value in vars(_rowlock_pytest).items()
        if isinstance(value, FixtureFunctionDefinition)
    }
    page = (PACKAGE.parent.parent / "docs" / "testing.md").read_text()

    assert fixtures == FIXTURES
    # What a drain returns has `Ran` in it, and says so itself.
    assert not {name for name in FIXTURES | TESTING - {"Ran"} if name not in page}


def test_every_event_is_public() -> None:
    kinds = {
        name
        for module in (_events, attempts, operators, worker)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, _events.Event)
    }

    assert list(events.__all__) == sorted(kinds | WAYS_IN | {"AttemptFilter", "Ending"})
    assert all(hasattr(events, name) for name in events.__all__)


@pytest.mark.parametrize("name", sorted({*events.__all__} - WAYS_IN))
def test_every_event_says_what_happened(name: str) -> None:
    kind = getattr(events, name)

    assert not kind.__doc__.startswith(f"{name}(")
    if dataclasses.is_dataclass(kind):
        assert typing.get_type_hints(kind)


APP = {
    *("url", "tasks", "task", "find_task", "worker"),
    *("max_attempts", "backoff", "timeout", "lease", "safety_interval"),
    *("poll_interval", "retention"),
    *("max_payload", "version", "listen", "around", "follow", "replay_when"),
    *("enqueue_many", "once", "get", "list", "find", "wait", "why", "stats", "dead"),
    "preview",
    "doctor",
    *("cancel", "replay", "move", "delete", "pause", "resume", "open", "close"),
}
HAS_NO_TWIN = {
    *("listen", "around", "follow", "task", "find_task", "worker", "replay_when"),
}


def test_completion_shows_an_apps_public_names_and_no_others() -> None:
    app = rowlock.App("sqlite://")
    awaited = {
        name for name in APP - HAS_NO_TWIN if callable(getattr(rowlock.App, name, None))
    }

    shown = {name for name in dir(app) if not name.startswith("_")}
    assert shown == APP | {f"{name}_sync" for name in awaited}


def test_completion_shows_an_attempts_public_names_and_no_others() -> None:
    shown = {name for name in dir(rowlock.Attempt) if not name.startswith("_")}

    assert shown == {
        *("job_id", "task", "queue", "number", "failures", "is_last", "deadline"),
        *("scheduled_for", "idempotency_key", "cancelled"),
        *("state", "checkpoint", "checkpoint_sync", "progress", "spawn"),
        *("hold", "hold_sync", "complete", "complete_sync"),
    }


def public_functions() -> Iterator[tuple[str, object]]:
    for module in (rowlock, events, testing):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            if name.startswith("_"):
                continue
            if inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value
            elif isinstance(value, type) and not issubclass(value, Exception):
                yield from public_methods(f"{module.__name__}.{name}", value)


def public_methods(prefix: str, kind: type) -> Iterator[tuple[str, object]]:
    # Of a small class one example shows them all.
    if kind not in (rowlock.App, rowlock.Attempt, rowlock.Task) and ">>> " in (
        kind.__doc__ or ""
    ):
        return
    for name, value in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and value.__module__.startswith("rowlock."):
            yield f"{prefix}.{name}", value


@pytest.mark.parametrize(
    "function", [pytest.param(value, id=name) for name, value in public_functions()]
)
def test_every_public_function_has_an_example(function: object) -> None:
    """It is run, as pytest runs the examples of every docstring."""
    assert ">>> " in (inspect.getdoc(function) or "")


def test_a_decorated_task_keeps_its_name_docstring_and_signature() -> None:
    app = rowlock.App("sqlite://")

    def greet(name: str, times: int = 1) -> str:
        """Greet somebody."""
        return name * times

    for task in (app.task(greet), app.task(name="other")(greet)):
        assert task.__name__ == "greet"
        assert task.__doc__ == "Greet somebody."
        assert task.__module__ == __name__
        assert inspect.signature(task) == inspect.signature(greet)
        assert task("Ada", times=2) == "AdaAda"


@pytest.mark.parametrize(
    ("program", "goes_without"),
    [
        ("import rowlock", LOADED_BY_WHO_NEEDS_IT | LOADED_BY_CALLS),
        (IMPORTS, LOADED_BY_WHO_NEEDS_IT | LOADED_BY_CALLS),
        (ENQUEUES, LOADED_BY_WHO_NEEDS_IT),
    ],
    ids=["import", "names", "enqueue"],
)
def test_what_isnt_needed_isnt_loaded(program: str, goes_without: set[str]) -> None:
    shown = f"{program}\nimport sys; print(*sys.modules)"
    ran = [sys.executable, "-c", shown]
    done = subprocess.run(ran, check=True, capture_output=True, text=True)

    assert all(find_spec(name) for name in goes_without)
    assert not goes_without & set(done.stdout.split())


def test_a_name_that_is_not_there_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Wroker'"):
        rowlock.Wroker  # type: ignore[attr-defined]  # noqa: B018 - it is refused


def test_the_version_is_said_once() -> None:
    assert rowlock.__version__ == version("rowlock")
