"""Finding the app: what works, and what each way of naming it wrongly is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from .command_line import SHOP, fails, run

TRY = ("enqueue", "nothing", "-A")  # finds the app, then fails to find the task


@pytest.mark.parametrize("name", ["shop", "shop:app", "shop:make", "shop:box.app"])
def test_an_app_is_found_by_module_attribute_factory_or_path(
    shop: Path, name: str
) -> None:
    more = "\ndef make(): return app\nclass box: pass\nbox.app = app\n"
    (shop / "shop.py").write_text(SHOP + more)

    assert "no task 'nothing'" in fails(3, *TRY, name)


def test_an_app_in_a_package_is_found(folder: Path) -> None:
    (folder / "depot").mkdir()
    (folder / "depot" / "jobs.py").write_text(SHOP)

    assert "no task 'nothing'" in fails(3, *TRY, "depot.jobs:app")


@pytest.mark.usefixtures("shop")
def test_the_variable_names_the_app() -> None:
    said = fails(3, "enqueue", "nothing", env={"ROWLOCK_APP": "shop:app"})

    assert "no task 'nothing'" in said


def test_the_project_file_names_the_app(shop: Path) -> None:
    (shop / "pyproject.toml").write_text('[tool.rowlock]\napp = "shop:app"\n')

    assert "no task 'nothing'" in fails(3, "enqueue", "nothing")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.rowlock\n", "can't be read for the app's name"),
        ("[tool.rowlock]\napp = 3\n", "must be a text"),
    ],
)
def test_a_project_file_that_is_wrong_is_named(
    folder: Path, text: str, said: str
) -> None:
    (folder / "pyproject.toml").write_text(text)

    message = fails(2, "enqueue", "nothing")

    assert said in message
    assert str(folder / "pyproject.toml") in message


@pytest.mark.usefixtures("folder")
def test_no_name_at_all_says_the_three_ways_to_name_one() -> None:
    message = fails(2, "enqueue", "nothing")

    assert "shop:app" in message
    assert "ROWLOCK_APP" in message
    assert "[tool.rowlock]" in message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shop.py", "write shop:app."),
        ("./shop.py", "write shop:app."),
        (".\\shop.py", "write shop:app."),
        ("./shop.py:jobs", "write shop:jobs."),
        ("depot/jobs.py", "write depot.jobs:app."),
        ("shop.app", "did you mean shop:app?"),
        ("shpo:app", "did you mean 'shop'?"),
        ("shop:ap", "did you mean shop:app?"),
        ("shop:missing", "its app is shop:app."),
        ("shop:SIZE", "not an App; shop:app is one."),
        ("shop:greet", "not an App; shop:app is one."),
        ("shop:App", "not an App; shop:app is one."),
        ("a b", "as in shop:app."),
        ("shop:app:more", "as in shop:app."),
    ],
)
def test_b135_a_name_slightly_wrong_is_told_the_right_one(
    shop: Path, name: str, hint: str
) -> None:
    (shop / "shop.py").write_text(f"{SHOP}\nSIZE = 3\n")

    assert fails(2, *TRY, name).endswith(hint)


def test_b135_a_file_imported_under_two_names_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "depot").mkdir()
    (folder / "depot" / "app.py").write_text(f"{SHOP}\nimport depot.tasks\n")
    (folder / "depot" / "tasks.py").write_text("from depot.app import app\n")
    monkeypatch.chdir(folder / "depot")
    monkeypatch.syspath_prepend(folder)

    message = fails(2, *TRY, "app:app")

    assert message.endswith("its tasks exist twice: name the app depot.app:app.")


def test_b134_an_import_that_fails_inside_is_shown_with_its_file(
    folder: Path,
) -> None:
    (folder / "shop.py").write_text("import json\nimport requestz\n")

    message = fails(2, *TRY, "shop:app")

    assert message == (
        f"Importing 'shop' failed at {folder / 'shop.py'}:2:"
        " ModuleNotFoundError: No module named 'requestz'."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def x(:\n", "SyntaxError: invalid syntax."),
        ("1 / 0\n", "ZeroDivisionError: division by zero."),
        ("import sys; sys.exit('no settings')\n", "SystemExit: no settings."),
        ("from rowlock import App; App('mongodb://x')\n", "no store for mongodb://"),
    ],
)
def test_b134_a_module_that_fails_is_named_with_file_and_line(
    folder: Path, text: str, said: str
) -> None:
    (folder / "shop.py").write_text(text)

    message = fails(2, *TRY, "shop:app")

    assert f"{folder / 'shop.py'}:1" in message
    assert said in message


def test_a_task_registered_twice_is_refused_with_both_places(shop: Path) -> None:
    (shop / "shop.py").write_text(
        f"{SHOP}\n@app.task(name='greet')\ndef other(): ...\n"
    )

    message = fails(2, *TRY, "shop:app")

    assert "shop.greet:" in message
    assert "shop.other:" in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no App"),
        (
            "from rowlock import App\na = App('sqlite://')\nb = App('sqlite://')\n",
            "several",
        ),
    ],
)
def test_a_module_alone_must_hold_one_app(folder: Path, text: str, said: str) -> None:
    (folder / "shop.py").write_text(text)

    assert said in fails(2, *TRY, "shop")


def test_a_module_alone_may_hold_its_app_twice(shop: Path) -> None:
    (shop / "shop.py").write_text(f"{SHOP}\napplication = app\n")

    assert "no task 'nothing'" in fails(3, *TRY, "shop")


def test_a_factory_that_fails_is_named(shop: Path) -> None:
    (shop / "shop.py").write_text("def make(): raise ValueError('no settings')\n")

    message = fails(2, *TRY, "shop:make")

    assert f"{shop / 'shop.py'}:1" in message
    assert "no settings" in message


def test_an_async_factory_is_refused_without_a_warning(shop: Path) -> None:
    (shop / "shop.py").write_text("async def make(): ...\n")

    assert "not an App" in fails(2, *TRY, "shop:make")


def test_debug_shows_where_an_error_came_from(folder: Path) -> None:
    (folder / "shop.py").write_text("1 / 0\n")

    result = run("--debug", *TRY, "shop:app")

    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "ZeroDivisionError" in result.stderr
