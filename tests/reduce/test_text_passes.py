"""Passes over text, and over the settings that programs of all forms have."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tests.reduce.made import CASE, FakeTest
from triage.model.case import Flag
from triage.reduce.frontends.text import text_form
from triage.reduce.problem import ReducedCase, ReductionProblem

QUERY = "-- a comment\nSELECT a, (b + 1), foo::INT FROM (t, u);\nDROP TABLE t;\n"


def fails(candidate: ReducedCase) -> bool:
    """Fails on a SELECT with a cast, and where one flag is set."""
    flags = [flag.text for flag in candidate.case.flags]
    text = candidate.program.content
    return bool(re.search(rb"SELECT.*::INT.*;", text)) and "--needed" in flags


def test_a_text_is_reduced_to_the_tokens_and_flags_that_fail(tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text(QUERY)
    form = text_form(tmp_path / "query.sql")
    [program] = form.open()
    case = replace(CASE, flags=(Flag("--a"), Flag("--needed"), Flag("--b")))
    problem = ReductionProblem(ReducedCase(program, case), FakeTest(fails))
    for step in (*form.passes, *form.final_passes):
        step(problem)
    assert problem.current.program.content == b"SELECT::INT;\n"
    assert problem.current.case.flags == (Flag("--needed"),)
