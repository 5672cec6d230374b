"""Passes over text, and over the settings that programs of all forms have."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tests.reduce.made import CASE, FakeTest, reduced
from triage.model.case import Flag
from triage.reduce.problem import Program
from triage.reduce.text import text_form

QUERY = "-- a comment\nSELECT a, (b + 1), foo::INT FROM (t, u);\nDROP TABLE t;\n"


def fails(candidate: Program) -> bool:
    """Fails on a SELECT with a cast, and where one flag is set."""
    is_cast = re.search(rb"SELECT.*::INT.*;", candidate.content)
    return bool(is_cast) and Flag("--needed") in candidate.case.flags


def test_a_text_is_reduced_to_the_tokens_and_flags_that_fail(tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text(QUERY)
    case = replace(CASE, flags=(Flag("--a"), Flag("--needed"), Flag("--b")))
    form = text_form(case, tmp_path / "query.sql")
    [program] = form.programs
    steps = (*form.passes, *form.final_passes)
    small = reduced(program, FakeTest(fails), steps)
    assert small.content == b"SELECT::INT;\n"
    assert small.case.flags == (Flag("--needed"),)
