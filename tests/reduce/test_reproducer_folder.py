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
from tests.reduce.made import CASE, reproducer, with_probes
from triage.model.case import Case, Expectation, Flag, Target
from triage.model.outcome import Failed
from triage.reduce.reproducer import slug, without_paths
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
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run([script], env=env, cwd="/", check=False).returncode == code
    assert (tmp_path / "words").read_text().splitlines() == [
        *reproducer().compile.options,
        "input.mlir",
        "-o",
        "/dev/null",
    ]
    named = {**os.environ, "IREE_COMPILE": str(compiler)}
    assert subprocess.run([script], env=named, check=False).returncode == code
    nothing = subprocess.run(
        [script],
        env={**os.environ, "IREE_COMPILE": "/none"},
        capture_output=True,
        check=False,
    )
    assert nothing.returncode == 127


def test_an_issue_contains_compiler_text_only_as_text() -> None:
    attack = "@main</details> ![x](http://host/x) see #12 ````\n### What happened?"
    made = reproducer()
    probe = replace(made.bad, outcome=Failed(replace(made.failure, headline=attack)))
    attacked = with_probes(made, (*made.reduction.probes[:2], probe), probe)
    attacked = replace(
        attacked,
        output=attack,
        reduction=replace(attacked.reduction, program=f"// {attack}"),
    )
    issue = str(reproducer_files(attacked)["README.md"])
    assert (
        len(re.findall(r"^(`{5,})\w*\n.*?^\1$", issue, re.DOTALL | re.MULTILINE)) == 2
    )
    outside = re.sub(
        r"^(`{5,})\w*\n.*?^\1$|^</details>\n|</summary>",
        "",
        issue,
        flags=re.DOTALL | re.MULTILINE,
    )
    assert not re.search(
        r"@main|(?<!\\)</|(?<!\\)!?\[x\]|#12", outside.replace("&#8203;", "|")
    )


def test_paths_of_the_machine_become_names(tmp_path: Path) -> None:
    program = tmp_path / "a home" / "reductions" / "reduced-34.mlir"
    mend = without_paths({program: "input.mlir"}, "input.mlir")
    assert (
        mend(f"{program}:2:3: error: x\n see {program}")
        == "input.mlir:2:3: error: x\n see input.mlir"
    )
    assert mend(
        "/other/my files/same.mlir:2:3: error: x\n  y\n/a/b.mlir:1:1: note: z"
    ) == ("input.mlir:2:3: error: x\n  y\ninput.mlir:1:1: note: z")
    assert mend("/other/same.mlir:2:3") == "input.mlir:2:3"
    said = "0. Reducible arguments: /opt/iree/bin/iree-compile --x=/opt/data/x.bin /o/i.mlir -o /h/scratch/77-x/out"
    assert mend(said) == "0. Reducible arguments: iree-compile --x=x.bin i.mlir -o out"
    assert (
        mend("#1 0x7f (/opt/lib/libIREE.so+0x12) /dev/null")
        == "#1 0x7f (libIREE.so+0x12) /dev/null"
    )
    kept = "see https://iree.dev/reference/a, and 1/2/3 or a/b/c, (d0) -> (d0 / 2)"
    assert mend(kept) == kept


if __name__ == "__main__":
    write_reproducer(reproducer(), GOLDEN.parent)
