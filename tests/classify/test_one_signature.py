"""One failure has one signature: with and without notes, in custom and generic form,
from a release and a debug build.
"""

import re

import pytest

from tests.classify.corpus import snippets
from tests.classify.samples import scan_output
from tests.classify.test_diagnose import diagnosed, ran
from triage.classify import packaged_rules
from triage.model.execution import NO_PASS, PassName

# What `--mlir-print-op-on-diagnostic=false` leaves out: the note, and the operation
# that it prints in further lines.
NOTE = re.compile(
    r"^.*\bnote: (?:\S+: )?see current operation:[^\n]*\n(?:(?:\s*\n)?(?:%\S+ = )?\"[\w.]+\"\([^\n]*\n)?",
    re.MULTILINE,
)


def signatures(text: str) -> list[str]:
    return [failure.signature for failure in scan_output(text.encode())]


def test_notes_do_not_change_the_signature() -> None:
    examples = [example.text for rule in packaged_rules() for example in rule.examples]
    noted = [
        text
        for text in (*examples, *(snippet.log for snippet in snippets()))
        if NOTE.search(text)
    ]
    assert len(noted) > 50
    for text in noted:
        assert signatures(NOTE.sub("", text)) == signatures(text), text


GATHER = """\
m.mlir:3:10: error: failed to legalize operation 'torch.operator' that was explicitly marked illegal
    %0 = {}
         ^
"""


@pytest.mark.parametrize(
    "printed",
    [
        'torch.operator "onnx.Gather"(%a, %b) : (!torch.vtensor<[4],f32>, !torch.vtensor<[?],si64>) -> !torch.vtensor<[?],f32>',
        '"torch.operator"(%a, %b) <{name = "onnx.Gather"}> : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[?],f32>',
    ],
)
def test_the_form_of_the_source_line_does_not_change_the_signature(
    printed: str,
) -> None:
    assert signatures(GATHER.format(printed)) == [
        "legalization:torch.operator onnx.Gather"
    ]


READ = """\
t.mlir:2:8: error: 'tosa.mul' op expected 3 operands, but found 2
  %0 = "tosa.mul"(%a, %b) {shift = 0 : i8} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
       ^
"""
SEMANTIC = READ.replace(
    "expected 3 operands, but found 2",
    "requires the same type for all operands and results",
)
TRANSLATION = 't.mlir:2:8: error: failed to run translation of source executable to target executable for backend #hal.executable.target<"cuda">\n'


@pytest.mark.parametrize(
    "stderr, failing_pass, expected, asks",
    [
        (READ, None, "parse-error:tosa.mul expected # operands, but found #", False),
        (
            READ + TRANSLATION,
            None,
            "verifier:tosa.mul expected # operands, but found #",
            False,
        ),
        (
            SEMANTIC,
            None,
            "verifier:tosa.mul requires the same type for all operands and results",
            True,
        ),
        (
            SEMANTIC,
            NO_PASS,
            "parse-error:tosa.mul requires the same type for all operands and results",
            False,
        ),
        (
            SEMANTIC,
            PassName("Canonicalizer"),
            "verifier:tosa.mul requires the same type for all operands and results",
            False,
        ),
    ],
)
def test_an_operation_that_is_invalid_as_written_is_an_input_that_cannot_be_read(
    stderr: str, failing_pass: PassName | None, expected: str, asks: bool
) -> None:
    diagnosis = diagnosed(ran(stderr), failing_pass)
    assert (diagnosis.failures[0].signature, diagnosis.needs_pass) == (expected, asks)
