"""What the draft of an issue shows: one number, and always a program and the command
that shows the failure.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage
from tests.nights.documents import FAILURES, case_result, night
from tests.programs import write_program
from triage.investigate.result import StepResult
from triage.reduce.result import IssueDraft
from triage.report.issue import issue_markdown

LINES = "".join(f"keep {number}\n" for number in range(12))
RECIPE = """name: sized
compiler: command
input: program.txt
command: ["{toolchain}/compile", "{input}"]
"""
BAD = """#!/bin/sh
grep -q keep "$1" || exit 0
echo "$1:1:1: error: the program needs $(wc -c < "$1") bytes" >&2
exit 1
"""


@pytest.fixture
def words(tmp_path: Path, shared_home: Path) -> list[object]:
    """A night in which a program fails; the message has the size of the program."""
    write_program(tmp_path / "good" / "compile", "#!/bin/sh\nexit 0\n")
    write_program(tmp_path / "bad" / "compile", BAD)
    (tmp_path / "program.txt").write_text(LINES)
    recipe = tmp_path / "sized.yaml"
    recipe.write_text(RECIPE)
    toolchains = ["-t", f"path:{tmp_path / 'bad'}", "-b", f"path:{tmp_path / 'good'}"]
    return [recipe, *toolchains, "--investigate"]


def draft_of(triage: Triage, out: Path, *words: object) -> tuple[dict[str, Any], str]:
    """Return the only cluster of a night, and its draft."""
    done = triage("nightly", *words, "--out", out)
    assert done.returncode == 1, done.stderr
    [cluster] = json.loads((out / "nightly.json").read_text())["clusters"]
    return cluster, (out / cluster["issue"]).read_text()


def test_a_draft_has_a_program_and_a_command_though_nothing_was_reduced(
    triage: Triage, tmp_path: Path, words: list[object]
) -> None:
    cluster, draft = draft_of(triage, tmp_path, *words, "--budget", "0.001s")
    reduced = cluster["steps"][-1]
    assert (reduced["step"], reduced["status"]) == ("reduce", "left")
    assert cluster["draft"]["files"] == {"input.txt": LINES}
    for text in (LINES, "/compile' input.txt", f"needs {len(LINES)} bytes"):
        assert text in draft


def test_a_draft_is_the_text_of_the_reproducer_with_the_number_of_the_original(
    triage: Triage, tmp_path: Path, words: list[object]
) -> None:
    cluster, draft = draft_of(triage, tmp_path, *words)
    [small] = cluster["draft"]["files"].values()
    assert len(small) < len(LINES)
    _, happened, steps, *others = re.split(r"^### ", draft, flags=re.MULTILINE)
    original, reduced = (f"needs {len(text)} bytes" for text in (LINES, small))
    assert original in happened
    assert reduced not in "".join([happened, *others])
    assert reduced in steps
    assert original not in steps
    readme = (tmp_path / cluster["reproducer"] / "README.md").read_text()
    headings = [re.findall(r"^### .*", text, re.MULTILINE) for text in (draft, readme)]
    assert headings[0] == headings[1]
    assert steps[steps.index("`input.txt`") :] in readme


def test_what_is_too_long_or_binary_is_named_and_what_is_long_is_folded() -> None:
    record = night(1, {}, cases=[case_result("a", "F")])
    line = "module {}\n"
    files = {"weights.bin": None, "short.mlir": line, "long.mlir": line * 200}
    draft = IssueDraft(files, "compile short.mlir", headline=FAILURES["F"].headline)
    [cluster] = record.clusters
    whole = replace(cluster, draft=draft, steps=[StepResult("reduce", "left")])
    text = issue_markdown(whole, record)
    assert "`weights.bin`" in text
    assert "<summary>long.mlir, 200 lines</summary>" in text
    assert text.index("short.mlir") < text.index("<details>")


@pytest.mark.real
@pytest.mark.slow
def test_a_draft_shows_the_operation_that_its_error_is_about(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    """Also where releases print another syntax: those before 3.4.0 one of attention that
    newer ones do not read.
    """
    recipe = ROOT / "recipes" / "llama-attention-aggressive-fusion.yaml"
    words = [recipe, "-t", "3.3.0", "-b", "3.2.0", "--reduce"]
    cluster, _ = draft_of(triage, tmp_path, *words)
    program = cluster["draft"]["files"]["input.mlir"]
    place = re.search(r"input\.mlir:(\d+):(\d+): error", cluster["draft"]["error"])
    assert place
    line, column = map(int, place.groups())
    message = program.splitlines()[line - 1][column - 1 :]
    assert message.strip('"').startswith("iree_linalg_ext.attention")
    assert (tmp_path / cluster["reproducer"] / "input.mlir").is_file()
