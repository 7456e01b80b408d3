"""A short torture of each store; `python -m tests.torture --minutes 10` is the long."""

from __future__ import annotations

import sys

import pytest

from tests.cluster_fixtures import skipped_without_postgres

from .effects import ONCE, ROLLED_BACK
from .run import StoreName, Torture, torture
from .verdict import LATE

STORM_S = 10
# Any would do; this one has an outage of the database early on.
SEED = 3


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_workers_that_are_killed_stopped_and_cut_off_keep_the_laws(
    store: StoreName, scale: int
) -> None:
    with skipped_without_postgres():
        outcome = torture(Torture(store, STORM_S * scale, SEED))

    told = "\n".join(outcome.lines())
    assert outcome.is_clean, told
    # It has tested something.
    assert outcome.acts["kill"] >= 2, told
    assert outcome.verdict.rows, told
    assert outcome.verdict.effects, told
    assert store == "sqlite" or outcome.acts["restart"], told


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.timeout(400)
def test_a_store_that_takes_outcomes_of_lost_claims_is_found_out(scale: int) -> None:
    if scale == 1:
        pytest.skip("takes three minutes: --slow")
    asked = Torture("sqlite", 180, SEED, fault="fence", only=["stop"])

    outcome = torture(asked)

    assert LATE in {broken.law for broken in outcome.verdict.broken}


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_an_effect_that_is_committed_apart_from_its_success_is_found_out(
    store: StoreName, scale: int
) -> None:
    if scale == 1:
        pytest.skip("takes a minute a store: --slow")
    asked = Torture(store, 30, SEED, fault="effect")

    with skipped_without_postgres():
        outcome = torture(asked)

    assert {ONCE, ROLLED_BACK} <= {broken.law for broken in outcome.verdict.broken}
