"""The folder of a reproducer; golden/ holds the expected files."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.programs import write_program
from tests.recipes.loading import load_recipes
from tests.reduce.made import CASE, probes, reproducer
from triage.model.case import Case, Expectation, Flag, Target
from triage.model.outcome import Failed
from triage.reduce.reproducer import expectations, slug, without_paths
from triage.report.reproducer import reproducer_files, write_reproducer

GOLDEN = Path(__file__).parent / "golden" / "attention-dtype-f16"


def test_the_folder_matches_the_golden_files(tmp_path: Path) -> None:
    """`python -m tests.reduce.test_reproducer_folder` updates the golden files after a
    deliberate change.
    """
    made = write_reproducer(reproducer(), tmp_path)
    assert made == tmp_path / "attention-dtype-f16"
    assert sorted(one.name for one in made.iterdir()) == sorted(
        one.name for one in GOLDEN.iterdir()
    )
    for one in GOLDEN.iterdir():
        assert (made / one.name).read_text() == one.read_text(), one.name
    assert os.access(made / "repro.sh", os.X_OK)


@pytest.mark.parametrize(
    "case",
    [
        CASE,
        replace(
            CASE,
            summary='quotes " and \\ # and: colons\tand ümlauts',
            flags=(Flag('--x={a: "b", c: #d}'),),
        ),
        replace(CASE, name="x" * 100, target=Target("cuda", "90", devices=8)),
    ],
    ids=["matrix", "awkward", "long"],
)
def test_the_recipe_reads_back_as_the_reduced_case(tmp_path: Path, case: Case) -> None:
    made = reproducer(case=case)
    written = write_reproducer(made, tmp_path)
    [read] = load_recipes([written])
    assert read.name == f"{slug(case)}-reduced"
    assert (read.target, read.flags, read.phase, read.limits) == (
        case.target,
        case.flags,
        case.phase,
        case.limits,
    )
    assert read.input.path == written / "input.mlir"
    assert read.expect == (
        Expectation("shared-memory-overflow", since="3.2.0", until="3.4.0"),
        Expectation("verifier", since="3.5.0"),
    )


@pytest.mark.parametrize(("code", "body"), [(0, "exit 0"), (1, "kill -SEGV $$")])
def test_the_script_ends_with_1_where_the_compiler_fails(
    tmp_path: Path, code: int, body: str
) -> None:
    compiler = write_program(
        tmp_path / "iree-compile",
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\n{body}\n',
    )
    script = write_reproducer(reproducer(), tmp_path) / "repro.sh"
    path = f"{tmp_path}:{os.environ['PATH']}"
    for changed, status in (
        ({"PATH": path}, code),
        ({"IREE_COMPILE": str(compiler)}, code),
        ({"IREE_COMPILE": "/none"}, 127),
    ):
        env = os.environ | changed
        done = subprocess.run([script], env=env, cwd="/", capture_output=True)
        assert done.returncode == status
    words = (tmp_path / "words").read_text().splitlines()
    options = reproducer().compile.options
    assert words == [*options, "input.mlir", "-o", "/dev/null"]


def test_an_issue_contains_compiler_text_only_as_text() -> None:
    attack = "@main</details> ![x](http://host/x) see #12 ````\n### What happened?"
    made = reproducer()
    failed = Failed(replace(made.failure, headline=attack))
    probe = replace(made.bad, outcome=failed)
    reduction = replace(
        made.reduction,
        probes=(*made.reduction.probes[:2], probe),
        failure=failed.failure,
        program=f"// {attack}",
    )
    made = replace(made, output=attack, reduction=reduction, bad=probe)
    issue = str(reproducer_files(made)["README.md"])
    fenced = re.compile(r"^(`{5,})\w*\n.*?^\1$", re.DOTALL | re.MULTILINE)
    assert len(fenced.findall(issue)) == 2
    outside = fenced.sub("", issue).replace("&#8203;", "|")
    outside = re.sub(r"^</details>$|</summary>", "", outside, flags=re.MULTILINE)
    assert not re.search(r"@main|(?<!\\)</|(?<!\\)!?\[x\]|#12", outside)


KEPT = "see https://iree.dev/reference/a, and 1/2/3 or a/b/c, (d0) -> (d0 / 2)"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (
            "PROGRAM:2:3: error: x\n see PROGRAM",
            "input.mlir:2:3: error: x\n see input.mlir",
        ),
        (
            "/other/my files/same.mlir:2:3: error: x\n  y\n/a/b.mlir:1:1: note: z",
            "input.mlir:2:3: error: x\n  y\ninput.mlir:1:1: note: z",
        ),
        ("/other/same.mlir:2:3", "input.mlir:2:3"),
        (
            "0. Arguments: /opt/iree/bin/iree-compile --x=/opt/x.bin /o/i.mlir -o /h/77-x/out",
            "0. Arguments: iree-compile --x=x.bin i.mlir -o out",
        ),
        (
            "#1 0x7f (/opt/lib/libIREE.so+0x12) /dev/null",
            "#1 0x7f (libIREE.so+0x12) /dev/null",
        ),
        (KEPT, KEPT),
    ],
)
def test_paths_of_the_machine_become_names(
    tmp_path: Path, text: str, cleaned: str
) -> None:
    program = tmp_path / "a home" / "reductions" / "reduced-34.mlir"
    clean = without_paths({program: "input.mlir"}, "input.mlir")
    assert clean(text.replace("PROGRAM", str(program))) == cleaned


@pytest.mark.parametrize(
    ("letters", "windows"),
    [
        ("PFGP", [("F", "3.1.0", "3.2.0"), ("G", "3.2.0", "3.3.0")]),
        ("PFPF", [("F", "3.1.0", "3.2.0"), ("F", "3.3.0", None)]),
        ("UFUFUP", [("F", "3.1.0", "3.5.0")]),
        ("PU", []),
        ("", []),
    ],
)
def test_expectations_cover_the_failing_versions(
    letters: str, windows: list[tuple[str, str, str | None]]
) -> None:
    classes = {"F": "shared-memory-overflow", "G": "verifier"}
    assert expectations(probes(letters)) == tuple(
        Expectation(classes[one], since, until) for one, since, until in windows
    )


if __name__ == "__main__":
    write_reproducer(reproducer(), GOLDEN.parent)
