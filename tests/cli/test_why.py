"""`triage why`: one failure explained on one screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Lab, rows
from tests.conftest import ROOT, Asked

OVERFLOW = "error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes"
EXPECTED = 'expect: [{failure: shared-memory-overflow, since: "1.2.0", until: "1.4.0"}]'
PROGRAM = "```mlir\nfunc.func @f() { // PROGRAM\n  return\n}\n```\n"
REPORTED = f"IREE 1.3.0:\n```\n{OVERFLOW}\n```\n{PROGRAM}"


@pytest.fixture(scope="module")
def every_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that the tests share, so that each release is installed once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def why(lab: Lab, every_home: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("TRIAGE_HOME", str(every_home))
    return lab


def said(lab: Lab, words: str, code: int) -> str:
    """Explain a failure on a screen, and return it in one line."""
    return " ".join(lab(f"why {words}", code).stdout.split())


# The words of a program, a command line, its exit code, the status, the release that the
# program fails on, the last good one, the first bad one, and the first fixed one.
ANSWERS = """
breaks-3                   why case.yaml           1  fails         1.5.0  1.2.0  1.3.0  -
breaks-0                   why case.yaml           1  fails         1.5.0  -      -      -
breaks-2 fixed-4           why case.yaml           1  fixed         1.3.0  1.1.0  1.2.0  1.4.0
breaks-2 fixed-4           why case.yaml -t 1.3.0  1  fixed         1.3.0  1.1.0  1.2.0  1.4.0
breaks-2 fixed-4 expected  why case.yaml           1  fixed         1.3.0  1.1.0  1.2.0  1.4.0
breaks-2 unreadable-4      why case.yaml           1  fails         1.3.0  1.1.0  1.2.0  -
fine                       why case.yaml           0  passes        -      -      -      -
fine expected              why case.yaml           3  inconclusive  -      -      -      -
fine expected              why case.yaml -t 1.5.0  0  passes        -      -      -      -
unreadable-4               why case.yaml           3  inconclusive  -      -      -      -
unreadable-0               why case.yaml           2  inconclusive  -      -      -      -
unreadable-0               why case.yaml -t 1.4.0  2  inconclusive  -      -      -      -
"""


def name(revision: Any) -> str:
    return str(revision["name"]) if revision else "-"


@pytest.mark.parametrize("row", rows(ANSWERS))
def test_a_failure_has_its_releases(why: Lab, row: list[str]) -> None:
    program, line, code, status, *names = row
    why.recipe("case", program, EXPECTED if "expected" in program else "")
    answer = why.json(line, int(code))
    assert answer["status"] == status
    change = answer["bisection"] or {"before": None, "after": None}
    fixed = (change.get("fixed") or {}).get("after")
    seen = (answer["fails_on"], change["before"], change["after"], fixed)
    assert list(map(name, seen)) == names
    assert "both ends" not in str(answer["left"])  # it is the reason of the bisect
    is_unseen = (program, code) == ("fine expected", "3")
    assert answer["unseen"] == ("shared-memory-overflow" if is_unseen else None)


def test_the_next_commands_reduce_and_name_the_commit(why: Lab) -> None:
    why.recipe("broke", "breaks-3")
    answer = why.json("why broke.yaml", 1)
    assert answer["bisection"]["confirmed"]
    assert answer["next"] == [
        "triage reduce broke.yaml -t 1.5.0 --good 1.2.0",
        "triage bisect broke.yaml --good 1.2.0 --bad 1.3.0 --repo DIR",
    ]


def test_the_releases_that_read_a_program_are_named(why: Lab) -> None:
    assert len(why.json("toolchains install all")["toolchains"]) == 6
    why.recipe("old", "unreadable-4")
    shown = said(why, "old.yaml", 3)
    assert "cannot be tested on 1.4.0 to 1.5.0; passes on 1.0.0 to 1.3.0" in shown
    why.recipe("wrong", "unreadable-0")
    shown = said(why, "wrong.yaml -t 1.4.0", 2)
    assert "the program is wrong: no release can read it reason" in shown


def test_a_spent_budget_says_the_narrowest_range_and_what_was_tried(why: Lab) -> None:
    why.recipe("spent", "breaks-3 spent")  # nothing is known of it
    why("run spent.yaml -t 1.1.0 -t 1.4.0", 1)
    shown = said(why, "spent.yaml -t 1.5.0 --budget 0.001s", 1)
    for text in (
        "one of 3 IREE revisions: 1.2.0, 1.3.0, 1.4.0 last good",
        "last good 1.1.0",
        "fails on 1.4.0 to 1.5.0; not tried on 1.2.0 to 1.3.0; passes on 1.1.0",
        "not done bisect: the budget is spent",
        "--budget 10m",
    ):
        assert text in shown


# A pasted text, why it cannot be run, and what helps.
TEXTS = {
    f"{OVERFLOW}\n": ("no complete program", "triage why PROGRAM --backend BACKEND"),
    "`iree-compile a.mlir --iree-hal-target-backends=rocm --iree-plugin=x.so @flags`\n": (
        "no complete program",
        "triage why PROGRAM --backend BACKEND",
    ),
    PROGRAM + "`mlir-opt a.mlir --canonicalize`\n": (
        "no package to install this compiler from is known",
        "triage why issue.md -t path:DIR",
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_why_a_text_cannot_be_run_is_said_first_with_what_helps(
    why: Lab, text: str
) -> None:
    reason, line = TEXTS[text]
    why.write("issue.md", text)
    answer = why.json("why issue.md", 3)
    assert reason in answer["reason"]
    assert answer["next"][0].startswith(line)
    assert said(why, "issue.md", 3).startswith("not run: ")
    failures = answer["log"]["failures"]
    classes = [failure["class"] for failure in failures]
    assert classes == ["shared-memory-overflow"] * text.startswith("error")


@pytest.mark.parametrize(
    ("words", "target"), [("It is slow.", "llvm-cpu"), ("On a MI300X.", "rocm gfx942")]
)
def test_what_nobody_named_is_assumed_and_said(
    why: Lab, words: str, target: str
) -> None:
    why.write("issue.md", f"{words}\n{PROGRAM}")
    answer = why.json("why issue.md")
    assert (answer["target"], answer["assumed"]) == (target, target.split())
    shown = said(why, "issue.md", 0)
    assert shown.startswith(f"issue for {target} (assumed; --backend and --chip")
    for words, target, assumed in (
        ("--backend cpu", "llvm-cpu", []),
        ("--chip gfx90a", "rocm gfx90a", ["rocm"]),
    ):
        answer = why.json(f"why issue.md {words}")
        assert (answer["target"], answer["assumed"]) == (target, assumed)


def test_a_compile_says_nothing_of_a_wrong_result(why: Lab) -> None:
    why.write("issue.md", f"It computes wrong values.\n{PROGRAM}")
    answer = why.json("why issue.md", 3)
    assert answer["unseen"] == "wrong-result"
    assert "no results were compared" in answer["reason"]


def test_without_a_network_the_compiler_in_the_environment_answers(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_INDEX_URL", "http://127.0.0.1:9/simple/")
    lab.write("plain.mlir", "func.func @f() { return }")
    assert lab.json("why plain.mlir")["passes"]


def test_another_failure_is_never_taken_for_the_reported_one(why: Lab) -> None:
    why.write("issue.md", REPORTED.replace("PROGRAM", "differs-3"))
    answer = why.json("why issue.md", 3)
    assert answer["status"] == "inconclusive"
    assert (answer["failure"], answer["bisection"]) == (None, None)
    shown = said(why, "issue.md", 3)
    assert "the reported shared-memory-overflow was not seen" in shown
    assert "fails otherwise on 1." in shown
    other = said(why, "issue.md -t 1.5.0", 1)
    assert "shared-memory-overflow, which is another failure" in other
    # where both are seen, the reported one is explained
    both = REPORTED.replace("PROGRAM", "breaks-2 fixed-3 differs-4")
    failure = why.json("why -", 1, input=both)["failure"]
    assert failure["class"] == "shared-memory-overflow"


@pytest.mark.real
def test_a_real_failure_is_explained_with_its_pass_and_a_flag(
    asked: Asked,
    shared_home: Path,
    installed: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders = [installed(version).resolve() for version in ("3.2.0", "3.3.0")]
    toolchains = shared_home / "toolchains"
    toolchains.unlink()
    toolchains.mkdir()
    for folder in folders:
        (toolchains / folder.name).symlink_to(folder)
    # only what is installed
    monkeypatch.setenv("TRIAGE_INDEX_URL", "http://127.0.0.1:9/simple/")
    answer = asked("why", ROOT / "recipes/i4-matvec.yaml", "--budget", "10m", code=1)
    assert (answer["status"], answer["fails_on"]["name"]) == ("fails", "3.3.0")
    assert answer["failure"]["class"] == "legalization"
    assert answer["bisection"]["before"]["name"] == "3.2.0"
    assert answer["attribution"]["suspect_passes"]
    flags = [flag for remedy in answer["remedies"] for flag in remedy["flags"]]
    assert "--iree-rocdl-enable-buffer-instructions=false" in flags
    assert answer["left"] == []
