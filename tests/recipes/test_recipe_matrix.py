"""Matrices: their cases, their placeholders, and what can be wrong with either."""

from __future__ import annotations

import itertools
import tempfile
from math import prod
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.model.case import Flag, Target
from triage.recipes import load_recipes

BASE = "name: a\ninput: models/matmul.mlir\ntarget: {backend: cuda}\n"


def test_cases_stand_in_the_order_of_the_file(loaded):
    cases = loaded(BASE + 'matrix: {b: [2, 1], a: [x, y]}\nflags: ["-b=${b}", "-a=${a}"]\n')
    assert [case.name for case in cases] == ["a[b=2,a=x]", "a[b=2,a=y]", "a[b=1,a=x]", "a[b=1,a=y]"]
    assert cases[1].matrix == (("b", "2"), ("a", "y"))
    assert {case.recipe for case in cases} == {"a"}


def test_placeholders_are_filled_in_everywhere_they_may_stand(loaded):
    text = """\
name: a
input: models/${file}.py
args: {n: "${n}", fixed: 1}
target: {backend: "${backend}", chip: "sm_${n}", devices: "${d}"}
flags: ["-n=${n}-${d}", {flag: "--x=${n}", since: "3.5.0"}, "${flag}"]
matrix: {file: [make], n: [86], backend: [cuda], d: [2], flag: ["--y=z"]}
"""
    (case,) = loaded(text)
    assert case.input.path.name == "make.py"
    assert case.input.args == (("n", "86"), ("fixed", "1"))
    assert case.target == Target("cuda", "sm_86", 2)
    assert case.flags == (Flag("-n=86-2"), Flag("--x=86", since="3.5.0"), Flag("--y=z"))


def test_values_stay_as_written(loaded):
    cases = loaded(BASE + 'matrix: {v: [1.10, no, 0x1F, 1e3, "", 2025-06-04, 1:30]}\nflags: ["-v=${v}"]\n')
    assert [case.flags[0].text[3:] for case in cases] == ["1.10", "no", "0x1F", "1e3", "", "2025-06-04", "1:30"]


def test_the_suffix_may_come_from_the_matrix(loaded):
    cases = loaded("name: a\ninput: models/${f}\ntarget: {backend: cuda}\nmatrix: {f: [matmul.mlir, conv.onnx]}\n")
    assert [case.input.kind.value for case in cases] == ["mlir", "onnx"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'flags: ["-a=${dtpe}"]\nmatrix: {dtype: [f16]}\n',
            '4:9: "${dtpe}" names no matrix key; did you mean "dtype"? The matrix has dtype.',
        ),
        ('flags: ["-a=${dtype}"]\n', '4:9: "${dtype}" names no matrix key. The recipe has no matrix.'),
        ('flags: ["-a=${}"]\n', '4:9: "${}" names no matrix key.'),
        (
            'flags: ["-a=${a"]\nmatrix: {a: [b]}\n',
            '4:9: "-a=${a" holds a ${ that is not closed; write it as ${key}.',
        ),
        (
            "matrix: {dtype: [f16]}\n",
            '4:10: nothing uses the matrix key "dtype": write ${dtype} in input, args, flags or target',
        ),
        (
            'matrix: {a: [b]}\nflags: ["-a=${a}"]\nsummary: for ${a}\n',
            '6:10: "for ${a}": placeholders are filled in only in input, args, flags and target.',
        ),
        (
            'matrix: {a: ["1.0"]}\nflags: [{flag: "-a=${a}", since: "${a}"}]\n',
            '5:34: "${a}": placeholders are filled in only in input, args, flags and target.',
        ),
        ('matrix: {a: []}\nflags: ["-a=${a}"]\n', '4:13: the list of "a" is empty: give it values or remove the key.'),
        (
            'matrix: {a: f16}\nflags: ["-a=${a}"]\n',
            '4:13: the matrix key "a" holds a list, not "f16": write `a: [f16]`.',
        ),
        ('matrix: {a: [[f16]]}\nflags: ["-a=${a}"]\n', "4:14: one value is wanted here, not a list."),
        ('matrix: {a: [{b: c}]}\nflags: ["-a=${a}"]\n', "4:14: one value is wanted here, not a mapping."),
        ('matrix: {a: [~]}\nflags: ["-a=${a}"]\n', "4:14: this entry is ~"),
        ('matrix: [a]\nflags: ["-a=${a}"]\n', '4:9: "matrix" holds a mapping, not a list: write `matrix: {dtype: [f16'),
        ('matrix: {a: [x, x]}\nflags: ["-a=${a}"]\n', '4:17: "x" stands twice among the values of "a"; remove one.'),
        ('matrix: {a: ["x,y"]}\nflags: ["-a=${a}"]\n', '4:14: "x,y" cannot stand in a case name: leave out commas'),
        ('matrix: {1a: [x]}\nflags: ["-a=${1a}"]\n', '4:10: "1a" cannot be a key here: use letters, digits, _ and -'),
        ('matrix: {a: [O3]}\nflags: ["${a}"]\n', '5:9: "O3" is no flag: a flag begins with a hyphen, such as "--O3".'),
    ],
)
def test_mistakes(told, text, message):
    (problem,) = told(BASE + text)
    assert problem.startswith(message)


def test_an_empty_list_is_told_beside_the_key_that_nothing_uses(told):
    assert len(told(BASE + "matrix: {a: []}\n")) == 2


def test_other_mistakes_are_found_beside_a_bad_matrix(told):
    text = 'matrix: {a: [], b: [O3]}\nflags: ["-a=${a}", "${b}", "${c}"]\nphase: nowhere\n'
    assert [problem.split(":")[0] for problem in told(BASE + text)] == ["4", "5", "5", "6"]


def test_each_value_that_fits_badly_is_told(told):
    text = """\
name: a
input: models/matmul_${dtype}.mlir
target: {backend: "${b}", devices: "${d}"}
matrix: {dtype: [f16, f8, f4], b: [cuda, cdua], d: [1, 0]}
"""
    problems = told(text)
    assert len(problems) == 4
    assert '"models/matmul_f8.mlir" does not exist; did you mean "matmul_f' in problems[0]
    assert '"models/matmul_f4.mlir" does not exist' in problems[1]
    assert problems[2].startswith('3:19: "cdua" is no backend of iree')
    assert problems[3].startswith("3:36: 0 devices")


def test_too_many_combinations_are_refused(told):
    keys = "abcdefg"
    matrix = ", ".join(f"{key}: [1, 2, 3, 4, 5]" for key in keys)
    flags = ", ".join(f'"-{key}=${{{key}}}"' for key in keys)
    (problem,) = told(BASE + f"matrix: {{{matrix}}}\nflags: [{flags}]\n")
    assert problem == "4:1: the matrix has 78125 combinations; the limit is 4096."


WORDS = st.text(st.characters(codec="utf-8", exclude_characters=",[]{}$\n\r\t", exclude_categories=("C", "Z")), max_size=6)
MATRICES = st.dictionaries(
    st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,5}", fullmatch=True),
    st.lists(WORDS | st.integers() | st.booleans(), min_size=1, max_size=4, unique_by=lambda value: str(value).lower()),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(MATRICES)
def test_the_cases_are_the_product(matrix):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "m.mlir").touch()
        recipe = {
            "name": "a",
            "input": "m.mlir",
            "target": {"backend": "cuda"},
            "flags": [f"--{key}=<${{{key}}}>" for key in matrix],
            "matrix": matrix,
        }
        (folder / "a.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True), encoding="utf-8")
        cases = load_recipes([folder])
    assert len(cases) == prod(len(values) for values in matrix.values())
    assert len({case.name for case in cases}) == len(cases)
    assert not any("${" in flag.text for case in cases for flag in case.flags)
    texts = [[str(value).lower() if isinstance(value, bool) else str(value) for value in row] for row in matrix.values()]
    expected = [tuple(zip(matrix, row, strict=True)) for row in itertools.product(*texts)]
    assert [case.matrix for case in cases] == expected
    for case in cases:
        assert [flag.text for flag in case.flags] == [f"--{key}=<{value}>" for key, value in case.matrix]
