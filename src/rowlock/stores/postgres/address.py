"""
Postgres URLs: what psycopg reads, under every name that others have for it.

`?schema=` names the schema that the tables are in; it is ours, all else is libpq's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from rowlock._errors import ConfigError

SCHEMES = ("postgres", "postgresql", "postgresql+psycopg", "postgresql+asyncpg")
DEFAULT_SCHEMA = "rowlock"
LONGEST_NAME = 63  # bytes; the server cuts what is longer

Parameters = Mapping[str, str]

# Without them a connection to a host that doesn't answer waits for ever or a quarter of
# an hour, and the name under which an operator sees us would be that of the program.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "fallback_application_name": "rowlock",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """
    What a URL says: how to connect, and to which schema.

    `direct` leads to the server itself, for LISTEN, where `parameters` may lead to a
    pooler; `variable` is where it was said, None where it wasn't. What is shown has no
    password.
    """

    shown: str
    schema: str
    parameters: Parameters = field(repr=False)
    direct: Parameters = field(repr=False)
    variable: str | None = None

    @property
    def direct_shown(self) -> str:
        """Where `direct` leads, to show."""
        if self.variable is None:
            return self.shown
        return f"{_show(self.direct, self.schema)} ({self.variable})"


def read_url(url: str) -> Address:
    """
    Read a URL, and the environment for a direct one.

    Raises:
        ConfigError: libpq can't read it; the message names no password.
    """
    schema, parameters = _read(url)
    direct, variable = parameters, None
    for name in ("ROWLOCK_DIRECT_URL", "DATABASE_DIRECT_URL"):
        if found := os.environ.get(name):
            (_, direct), variable = _read(found, of=name), name
            break
    return Address(
        shown=_show(parameters, schema),
        schema=schema,
        parameters=_DEFAULTS | parameters,
        direct=_DEFAULTS | direct,
        variable=variable,
    )


def _read(url: str, *, of: str = "the database URL") -> tuple[str, dict[str, str]]:
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        msg = f"The scheme of {of} is {scheme}://, and this store is postgresql://."
        raise ConfigError(msg)
    rest, _, query = rest.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    schema = DEFAULT_SCHEMA
    kept = []
    for name, value in options:
        if name == "schema":
            schema = _check_schema(value)
        elif name == "ssl" and value != "true":
            kept.append(("sslmode", value))  # as asyncpg's URLs say it
        else:
            kept.append((name, value))
    text = f"postgresql://{rest}"
    if kept:
        text = f"{text}?{urlencode(kept, quote_via=quote)}"
    try:
        parameters = conninfo_to_dict(text)
    except psycopg.Error as error:
        # What libpq complains of may be a part of the password.
        msg = (
            f"{of[0].upper()}{of[1:]} can't be read: write it as"
            " postgresql://user:password@host:5432/database, with % escapes for what"
            " isn't a letter or a digit."
        )
        raise ConfigError(msg) from (None if "@" in rest else error)
    return schema, {name: str(value) for name, value in parameters.items()}


def _check_schema(name: str) -> str:
    if not name or "\0" in name or len(name.encode()) > LONGEST_NAME:
        msg = (
            f"?schema={name!r} can't name a schema: it takes 1 to {LONGEST_NAME} bytes."
        )
        raise ConfigError(msg)
    if name.startswith("pg_"):
        msg = f"?schema={name} can't name a schema: pg_ is for Postgres' own."
        raise ConfigError(msg)
    return name


def _show(parameters: Parameters, schema: str) -> str:
    user = quote(parameters.get("user", ""), safe="")
    hosts = parameters.get("host", parameters.get("hostaddr", "")).split(",")
    ports = parameters.get("port", "").split(",")
    if len(ports) < len(hosts):
        ports = ports * len(hosts)
    servers = ",".join(map(_show_server, hosts, ports))
    shown = (
        f"postgresql://{f'{user}@' if user else ''}{servers}"
        f"/{quote(parameters.get('dbname', ''), safe='')}"
    )
    return shown if schema == DEFAULT_SCHEMA else f"{shown}?schema={quote(schema)}"


def _show_server(host: str, port: str) -> str:
    # A folder of a Unix socket is written with its slashes escaped.
    if host.startswith("/"):
        host = quote(host, safe="")
    elif ":" in host:
        host = f"[{host}]"
    return f"{host}:{port}" if port else host
