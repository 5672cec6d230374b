"""Text that is no YAML, or more than a recipe needs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.model.errors import BadFiles
from triage.recipes import load_recipes

BASE = "name: a\ninput: models/matmul.mlir\ntarget: {backend: cuda}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\n\tinput: b\n", "2:1: a tab indents this line; YAML allows only spaces there."),
        ("name:\n\ta\n", "2:1: a tab indents this line; YAML allows only spaces there."),
        (
            'flags: ["-a", -b=${c}]\n',
            '1:19: a ${key} inside [ ] or { } needs quotes around the whole value, such as "--flag=${key}".',
        ),
        (
            "name: a: b\n",
            "1:8: a second colon, or a key at the wrong indentation: quote a value that holds `: `, or align the keys.",
        ),
        ("name: @a\n", '1:7: a value cannot begin with @; put it in quotes, such as "@…".'),
        (
            "name: 'a\ninput: b\n",
            "3:1: this is not YAML: found unexpected end of stream while scanning a quoted scalar that begins at 1:7.",
        ),
        ("flags: [a, b\n", "2:1: this is not YAML: did not find expected ',' or ']' while parsing a flow sequence"),
        ("name: *nobody\n", "1:7: this is not YAML: found undefined alias."),
        ("name: a\n---\nname: b\n", "2:1: a second document begins here; a recipe file holds one, so move it to a"),
        ("name: a\x07b\n", "1:8: the control character U+0007 cannot stand in YAML; remove it."),
        ("- name: a\n", "1:1: a recipe is a mapping of keys, such as `name: cuda-matmul-f32`; this is a list. Write"),
        ("name:a\n", "1:1: a recipe is a mapping of keys, such as `name: cuda-matmul-f32`; this is the text"),
        (
            "~\n",
            '1:1: this entry is ~, which is YAML for no value; remove it, or write "~" in quotes to mean the word.',
        ),
        ("name: a\nname: b\n", '2:1: the key "name" stands here a second time, first at 1:1; keep one of them.'),
        ("name: !!python/name:os.system a\n", '1:7: the tag "!!python/name:os.system" has no meaning in a recipe'),
        ("? [a]\n: b\n", "1:3: a key must be one word, not a list or a mapping (${key} needs quotes around it here)."),
        ("<<: {name: a}\n", "1:1: merge keys (<<) are not supported; write the keys out."),
        ('summary: "a\\0b"\n', "1:10: a NUL character cannot be handed to any program; remove the \\0."),
        ("a: &a [*a]\n", "1:4: this value contains itself through an alias; write the values out."),
        ("[" * 200_000, "1:41: values are nested more than 40 deep; a recipe needs 4."),
    ],
)
def test_the_mark_and_the_advice(told, text, message):
    assert any(line.startswith(message) for line in told(text)), told(text)


def test_aliases_cannot_flood_the_memory(told):
    lines = ["a: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"b{n}: &l{n + 1} [{', '.join([f'*l{n}'] * 10)}]" for n in range(12)]
    (only,) = told("\n".join(lines))
    assert "unfolds to more than 20000 values" in only


def test_aliases_cannot_nest_beyond_the_limit(told):
    lines = ["a: &l0 [x]", *(f"b{n}: &l{n + 1} [*l{n}]" for n in range(2000))]
    (only,) = told("\n".join(lines))
    assert "nested more than 40 deep" in only


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("phase:\n", '4:7: "phase" has no value; give it one or remove it (an unquoted # begins a comment).'),
        ("phase: #hal\n", '4:7: "phase" has no value; give it one'),
        ("phase: null\n", '4:8: "phase" is null, which is YAML for no value; remove it, or write "null" in quotes'),
        ("flags: [~]\n", '4:9: this entry is ~, which is YAML for no value; remove it, or write "~" in quotes'),
    ],
)
def test_a_key_without_a_value(told, text, message):
    (only,) = told(BASE + text)
    assert only.startswith(message)


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
PIECES = st.sampled_from([*"{}[],:#&*!|>'\"%@`?-~\n\t ", "${", "*c", "---\n", "!!int ", "- ", "3.10", "0x_", "yes", "\u2028"])
EDITS = st.lists(st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 20), PIECES | st.text(max_size=3)), max_size=4)


@settings(max_examples=300, deadline=None)
@given(EDITS)
def test_whatever_is_written_ends_in_cases_or_in_sentences(edits):
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
                assert problem.line is None or 1 <= problem.line <= len(text.splitlines()) + 1
