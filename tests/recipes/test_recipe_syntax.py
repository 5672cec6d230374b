"""Text that is not YAML, or exceeds the limits."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.recipes.loading import load_recipes
from triage.model.errors import BadFiles


@pytest.mark.parametrize(
    ("text", "position", "fragment"),
    [
        ("name: a\n\tinput: b\n", "2:1", "tab"),
        ('flags: ["-a", -b=${c}]\n', "1:19", '"--flag=${key}"'),
        ("name: 'a\ninput: b\n", "3:1", "begins at 1:7"),
        ("name: a\x07b\n", "1:8", "U+0007"),
        ("name: a\nname: b\n", "2:1", "first at 1:1"),
        ('summary: "a\\0b"\n', "1:10", "NUL"),
        ("a: &a [*a]\n", "1:4", "40 levels"),
        ("[" * 200_000, "1:1001", "nesting depth"),
    ],
)
def test_position_and_advice(told, text, position, fragment):
    assert any(
        line.startswith(f"{position}: ") and fragment in line for line in told(text)
    ), told(text)


def test_aliases_cannot_flood_the_memory(told):
    lines = ["a: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"b{n}: &l{n + 1} [{', '.join([f'*l{n}'] * 10)}]" for n in range(12)]
    (only,) = told("\n".join(lines))
    assert "20000 values" in only


WHOLE = """\
name: a
summary: some text
input: models/${m}.mlir
args: {n: 4096}
target: {backend: cuda, chip: &c sm_86, devices: 2}
flags: ["--iree-opt-level=O3", {flag: "--x=${m}", since: "3.5.0", until: "3.9.0"}]
matrix: {m: [matmul, 1.10]}
limits: {timeout: 120s, memory: 8GiB}
expect:
  - {failure: crash, since: "3.1.0", issue: "owner/repo#1"}
"""
PIECES = st.sampled_from(
    [
        *"{}[],:#&*!|>'\"%@`?-~\n\t ",
        "${",
        "*c",
        "---\n",
        "!!int ",
        "- ",
        "3.10",
        "0x_",
        "yes",
        "\u2028",
    ]
)
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(WHOLE)), st.integers(0, 20), PIECES | st.text(max_size=3)
    ),
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(EDITS)
@example([(WHOLE.index("models/") + 7, 0, "**")])
@example([(0, 0, "'"), (len(WHOLE), 0, "'")])
def test_any_text_becomes_cases_or_readable_problems(edits):
    text = WHOLE
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.yaml"
        path.write_text(text, encoding="utf-8", newline="")
        try:
            assert load_recipes([path])
        except BadFiles as error:
            for problem in error.problems:
                assert problem.message.endswith((".", "?"))
                assert len(problem.message.splitlines()) == 1
                assert (
                    problem.line is None
                    or 1 <= problem.line <= len(text.splitlines()) + 1
                )
