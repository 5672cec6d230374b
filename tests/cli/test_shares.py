"""Whose toolchain a REV is, where recipes of several compilers are given together."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.cli.context import only_share, shares
from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import BadInput


def case(name: str, family: str) -> Case:
    return Case(name, name, "", family, Path("r.yaml"), Input(Path("m"), InputKind.OTHER), Target("cuda"))


IREE, TRITON, CYTHON = case("a", "iree"), case("b", "triton"), case("c", "command:cython")


def told(cases: list[Case], revs: list[str]) -> list[tuple[str, list[str], list[str]]]:
    return [(share.family, [one.name for one in share.cases], list(share.revs)) for share in shares(cases, revs)]


def test_a_rev_without_a_prefix_is_of_the_only_family() -> None:
    assert told([TRITON], ["3.2.0", "triton:3.1.0"]) == [("triton", ["b"], ["3.2.0", "triton:3.1.0"])]


def test_among_several_it_is_of_iree_and_the_others_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([TRITON, IREE], ["3.3.0"]) == [("iree", ["a"], ["3.3.0"])]
    assert "left out: 1 case of triton" in capsys.readouterr().err
    both = told([IREE, TRITON, CYTHON], ["3.3.0", "triton:3.2.0", "command:cython:3.0.0"])
    assert both == [
        ("iree", ["a"], ["3.3.0"]),
        ("triton", ["b"], ["triton:3.2.0"]),
        ("command:cython", ["c"], ["command:cython:3.0.0"]),
    ]
    assert capsys.readouterr().err == ""


def test_a_rev_that_could_be_of_two_is_asked_about() -> None:
    with pytest.raises(BadInput, match=r"say whose '3\.2\.0' is, such as triton:3\.2\.0"):
        shares([TRITON, CYTHON], ["3.2.0"])


def test_a_comparison_is_of_one_compiler() -> None:
    assert only_share([IREE, TRITON], ["triton:3.2.0", "triton:3.1.0"], "a nightly").cases == (TRITON,)
    with pytest.raises(BadInput, match="a nightly is about one compiler"):
        only_share([IREE, TRITON], ["triton:3.2.0", "3.1.0"], "a nightly")
