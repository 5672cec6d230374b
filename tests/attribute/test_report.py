"""The JSON of an attribution."""

from __future__ import annotations

from tests.bisect.letters import failure
from triage.attribute.result import (
    Attribution,
    ComparisonResult,
    Difference,
    DivergingPass,
)
from triage.model.execution import PassName
from triage.model.json_form import as_json
from triage.model.revision import Revision

TILE = PassName("TilePass", "t-tile")
DIVERGING = Attribution(
    "case",
    Revision("3.2.0"),
    Revision("3.3.0"),
    ComparisonResult.DIVERGES,
    failure=failure("F"),
    failing=PassName("CheckPass"),
    function={"good": "kernel", "bad": "kernel"},
    persistent=DivergingPass(
        None,
        TILE,
        "kernel",
        (Difference("t.copy", "1", "3"),),
        (Difference("config.tiles", "[4]", "[8]"),),
    ),
    other=DivergingPass(PassName("FusePass"), PassName("FusePass"), None),
    notes=("a note",),
)


def test_the_json_has_the_suspects() -> None:
    answer = as_json(DIVERGING)
    revisions = (answer["good"]["name"], answer["bad"]["name"])
    assert (answer["case"], *revisions) == ("case", "3.2.0", "3.3.0")
    assert (answer["status"], answer["failing_pass"]) == ("parted", "CheckPass")
    assert answer["first_phase"] is None
    assert (answer["pass"]["name"], answer["pass"]["on"]) == ("TilePass", "bad")
    assert answer["other"]["name"] == "FusePass"
    assert answer["suspect_passes"] == ["TilePass", "FusePass"]
    assert answer["function"] == {"good": "kernel", "bad": "kernel"}
