"""Postgres URLs: every name that others have for them, and what each refusal says."""

from __future__ import annotations

import sys

import pytest

from rowlock import App, ConfigError
from rowlock.stores import connect
from rowlock.stores.postgres.address import read_url


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROWLOCK_DIRECT_URL", "DATABASE_DIRECT_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada@host:5433/shop", "postgresql://ada@host:5433/shop"),
        ("postgres://ada:secret@host/shop", "postgresql://ada@host/shop"),
        ("postgresql+psycopg://host/shop", "postgresql://host/shop"),
        ("postgresql+asyncpg://host/shop?ssl=require", "postgresql://host/shop"),
        ("postgresql:///shop", "postgresql:///shop"),
        ("postgresql://", "postgresql:///"),
        ("postgresql:///shop?host=/run/pg&port=6", "postgresql://%2Frun%2Fpg:6/shop"),
        ("postgresql://[::1]:5432/shop", "postgresql://[::1]:5432/shop"),
        (
            "postgresql://a%40b:s%3As@host/my%20shop",
            "postgresql://a%40b@host/my%20shop",
        ),
        ("postgresql://a:1,b:2/shop", "postgresql://a:1,b:2/shop"),
        ("postgresql://a,b/shop", "postgresql://a,b/shop"),
        ("postgresql:///shop?schema=jobs", "postgresql:///shop?schema=jobs"),
        ("postgresql:///shop?schema=rowlock", "postgresql:///shop"),
        ("postgresql:///shop?schema=My%20Jobs", "postgresql:///shop?schema=My%20Jobs"),
        ("postgresql:///shop?password=secret", "postgresql:///shop"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert connect(url).url == shown
    assert App(url).url == shown


def test_what_else_is_in_a_url_is_libpqs() -> None:
    address = read_url(
        "postgresql://ada:secret@host/shop?sslmode=verify-full&schema=jobs"
        "&connect_timeout=3&application_name=my%20app&options=-c%20geqo%3Doff"
    )

    assert address.schema == "jobs"
    assert address.parameters["sslmode"] == "verify-full"
    assert address.parameters["connect_timeout"] == "3"
    assert address.parameters["application_name"] == "my app"
    assert address.parameters["options"] == "-c geqo=off"
    assert address.parameters["password"] == "secret"  # noqa: S105 - the test's
    assert "secret" not in repr(address)


def test_asyncpgs_word_for_tls_is_understood() -> None:
    address = read_url("postgresql+asyncpg://host/shop?ssl=verify-ca")

    assert address.parameters["sslmode"] == "verify-ca"


@pytest.mark.parametrize("variable", ["ROWLOCK_DIRECT_URL", "DATABASE_DIRECT_URL"])
def test_a_direct_url_leads_past_a_pooler(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "postgres://ada:secret@server:5432/shop")

    address = read_url("postgresql://ada:secret@pooler:6432/shop")

    assert address.parameters["host"] == "pooler"
    assert address.direct["host"] == "server"
    assert address.shown == "postgresql://ada@pooler:6432/shop"


def test_our_own_variable_goes_before_the_common_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROWLOCK_DIRECT_URL", "postgresql://ours/shop")
    monkeypatch.setenv("DATABASE_DIRECT_URL", "postgresql://common/shop")

    assert read_url("postgresql://pooler/shop").direct["host"] == "ours"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://ada:se%cret@host/shop", "can't be read"),
        ("postgresql://host/shop?colour=red", "can't be read"),
        ("postgresql:///shop?schema=", "can't name a schema"),
        ("postgresql:///shop?schema=pg_jobs", "pg_ is for Postgres"),
        (f"postgresql:///shop?schema={'x' * 64}", "63 bytes"),
    ],
)
def test_a_url_that_cant_be_read_is_refused_without_its_password(
    url: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as refusal:
        App(url)

    chain = [refusal.value, refusal.value.__cause__]
    assert not [each for each in chain if "cret" in str(each)]
    assert "\n" not in str(refusal.value)


def test_a_direct_url_that_cant_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_DIRECT_URL", "sqlite:///jobs.db")

    with pytest.raises(ConfigError, match="DATABASE_DIRECT_URL"):
        App("postgresql:///shop")


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("rowlock.stores.postgres", "psycopg")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("rowlock.stores.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(ConfigError, match=r"pip install 'rowlock\[postgres\]'"):
        App("postgresql:///shop")


def test_an_unknown_scheme_is_refused_with_those_that_work() -> None:
    with pytest.raises(ConfigError, match=r"sqlite://.*postgresql://"):
        App("mongodb://localhost/jobs")
