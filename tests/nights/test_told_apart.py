"""What nights tell apart: two failures with one signature, and an edited input from a
changed compiler.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fake_releases import write_case
from tests.nights.conftest import Command


def answer(command: Command, *words: str) -> Any:
    return json.loads(command(*words, "--format", "json").stdout)


def test_two_failures_with_one_signature_have_a_page_each(
    tmp_path: Path, with_releases: Command, night: Command, workplace: Path
) -> None:
    """The first one is fixed by the compiler that brings the second one."""
    write_case(tmp_path / "cases", "early", "breaks-2", "fixed-3")
    write_case(tmp_path / "cases", "late", "breaks-3")
    for new in (1, 2, 3, 4):
        night(new, new - 1, "--bisect")
    with_releases("site")
    expected = {"early": ("gone", 1, 2, "1.3.0"), "late": ("open", 2, 3, None)}
    for case, (state, before, after, gone) in expected.items():
        [life] = answer(with_releases, "show", case)["failures"]
        culprit = life["cluster"]["culprit"]
        assert life["state"] == state
        assert life["before"]["name"] == culprit["before"]["name"] == f"1.{before}.0"
        assert culprit["after"]["name"] == f"1.{after}.0"
        assert (life["gone"] and life["gone"]["toolchain"]["name"]) == gone
        page = workplace / "public" / "failures" / f"{life['page']}.html"
        assert re.findall(r"<tr><td><a [^>]*>(\w+)</a>", page.read_text()) == [case]


@pytest.mark.parametrize("newer", [False, True])
def test_an_edited_input_is_no_change_of_the_compiler(
    tmp_path: Path, with_releases: Command, night: Command, workplace: Path, newer: bool
) -> None:
    for edit in range(4):
        # passes and fails in turn
        write_case(tmp_path / "cases", "edited", *(("breaks-0",) if edit % 2 else ()))
        night(edit + 1 if newer else 1, 0)
    shown = answer(with_releases, "show", "edited")
    assert shown["flaky_changes"] == 0
    assert shown["runs"][0]["is_edited"]
    for life in shown["failures"]:
        assert life["before"] is None
        assert life["came"]["is_edited"]
        assert life["gone"] is None or life["gone"]["is_edited"]
    text = with_releases("show", "edited").stdout
    assert "when the input changed" in text
    assert "flaky" not in text
    with_releases("site")
    index = (workplace / "public" / "index.html").read_text()
    assert "<h1>Nothing new fails" in index
    assert "newly fails" not in index


def test_an_edited_recipe_is_no_change_of_the_compiler(
    tmp_path: Path, with_releases: Command, night: Command
) -> None:
    case = write_case(tmp_path / "cases", "edited", "breaks-1")
    added = [
        "",
        "flags: [--mlir-print-op-on-diagnostic]\n",
        'expect: [{failure: timeout}]\nsummary: "x"\n',
    ]
    inputs = []
    for new, line in enumerate(added, 1):
        case.write_text(case.read_text() + line)
        night(new, 0)
        [edited] = answer(with_releases, "nights", "show")["cases"]
        inputs.append(edited["input"])
    assert inputs[0] != inputs[1] == inputs[2], "an expectation is no input"
