"""Which pass failed, and the phase it belongs to."""

import pytest

from triage.classify import FailingPass
from triage.classify.passes import failing_pass


@pytest.mark.parametrize(
    "text, expected",
    [
        ("// -----// IR Dump After AbcPass Failed (iree-hal-abc) //----- //", FailingPass("AbcPass", "iree-hal-abc")),
        ("// -----// IR Dump After AbcPass Failed (a-b) ('func.func' operation: @f) //----- //", FailingPass("AbcPass", "a-b")),
        ("// -----// IR Dump After mlir::(anonymous namespace)::AbcPass Failed () //----- //", FailingPass("AbcPass")),
        (
            "m.mlir:0:0: note: Pipeline failed while executing `SelectPass` on 'builtin.module' operation: reproducer generated",
            FailingPass("SelectPass"),
        ),
        (
            "// -----// IR Dump After CloneToConsumersPass Failed: iree-stream-clone-to-consumers //----- //",
            FailingPass("CloneToConsumersPass", "iree-stream-clone-to-consumers"),
        ),
        ("k.py:33:0: note: Pipeline failed while executing [`TritonX` on 'tt.func' operation: @k]: see", FailingPass("TritonX")),
        ("Failed after eigh_expander", FailingPass("eigh_expander")),
        ("Failed after pipeline-start", None),
        ("Failed after 3 attempts", None),
        ("Failed after all retries were used", None),
        ("// -----// IR Dump After AbcPass (iree-hal-abc) //----- //", None),
        ("// -----// IR Dump Before AbcPass (iree-hal-abc) //----- //", None),
    ],
)  # fmt: skip
def test_failing_pass_in_a_line(text: str, expected: FailingPass | None) -> None:
    assert failing_pass(text) == expected
