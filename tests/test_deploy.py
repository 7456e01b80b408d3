"""What `deploy/` holds is taken by who reads it, and gives a worker time to stop."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import pytest
import yaml

from rowlock.cli.signals import FLUSH_S, OVERRUN_S
from rowlock.cli.worker import worker as command

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "deploy.md"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KUBERNETES = ("1.30", "1.34")

# A worker ends so much later than its --shutdown-timeout at the very most: the design's
# bound for a store that is gone.
LATEST_S = 5


def read(path: Path) -> Any:  # noqa: ANN401 - YAML has no narrower type
    return yaml.safe_load(path.read_text())


def shutdown_timeout(text: str) -> int:
    """Find how long a worker that is started by these words may take to stop."""
    found = re.search(r'--shutdown-timeout[=", ]+(\d+)', text)
    assert found, text
    return int(found[1])


def test_a_worker_ends_within_what_the_page_says() -> None:
    assert OVERRUN_S + FLUSH_S < LATEST_S
    assert f"{LATEST_S} s more" in PAGE.read_text()


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze comes with systemd, which isn't here")
    # It looks whether the command is there.
    (tmp_path / "rowlock").write_text("#!/bin/sh\n")
    (tmp_path / "rowlock").chmod(0o755)
    text = unit.read_text()
    there = tmp_path / unit.name
    there.write_text(text.replace("/srv/shop/.venv/bin", str(tmp_path)))
    assert str(tmp_path) in there.read_text()

    done = subprocess.run(
        [verify, "verify", str(there)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, told_of(done.stderr, unit.name)) == (0, [])


def told_of(said: str, name: str) -> list[str]:
    """Take what is said of this unit, not of what else the machine has."""
    stem = name.partition("@")[0].removesuffix(".service")
    return [line for line in said.splitlines() if stem in line]


def test_systemd_waits_long_enough_and_signals_the_worker_alone() -> None:
    unit = (DEPLOY / "systemd" / "rowlock-worker@.service").read_text()
    (waits,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)

    assert int(waits) > shutdown_timeout(unit) + LATEST_S
    assert re.search(r"^KillMode=mixed$", unit, re.MULTILINE)


def manifests() -> Iterator[tuple[str, Any]]:
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            yield f"{path.stem}-{document['kind']}", document


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize(("name", "document"), list(manifests()))
def test_kubernetes_takes_the_manifest(name: str, document: Any, version: str) -> None:  # noqa: ANN401 - as above
    assert name
    kubernetes_validate.validate(document, version, strict=True)


def test_kubernetes_waits_long_enough_and_probes_the_worker() -> None:
    pod = read(DEPLOY / "kubernetes" / "worker.yaml")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    port = {each["name"]: each["containerPort"] for each in container["ports"]}

    waits = pod["terminationGracePeriodSeconds"]
    assert waits > shutdown_timeout(" ".join(container["args"])) + LATEST_S
    for probe, path in (("livenessProbe", "/health"), ("readinessProbe", "/ready")):
        asked = container[probe]["httpGet"]
        assert asked["path"] == path
        assert f"--health=0.0.0.0:{port[asked['port']]}" in container["args"]


def test_compose_waits_long_enough_and_migrates_first() -> None:
    services = read(DEPLOY / "compose" / "compose.yaml")["services"]
    worker, migrate = services["worker"], services["migrate"]
    image = (DEPLOY / "compose" / "Dockerfile").read_text()

    waits = int(worker["stop_grace_period"].removesuffix("s"))
    assert waits > shutdown_timeout(image) + LATEST_S
    assert worker["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"}
    }
    assert migrate["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert migrate["command"] == ["rowlock", "migrate"]
    assert services["db"]["healthcheck"]["test"][0] == "CMD-SHELL"
    assert worker["healthcheck"]["test"] == [
        *("CMD", "rowlock", "health", "127.0.0.1:8080")
    ]


def test_the_image_has_the_worker_hear_its_signals() -> None:
    image = (DEPLOY / "compose" / "Dockerfile").read_text()

    assert re.search(r'^CMD \["rowlock", "worker", ', image, re.MULTILINE)
    # The shop it copies stands beside it, and is an app.
    (copied,) = re.findall(r"^COPY (\S+) ", image, re.MULTILINE)
    compile((DEPLOY / "compose" / copied).read_text(), copied, "exec")


def test_the_page_knows_the_default() -> None:
    (option,) = [each for each in command.params if each.name == "shutdown_timeout"]

    assert f"`--shutdown-timeout` ({option.default} s)" in PAGE.read_text()
