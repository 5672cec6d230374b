"""Which pass failed, and the phase it belongs to."""

import pytest

from triage.classify.failure_site import failing_pass
from triage.model.execution import PassName


@pytest.mark.parametrize(
    "text, expected",
    [
        ("// -----// IR Dump After AbcPass Failed (iree-hal-abc) //----- //", PassName("AbcPass", "iree-hal-abc")),
        ("// -----// IR Dump After AbcPass Failed (a-b) ('func.func' operation: @f) //----- //", PassName("AbcPass", "a-b")),
        ("// -----// IR Dump After mlir::(anonymous namespace)::AbcPass Failed () //----- //", PassName("AbcPass")),
        (
            "m.mlir:0:0: note: Pipeline failed while executing `SelectPass` on 'builtin.module' operation: reproducer generated",
            PassName("SelectPass"),
        ),
        (
            "// -----// IR Dump After CloneToConsumersPass Failed: iree-stream-clone-to-consumers //----- //",
            PassName("CloneToConsumersPass", "iree-stream-clone-to-consumers"),
        ),
        ("k.py:33:0: note: Pipeline failed while executing [`TritonX` on 'tt.func' operation: @k]: see", PassName("TritonX")),
        ("Failed after eigh_expander", PassName("eigh_expander")),
        ("Failed after pipeline-start", None),
        ("Failed after 3 attempts", None),
        ("Failed after all retries were used", None),
        ("// -----// IR Dump After AbcPass (iree-hal-abc) //----- //", None),
        ("// -----// IR Dump Before AbcPass (iree-hal-abc) //----- //", None),
    ],
)  # fmt: skip
def test_failing_pass_in_a_line(text: str, expected: PassName | None) -> None:
    assert failing_pass(text) == expected
