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

from tests.recipes.loading import load_recipes
from triage.model.case import Flag, Target

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
    ("text", "position", "fragment"),
    [
        ('flags: ["-a=${dtpe}"]\nmatrix: {dtype: [f16]}\n', "4:9", 'did you mean "dtype"?'),
        ('flags: ["-a=${dtype}"]\n', "4:9", "no matrix"),
        ('flags: ["-a=${}"]\n', "4:9", '"${}"'),
        ('flags: ["-a=${a"]\nmatrix: {a: [b]}\n', "4:9", "write ${key}"),
        ("matrix: {dtype: [f16]}\n", "4:10", "write ${dtype} in input, args, flags"),
        ('matrix: {a: [b]}\nflags: ["-a=${a}"]\nsummary: for ${a}\n', "6:10", "input, args, flags"),
        ('matrix: {a: ["1.0"]}\nflags: [{flag: "-a=${a}", since: "${a}"}]\n', "5:34", "input, args, flags"),
        ('matrix: {a: []}\nflags: ["-a=${a}"]\n', "4:13", "empty"),
        ('matrix: {a: f16}\nflags: ["-a=${a}"]\n', "4:13", "write `a: [f16]`"),
        ('matrix: {a: [[f16]]}\nflags: ["-a=${a}"]\n', "4:14", "not a list"),
        ('matrix: {a: [{b: c}]}\nflags: ["-a=${a}"]\n', "4:14", "not a mapping"),
        ('matrix: {a: [~]}\nflags: ["-a=${a}"]\n', "4:14", "no value"),
        ('matrix: [a]\nflags: ["-a=${a}"]\n', "4:9", "write `matrix: {dtype: [f16"),
        ('matrix: {a: [x, x]}\nflags: ["-a=${a}"]\n', "4:17", '"x"'),
        ('matrix: {a: ["x,y"]}\nflags: ["-a=${a}"]\n', "4:14", "commas"),
        ('matrix: {1a: [x]}\nflags: ["-a=${1a}"]\n', "4:10", '"1a"'),
        ('matrix: {a: [O3]}\nflags: ["${a}"]\n', "5:9", '"--O3"'),
    ],
)
def test_mistakes(told, text, position, fragment):
    (problem,) = told(BASE + text)
    assert problem.startswith(f"{position}: ")
    assert fragment in problem


def test_an_empty_list_is_reported_as_well_as_the_unused_key(told):
    assert len(told(BASE + "matrix: {a: []}\n")) == 2


def test_other_mistakes_are_found_beside_a_bad_matrix(told):
    text = 'matrix: {a: [], b: [O3]}\nflags: ["-a=${a}", "${b}", "${c}"]\nphase: nowhere\n'
    assert [problem.split(":")[0] for problem in told(BASE + text)] == ["4", "5", "5", "6"]


def test_each_wrong_value_of_a_key_is_reported(told):
    text = """\
name: a
input: models/matmul_${dtype}.mlir
target: {backend: "${b}", devices: "${d}"}
matrix: {dtype: [f16, f8, f4], b: [cuda, cdua], d: [1, 0]}
"""
    problems = told(text)
    assert len(problems) == 4
    assert '"models/matmul_f8.mlir"' in problems[0]
    assert 'did you mean "matmul_f' in problems[0]
    assert '"models/matmul_f4.mlir"' in problems[1]
    assert problems[2].startswith('3:19: "cdua"')
    assert problems[3].startswith("3:36: ")


def test_too_many_combinations_are_refused(told):
    keys = "abcdefg"
    matrix = ", ".join(f"{key}: [1, 2, 3, 4, 5]" for key in keys)
    flags = ", ".join(f'"-{key}=${{{key}}}"' for key in keys)
    (problem,) = told(BASE + f"matrix: {{{matrix}}}\nflags: [{flags}]\n")
    assert problem.startswith("4:1: ")
    assert "78125" in problem
    assert "4096" in problem


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
