"""Matrices: their cases, their placeholders, and what can be wrong with either."""

from __future__ import annotations

import pytest

from triage.model.case import Flag, Target

BASE = "name: a\ninput: models/matmul.mlir\ntarget: {backend: cuda}\n"


def test_cases_stand_in_the_order_of_the_file(loaded):
    cases = loaded(
        BASE + 'matrix: {b: [2, 1], a: [x, y]}\nflags: ["-b=${b}", "-a=${a}"]\n'
    )
    assert [case.name for case in cases] == [
        "a[b=2,a=x]",
        "a[b=2,a=y]",
        "a[b=1,a=x]",
        "a[b=1,a=y]",
    ]
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
    values = ["1.10", "no", "0x1F", "1e3", "2025-06-04", "1:30"]
    cases = loaded(
        f"{BASE}matrix: {{v: [{', '.join(values)}]}}\nflags: ['-v=${{v}}']\n"
    )
    assert [case.flags[0].text[3:] for case in cases] == values


@pytest.mark.parametrize(
    ("text", "position", "fragment"),
    [
        (
            'flags: ["-a=${dtpe}"]\nmatrix: {dtype: [f16]}\n',
            "4:9",
            'did you mean "dtype"?',
        ),
        (
            'matrix: {a: [b]}\nflags: ["-a=${a}"]\nsummary: for ${a}\n',
            "6:10",
            "input, args, flags",
        ),
        ('matrix: {a: [[f16]]}\nflags: ["-a=${a}"]\n', "4:14", "not a list"),
        ('flags: ["-a=${a} ${b"]\nmatrix: {a: [b]}\n', "4:9", "not closed"),
        ('matrix: {a: [~]}\nflags: ["-a=${a}"]\n', "4:14", "no value"),
        ('matrix: {a: ["x,y"]}\nflags: ["-a=${a}"]\n', "4:14", "commas"),
        ('matrix: {a: [O3]}\nflags: ["${a}"]\n', "5:9", '"--O3"'),
    ],
)
def test_mistakes(told, text, position, fragment):
    (problem,) = told(BASE + text)
    assert problem.startswith(f"{position}: ")
    assert fragment in problem
