"""
Finding the app: `module:attribute`, as uvicorn's users write it.

What was named and can't be had is one error that says what was tried and what is near.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from rowlock._app import App
from rowlock._errors import ConfigError, RowlockError
from rowlock._task import KeyedTask
from rowlock._words import did_you_mean

VARIABLE = "ROWLOCK_APP"
PROJECT = "pyproject.toml"


def find_app(named: str | None) -> App:
    """
    Find the app that is named here, in ROWLOCK_APP or in pyproject.toml.

    Raises:
        ConfigError: none is named, or the one named can't be had; it says why.
    """
    name = app_name(named)
    if name is None:
        msg = (
            "No app is named: say which, as in `shop:app` for the app in shop.py, or"
            f' set {VARIABLE}, or write app = "shop:app" under [tool.rowlock] in'
            f" {PROJECT}."
        )
        raise ConfigError(msg)
    return load(name)


def app_name(named: str | None) -> str | None:
    """Tell how the app is named: here, in ROWLOCK_APP, or in pyproject.toml."""
    return named or os.environ.get(VARIABLE) or _named_in_project()


def load(name: str) -> App:
    """
    Import an app by name: `module:attribute`, or `module` where it holds one app.

    The working folder is on the path. A callable is called for the app.
    """
    module_name, _, attribute = name.partition(":")
    _refuse_files(name, module_name, attribute)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(module_name)
    _refuse_twins(module, attribute)
    if not attribute:
        return _only_app(module)
    return _made(_attribute(module, attribute), f"{module_name}:{attribute}", module)


def _named_in_project() -> str | None:
    import tomllib

    try:
        with Path(PROJECT).open("rb") as file:
            settings = tomllib.load(file).get("tool", {}).get("rowlock", {})
    except FileNotFoundError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        msg = f"{Path(PROJECT).absolute()} can't be read for the app's name: {error}."
        raise ConfigError(msg) from error
    name = settings.get("app") if isinstance(settings, dict) else None
    if name is not None and not isinstance(name, str):
        msg = (
            f"app under [tool.rowlock] in {Path(PROJECT).absolute()} must be a text,"
            f' such as "shop:app"; it is {name!r}.'
        )
        raise ConfigError(msg)
    return name or None


def _refuse_files(name: str, module_name: str, attribute: str) -> None:
    """Refuse a file or a nonsense where a module is named, with the module's name."""
    path = module_name.replace("\\", "/")
    if path.endswith(".py") or "/" in path:
        parts = [p for p in path.removesuffix(".py").split("/") if p not in ("", ".")]
        module = ".".join(parts)
        hint = f"{module}:{attribute or 'app'}"
        msg = f"{name} is a file, and an app is named by its module: write {hint}."
        raise ConfigError(msg)
    names = [*module_name.split("."), *(attribute.split(".") if attribute else ())]
    if not all(part.isidentifier() for part in names):
        msg = f"{name!r} doesn't name an app: write module:attribute, as in shop:app."
        raise ConfigError(msg)


def _import(module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A parent of the module may be what is missing; anything else is missed by
        # the module's own code, which is another story.
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise _no_module(module_name, error.name) from error
        raise _broken(module_name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(module_name, error) from error


def _no_module(module_name: str, missing: str) -> ConfigError:
    here = Path.cwd()
    known = {
        path.stem
        for path in here.iterdir()
        if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
    }
    parent, _, last = missing.rpartition(".")
    hint = (
        f"; did you mean {parent}:{last}?"
        if hasattr(sys.modules.get(parent), last)
        else did_you_mean(missing, known)
    )
    of = "" if missing == module_name else f" for {module_name!r}"
    return ConfigError(
        f"There is no module {missing!r}{of} in {here} or on Python's path{hint}"
    )


def _broken(module_name: str, error: BaseException) -> ConfigError:
    said = str(error.msg if isinstance(error, SyntaxError) else error).rstrip(".")
    if not isinstance(error, RowlockError):
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return ConfigError(f"Importing {module_name!r} failed{_place(error)}: {said}.")


def _place(error: BaseException) -> str:
    """Say where in somebody's code an error arose."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {error.filename}:{error.lineno}"
    ours, here = str(Path(__file__).parent.parent), str(Path.cwd())
    frames = [
        frame
        for frame in reversed(traceback.extract_tb(error.__traceback__))
        if not frame.filename.startswith(("<frozen", ours, str(importlib.__file__)))
    ]
    # Where a library raised, the line of the user's that led there says more.
    own = [frame for frame in frames if frame.filename.startswith(here)]
    for frame in own or frames:
        return f" at {frame.filename}:{frame.lineno}"
    return ""


def _refuse_twins(module: ModuleType, attribute: str) -> None:
    """Refuse a file that was imported under two names: each has tasks of its own."""
    file = getattr(module, "__file__", None)
    for name, other in tuple(sys.modules.items()):
        if file and other is not module and getattr(other, "__file__", None) == file:
            msg = (
                f"{file} was imported twice, as {module.__name__!r} and as {name!r}, so"
                f" its tasks exist twice: name the app {name}:{attribute or 'app'}."
            )
            raise ConfigError(msg)


def _attribute(module: ModuleType, attribute: str) -> object:
    value: object = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            near = _near(module, attribute)
            msg = f"{_where(module)} has no {attribute!r}{near}"
            raise ConfigError(msg) from None
    return value


def _near(module: ModuleType, attribute: str) -> str:
    """Name the attribute that was probably meant: one like it, else its apps."""
    apps = _apps(module)
    public = [name for name in vars(module) if not name.startswith("__")]
    near = get_close_matches(attribute, apps, n=1) or get_close_matches(
        attribute, public, n=1
    )
    if near:
        return f"; did you mean {module.__name__}:{near[0]}?"
    if apps:
        return f"; its app is {module.__name__}:{next(iter(apps))}."
    return ", and no App at all."


def _made(value: object, name: str, module: ModuleType) -> App:
    """Take an app as it is, or call what makes one."""
    if isinstance(value, App):
        return value
    # Calling a task would run its handler; calling the class App makes an empty one.
    if not callable(value) or isinstance(value, KeyedTask | type):
        kind = "a class" if isinstance(value, type) else f"of {type(value)}"
        msg = f"{name} is {kind}, not an App{_instead(module)}"
        raise ConfigError(msg)
    try:
        made = value()
    except Exception as error:
        said = str(error) if isinstance(error, RowlockError) else repr(error)
        msg = f"Calling {name}() for the app failed{_place(error)}: {said}"
        raise ConfigError(msg) from error
    if not isinstance(made, App):
        if hasattr(made, "close"):
            made.close()  # a coroutine that nobody awaits would complain about it
        msg = f"{name}() returned {made!r}, not an App{_instead(module)}"
        raise ConfigError(msg)
    return made


def _instead(module: ModuleType) -> str:
    apps = _apps(module)
    return f"; {module.__name__}:{next(iter(apps))} is one." if apps else "."


def _only_app(module: ModuleType) -> App:
    apps = _apps(module)
    if len(apps) == 1:
        return next(iter(apps.values()))
    choice = " or ".join(f"{module.__name__}:{name}" for name in apps)
    msg = (
        f"{_where(module)} holds several apps: say which, {choice}."
        if apps
        else f"{_where(module)} holds no App: write app = App() in it, or name what"
        f" makes one, as in {module.__name__}:create_app."
    )
    raise ConfigError(msg)


def _apps(module: ModuleType) -> dict[str, App]:
    """Find the apps of a module, each under its first name."""
    apps: dict[str, App] = {}
    for name, value in vars(module).items():
        if isinstance(value, App) and value not in apps.values():
            apps[name] = value
    return apps


def _where(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return f"Module {module.__name__!r} ({file or 'a folder without __init__.py'})"
