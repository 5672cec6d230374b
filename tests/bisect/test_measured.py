"""Numbers that are bisected in the place of a failure."""

from __future__ import annotations

import pytest

from tests.bisect.letters import HistoryEngine, case_named
from triage.bisect.measured import measuring
from triage.bisect.request import BisectRequest
from triage.model.errors import BadInput

REQUEST = BisectRequest(HistoryEngine({"case": "PF"}), case_named("case"))


def test_a_limit_is_a_threshold_of_the_case() -> None:
    with measuring(REQUEST, "1.0.0", "1.1.0", "artifact_bytes", 9.0, 1.0) as measured:
        assert measured.case.thresholds == (("artifact_bytes", 9.0),)
    with measuring(REQUEST, None, None, None, None, 1.0) as measured:
        assert measured is REQUEST


@pytest.mark.parametrize(
    ("after", "metric"), [(None, "artifact_bytes"), ("1.1.0", "run_seconds")]
)
def test_without_good_and_bad_or_for_a_time_a_limit_says_nothing(
    after: str | None, metric: str
) -> None:
    with (
        pytest.raises(BadInput, match=r"--good|--above"),
        measuring(REQUEST, "1.0.0", after, metric, 9.0, 1.0),
    ):
        pass
