"""Each fault that is planted is found, soon, and told in a few lines."""

from __future__ import annotations

import pytest

from .__main__ import main
from .faults import FAULTS
from .history import LONGEST
from .run import survey

# The rarest is seen in one run of a hundred.
SOON = 1000
# The seed and the broken law, before the history.
HEADING = 2


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    found = survey(0, SOON, fault, tell=print)

    assert found, f"{SOON} runs have not met it"
    assert len(found[0].lines()) <= LONGEST + HEADING


def test_a_fault_that_there_isnt_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["simulation", "--fault", "nope"])

    with pytest.raises(SystemExit):
        main()

    told = capsys.readouterr().err
    assert "there is no fault 'nope'" in told
    assert all(name in told for name in FAULTS)
