"""What nights tell apart: two failures with one signature, and an edited input from a
changed compiler.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.fake_releases import environment, fake_releases, write_case

Call = Callable[..., Any]


@pytest.fixture
def call(tmp_path: Path, triage: Triage) -> Iterator[Call]:
    """Runs a command with releases 1.0.0 to 1.4.0 and returns what it prints: text, or
    the value of its JSON.
    """
    with fake_releases(tmp_path / "releases", count=5, logged=False) as releases:
        env = environment(releases, tmp_path / "home")

        def run(*words: object, text: bool = False) -> Any:
            output = () if text else ("--format", "json")
            done = triage(*words, *output, env=env)
            assert done.returncode in (0, 1), done.stderr
            return done.stdout if text else json.loads(done.stdout)

        yield run


def night(call: Call, folder: Path, new: int, old: int, *words: str) -> Any:
    return call("nightly", folder, "-t", f"1.{new}.0", "-b", f"1.{old}.0", *words)


def culprit_of(report: dict[str, Any]) -> tuple[str, str]:
    culprit = report["cluster"]["culprit"]
    return culprit["before"]["name"], culprit["after"]["name"]


def test_two_failures_with_one_signature_have_a_page_each(
    tmp_path: Path, call: Call, workplace: Path
) -> None:
    """The first one is fixed by the compiler that brings the second one."""
    folder = tmp_path / "cases"
    write_case(folder, "early", "breaks-2", "fixed-3")
    write_case(folder, "late", "breaks-3")
    for new in (1, 2, 3, 4):
        night(call, folder, new, new - 1, "--bisect")
    [early] = call("show", "early")["failures"]
    [late] = call("show", "late")["failures"]
    assert early["page"] != late["page"]
    assert (early["state"], late["state"]) == ("gone", "open")
    assert (culprit_of(early), culprit_of(late)) == (
        ("1.1.0", "1.2.0"),
        ("1.2.0", "1.3.0"),
    )
    assert (early["before"]["name"], early["gone"]["toolchain"]["name"]) == (
        "1.1.0",
        "1.3.0",
    )
    assert (late["before"]["name"], late["gone"]) == ("1.2.0", None)
    call("site")
    pages = workplace / "public" / "failures"
    for report, case in ((early, "early"), (late, "late")):
        page = (pages / f"{report['page']}.html").read_text()
        assert re.findall(r"<tr><td><a [^>]*>(early|late)</a>", page) == [case]


@pytest.mark.parametrize("newer", [False, True])
def test_an_edited_input_is_no_change_of_the_compiler(
    tmp_path: Path, call: Call, workplace: Path, *, newer: bool
) -> None:
    folder = tmp_path / "cases"
    new = (1, 2, 3, 4) if newer else (1, 1, 1, 1)
    for edit, compiler in enumerate(new):
        # passes and fails in turn
        write_case(folder, "edited", *(("breaks-0",) if edit % 2 else ()))
        write_case(folder, "steady")
        night(call, folder, compiler, 0)
    shown = call("show", "edited")
    assert shown["flaky_changes"] == 0
    assert shown["runs"][0]["is_edited"]
    text = call("show", "edited", text=True)
    assert "when the input changed" in text
    assert "flaky" not in text
    for report in shown["failures"]:
        assert report["before"] is None
        assert report["came"]["is_edited"]
        assert report["gone"] is None or report["gone"]["is_edited"]
    assert "the input changed" in text
    call("site")
    index = (workplace / "public" / "index.html").read_text()
    assert "<h1>Nothing new fails" in index
    assert "newly fails" not in index


def test_an_edited_recipe_is_no_change_of_the_compiler(
    tmp_path: Path, call: Call
) -> None:
    line = "flags: [--mlir-print-op-on-diagnostic]"
    case = write_case(tmp_path / "cases", "edited", "breaks-1")
    night(call, tmp_path / "cases", 1, 0)
    [old] = call("nights", "show")["cases"]
    night(call, tmp_path / "cases", 2, 0)
    [same] = call("nights", "show")["cases"]
    case.write_text(f"{case.read_text()}{line}\n")
    night(call, tmp_path / "cases", 3, 0)
    [new] = call("nights", "show")["cases"]
    assert old["input"] == same["input"] != new["input"]
    case.write_text(f'{case.read_text()}expect: [{{failure: timeout}}]\nsummary: "x"\n')
    night(call, tmp_path / "cases", 4, 0)
    [described] = call("nights", "show")["cases"]
    assert described["input"] == new["input"], "an expectation is no input"
