"""SQLite URLs: relative `sqlite:///a.db`, absolute `sqlite:////a.db`, in memory `sqlite://`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

from rowlock._errors import ConfigError
from rowlock.stores.sqlite.connection import MEMORY, is_synchronous

_SCHEME = "sqlite://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What a URL says: where the database is, and how commits reach the disk."""

    path: str
    synchronous: str = "full"


def read_url(url: str) -> Address:
    """Read a URL; a relative path counts from the folder the process is in now."""
    rest, has_options, query = url.removeprefix(_SCHEME).partition("?")
    if rest and not rest.startswith("/"):
        msg = (
            f"{url!r} has a host, and SQLite has none: write {_SCHEME}/{rest} (three"
            " slashes) for a path that counts from the current folder."
        )
        raise ConfigError(msg)
    path = unquote(rest.removeprefix("/"))
    if "\0" in path:
        msg = f"{url!r} can't be a path: it has a NUL character."
        raise ConfigError(msg)
    options = _options(url, query) if has_options else {}
    return Address(
        path=MEMORY if path in ("", MEMORY) else str(Path(path).resolve()),
        synchronous=options.get("synchronous", "full"),
    )


def show_url(path: str) -> str:
    """Write the URL of a path, absolute."""
    if path == MEMORY:
        return f"{_SCHEME}/{MEMORY}"
    # Windows' drives have no slash before them, and colons are no harm in a path.
    return f"{_SCHEME}/{quote(path.replace(os.sep, '/'), safe='/:')}"


def _options(url: str, query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name != "synchronous":
            msg = f"{url!r} has an unknown option {name!r}: there is only synchronous."
            raise ConfigError(msg)
        if not is_synchronous(value):
            msg = (
                f"{url!r} has synchronous={value!r}: it is full (each answer is on"
                " disk) or normal (a power failure may take the last ones back)."
            )
            raise ConfigError(msg)
    return options
