"""Which URLs lead to the SQLite store, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowlock._errors import ConfigError
from rowlock.stores import connect
from rowlock.stores.sqlite.url import Address, read_url, show_url


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_nothing_or_memory_is_in_memory(url: str) -> None:
    assert read_url(url) == Address(path=":memory:")
    assert connect(url).url == "sqlite:///:memory:"


def test_three_slashes_are_relative_and_shown_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    store = connect("sqlite:///data/jobs.db")

    assert store.url == f"sqlite:///{tmp_path}/data/jobs.db"
    assert store.url.startswith("sqlite:////")


def test_a_relative_path_counts_from_where_the_url_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = connect("sqlite:///jobs.db")
    monkeypatch.chdir("/")

    assert store.url == f"sqlite:///{tmp_path}/jobs.db"


def test_a_link_leads_to_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")

    # SQLite puts its log beside the file, so what we put beside it goes there too.
    assert read_url(f"sqlite:///{tmp_path}/link.db").path == f"{tmp_path}/jobs.db"


@pytest.mark.parametrize("name", ["a b.db", "50%.db", "why?.db", "ż#ółw.db", "a:b.db"])
def test_any_file_name_can_be_written(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)

    assert read_url(show_url(path)).path == path


@pytest.mark.parametrize("value", ["full", "normal"])
def test_synchronous_is_an_option(value: str) -> None:
    address = read_url(f"sqlite:////tmp/jobs.db?synchronous={value}")

    assert address == Address(path="/tmp/jobs.db", synchronous=value)  # noqa: S108 - not made


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("jobs.db", "sqlite:///jobs.db"),
        ("", "sqlite:///jobs.db"),
        ("mongodb://localhost/jobs", "sqlite://"),
        ("sqlite3:///jobs.db", "sqlite://"),
        ("sqlite://jobs.db", "sqlite:///jobs.db"),
        ("sqlite:///jobs.db?synchronous=off", "full"),
        ("sqlite:///jobs.db?timeout=5", "timeout"),
        ("sqlite:///jobs%00.db", "NUL"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_with_what_to_do(
    url: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        connect(url)

    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["postgres//ada:secret@host/shop", "mysql://ada:secret@host/shop"]
)
def test_a_refusal_shows_no_password(url: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        connect(url)

    assert "secret" not in str(refusal.value)
