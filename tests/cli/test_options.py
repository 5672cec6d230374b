"""What every command has: --format, --help, completion; and the lazy table of commands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.bisect.letters import case_named
from tests.conftest import Triage
from triage.cli.app import every_command
from triage.cli.cases import cases_named, revs_by_family
from triage.model.case import Case

LEAVES: dict[str, Any] = {
    " ".join(words): command for words, command in every_command()
}


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_has_a_help_text(name: str) -> None:
    assert all(param.help for param in LEAVES[name].params)


@pytest.mark.parametrize(
    ("command", "other"),
    [("classify", "junit"), ("run", "sarif")],
)
def test_a_format_that_a_command_cannot_write_is_refused_with_the_choices(
    triage: Triage, command: str, other: str
) -> None:
    done = triage(command, "nothing", "--format", other)
    assert (done.returncode, done.stdout) == (2, "")
    assert "json" in done.stderr


def case(name: str, family: str) -> Case:
    return replace(case_named(name), compiler=family)


IREE, TRITON, CYTHON = map(case, "abc", ("iree", "triton", "command:cython"))


MATRIX = [
    replace(case(f"m[chip={chip},dtype={dtype}]", "iree"), matrix=matrix)
    for chip in ("sm_80", "sm_90")
    for dtype in ("f16", "f8")
    for matrix in [(("chip", chip), ("dtype", dtype))]
]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("add", ["add"]),
        ("ad", ["add", "add-f16"]),
        ("*-f16", ["add-f16"]),
        ("m[chip=sm_80,dtype=f8]", ["m[chip=sm_80,dtype=f8]"]),
        ("dtype=f8, chip=sm_90", ["m[chip=sm_90,dtype=f8]"]),
    ],
)
def test_a_text_selects_cases_by_name_or_matrix(text: str, names: list[str]) -> None:
    cases = [*(case(name, "iree") for name in ("add", "add-f16", "mul")), *MATRIX]
    assert [chosen.name for chosen in cases_named(cases, text)] == names


def test_a_rev_without_a_prefix_belongs_to_iree_among_several_families(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert revs_by_family([TRITON, IREE], ["3.3.0"]) == {"iree": ["3.3.0"]}
    assert "triton:latest" in capsys.readouterr().err
    revs = ["3.3.0", "triton:3.2.0", "command:cython:3.0.0"]
    assert list(revs_by_family([IREE, TRITON, CYTHON], revs).values()) == [
        [rev] for rev in revs
    ]
    assert capsys.readouterr().err == ""
