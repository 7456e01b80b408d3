"""A server of our own: made, started, stopped, paused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from tests.cluster import keeper
from tests.cluster.binaries import Binaries, copy_wheel, traversable

SETTINGS = {
    "cluster_name": "rowlock",
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
}
# What was committed survives a killed server, as `synchronous_commit` stays on; only
# a crash of the machine loses it.
WITHOUT_FSYNC = {"fsync": "off", "full_page_writes": "off"}

SIGNALS = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
LOG_SHOWN = 4000
PORTS_TRIED = 3


class ClusterFailed(Exception):
    """The server did not start or stop. The message ends with the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A server of our own, in a directory of its own."""

    directory: Path
    programs: Path
    version: str
    port: int
    password: str = field(repr=False)
    settings: Mapping[str, str]

    @classmethod
    def make(
        cls,
        directory: Path,
        binaries: Binaries,
        *,
        fsync: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> Cluster:
        """Set a server up in the directory, and start it."""
        if os.getuid() == 0 and not traversable(binaries.folder):
            binaries = copy_wheel(binaries, directory / "programs")
        password = secrets.token_urlsafe(12)
        _initialise(directory, binaries, password)
        chosen = SETTINGS | ({} if fsync else WITHOUT_FSYNC) | dict(settings or {})
        if binaries.has_library("pg_stat_statements"):
            chosen.setdefault("shared_preload_libraries", "pg_stat_statements")
        for tries_left in reversed(range(PORTS_TRIED)):
            cluster = cls(
                directory=directory,
                programs=binaries.folder,
                version=binaries.version,
                port=_free_port(),
                password=password,
                settings=chosen,
            )
            try:
                cluster.start()
                break
            except ClusterFailed as error:
                # Somebody took the port between our look and the server's.
                if not tries_left or "Address already in use" not in str(error):
                    raise
        cluster._save()
        return cluster

    @classmethod
    def load(cls, directory: Path) -> Cluster:
        """Read what `make` noted there, in this process or another."""
        noted = json.loads((directory / "cluster.json").read_text())
        noted |= {name: Path(noted[name]) for name in ("directory", "programs")}
        return cls(**noted)

    def _save(self) -> None:
        path = self.directory / "cluster.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self), default=str))

    @property
    def url(self) -> str:
        """By TCP and a password, as users connect; its database is the server's own."""
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    @property
    def socket_url(self) -> str:
        """By the Unix socket, which needs no password and is faster."""
        host = quote(str(self.directory / "socket"), safe="")
        return f"postgresql://postgres@{host}:{self.port}/postgres"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def start(self) -> None:
        """Start it, on the port it has had; come back when it answers."""
        command = [str(self.programs / "postgres"), "-D", str(self.directory / "data")]
        own = {
            "port": str(self.port),
            "unix_socket_directories": str(self.directory / "socket"),
            "unix_socket_permissions": "0700",
        }
        for name, value in {**self.settings, **own}.items():
            command += ["-c", f"{name}={value}"]
        kept = [sys.executable, "-I", "-S", keeper.__file__, str(self.directory)]
        with self.log.open("ab") as log:
            started = subprocess.run(
                kept + command,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
            )
        if started.returncode:
            self._fail("did not start")

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop it; `immediate` is a crash. Come back when it is gone."""
        if found := keeper.postmaster(self.directory):
            keeper.send(found[0], SIGNALS[mode])
            until = time.monotonic() + keeper.PATIENCE
            while keeper.postmaster(self.directory):
                if time.monotonic() > until:
                    self._fail(f"did not stop ({mode})")
                time.sleep(keeper.LOOK)

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        self.stop(mode)
        self.start()

    def pause(self) -> None:
        """Let it hang: it takes connections and bytes, and answers nothing."""
        if found := keeper.postmaster(self.directory):
            keeper.send_tree(found[0], signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on where it was paused."""
        if found := keeper.postmaster(self.directory):
            keeper.send_tree(found[0], signal.SIGCONT)

    def _fail(self, what: str) -> None:
        end = self.log.read_text(errors="replace")[-LOG_SHOWN:]
        message = f"Postgres {self.version} {what}. The end of its log:\n{end}"
        raise ClusterFailed(message)


def _initialise(directory: Path, binaries: Binaries, password: str) -> None:
    for name in ("data", "socket"):
        (directory / name).mkdir(mode=0o700)
        if os.getuid() == 0:
            os.chown(directory / name, keeper.NOBODY, keeper.NOBODY)
    # Whoever may speak to the superuser runs programs as the server's user, so the
    # port has a password; the socket lies in a directory closed to others.
    secret = directory / "socket" / "password"
    secret.touch(mode=0o600)
    secret.write_text(_verifier(password))
    if os.getuid() == 0:
        os.chown(secret, keeper.NOBODY, keeper.NOBODY)
    command = [
        binaries.folder / "initdb",
        *("--pgdata", directory / "data"),
        *("--username", "postgres"),
        *("--auth-local", "trust", "--auth-host", "scram-sha-256"),
        *("--pwfile", secret),
        *("--encoding", "UTF8"),
        # The one that has letters of all languages and is there everywhere; macOS
        # has no such.
        *("--locale", "C.UTF-8" if sys.platform == "linux" else "C"),
        *("--no-sync", "--no-instructions"),
    ]
    done = subprocess.run(
        command,
        cwd=directory,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
        text=True,
        **keeper.unprivileged(),
    )
    secret.unlink()
    if done.returncode:
        message = f"initdb of Postgres {binaries.version} failed:\n{done.stdout}"
        raise ClusterFailed(message)


def _verifier(password: str) -> str:
    """
    Derive what the server keeps of a password (SCRAM-SHA-256), in one round.

    The usual 4096 are for passwords that can be guessed, and would make each
    connection of each test take 9 ms instead of 3.
    """
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    client = hmac.digest(salted, b"Client Key", "sha256")
    stored = hashlib.sha256(client).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_, stored_, server_ = (
        base64.b64encode(part).decode() for part in (salt, stored, server)
    )
    return f"SCRAM-SHA-256$1:{salt_}${stored_}:{server_}"


def _environment() -> dict[str, str]:
    # A developer's PGDATA or PGOPTIONS is meant for another server.
    return {
        name: value for name, value in os.environ.items() if not name.startswith("PG")
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
