"""Where an app finds its database, and what it says of one that it can't use."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowlock import App, ConfigError, InvalidTask, KeyedTask, Task, UsageError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment that names no database."""
    for variable in ("ROWLOCK_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_app_without_a_url_has_a_file_in_the_working_folder(folder: Path) -> None:
    assert App().url == f"sqlite:///{folder}/rowlock.db"


def test_the_environment_comes_before_the_default_and_rowlocks_own_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "sqlite:///of-all.db")
    assert App().url == f"sqlite:///{folder}/of-all.db"
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", "sqlite:///of-rowlock.db")
    assert App().url == f"sqlite:///{folder}/of-rowlock.db"


def test_what_the_program_says_comes_before_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", "sqlite:///of-rowlock.db")
    assert App("sqlite:///said.db").url == f"sqlite:///{folder}/said.db"


def test_an_empty_variable_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", "")
    monkeypatch.setenv("DATABASE_URL", "sqlite:///of-all.db")
    assert App().url == f"sqlite:///{folder}/of-all.db"


def test_a_scheme_without_a_store_is_refused_when_the_app_is_built() -> None:
    with pytest.raises(ConfigError) as refused:
        App("mongodb://user:secret@host/jobs")

    assert "There is no store for mongodb://" in str(refused.value)
    assert "sqlite://" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["", "jobs.db", Path("jobs.db")])
def test_what_is_no_url_is_refused_with_what_one_is(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sqlite:///jobs\.db") as refused:
        App(url)

    assert repr(url) in str(refused.value)


def test_an_app_shows_where_its_jobs_are(folder: Path) -> None:
    assert repr(App("sqlite:///jobs.db")) == f"<App sqlite:///{folder}/jobs.db>"


def test_a_value_in_the_place_of_the_function_is_refused() -> None:
    with pytest.raises(InvalidTask, match=r"'mail' is no function: .*queue='mail'"):
        App("sqlite://").task("mail")  # type: ignore[call-overload]  # what is refused


async def test_enqueue_many_says_which_of_its_jobs_is_none() -> None:
    app = App("sqlite://")

    @app.task
    async def step() -> None: ...

    with pytest.raises(UsageError, match=r"at place 1 is a Task\."):
        await app.enqueue_many([step.job(), step])  # type: ignore[list-item]  # what is refused
    with pytest.raises(UsageError, match=r"several jobs, .*not one NewJob\."):
        await app.enqueue_many(step.job())  # type: ignore[arg-type]  # what is refused
    assert (await app.stats()).queues == ()


def test_enqueue_many_sync_says_so_too() -> None:
    with pytest.raises(UsageError, match=r"task\.job"):
        App("sqlite://").enqueue_many_sync(["step"])  # type: ignore[list-item]  # what is refused


def test_an_app_that_is_only_built_makes_no_file(folder: Path) -> None:
    App()

    assert list(folder.iterdir()) == []


async def test_an_app_connects_at_its_first_call_and_again_after_a_close(
    folder: Path,
) -> None:
    app = App("sqlite:///jobs.db")

    @app.task
    async def step() -> None: ...

    assert await step.enqueue() == 1
    assert (folder / "jobs.db").exists()
    await app.close()
    await app.close()
    assert await step.enqueue() == 2
    assert (await app.get(1)).task == "step"
    await app.close()


def test_only_a_key_makes_a_task_whose_jobs_may_be_duplicates() -> None:
    @App("sqlite://").task
    def step() -> None: ...

    keyed = step.options(idempotency_key="K")
    assert type(step.options(delay=0, idempotency_key=None)) is Task
    assert type(keyed.options(priority=1)) is KeyedTask
    assert type(step) is Task
    assert isinstance(step, KeyedTask)
    with pytest.raises(UsageError, match="takes a text that isn't empty"):
        step.options(idempotency_key="")


@pytest.mark.parametrize("value", [KeyError, "KeyError", [KeyError("x")], [SystemExit]])
def test_dead_on_takes_exception_classes_only(value: object) -> None:
    with pytest.raises(UsageError, match="dead_on= takes classes"):
        App("sqlite://").task(dead_on=value)  # type: ignore[call-overload]  # refused


def test_an_empty_name_is_refused_and_not_taken_for_none() -> None:
    def step() -> None: ...

    with pytest.raises(UsageError, match="name= takes a text that isn't empty"):
        App("sqlite://").task(name="")(step)
