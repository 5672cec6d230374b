"""Commands on recipes, programs, command lines and folders, as users call them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import UNKNOWN_DEVICE, Lab, rows
from tests.conftest import ROOT, Triage
from tests.fake_releases import command_recipe, install
from tests.git_history.history import History
from tests.programs import write_program
from triage.cli.app import every_command
from triage.toolchains.home import KeptKind

UV = Path(sys.executable).with_name("uv")
PROGRAM = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"


def test_every_option_has_a_help_text() -> None:
    for words, command in every_command():
        assert all(param.help for param in command.params), words


# What `--case` says, and the cases that it means.
CASES = """
add                  add
ad                   add  add-f16
*-f16                add-f16
m[chip=x,dtype=f8]   m[chip=x,dtype=f8]
dtype=f8, chip=y     m[chip=y,dtype=f8]
"""


def test_a_text_selects_cases_by_name_or_matrix(lab: Lab) -> None:
    for name in ("add", "add-f16", "mul"):
        lab.recipe(name, "fine")
    matrix = "matrix: {chip: [x, y], dtype: [f16, f8]}\nflags: ['--${chip}-${dtype}']"
    lab.recipe("m", "fine", matrix)
    for text, *names in rows(CASES):
        results = lab.json(f"run . -t 1.0.0 --case '{text}'")["results"]
        assert sorted(result["case"] for result in results) == names


def test_a_rev_without_a_prefix_belongs_to_iree_among_several_families(
    lab: Lab,
) -> None:
    install(lab.folder / "built", 5)
    lab.recipe("iree", "fine")
    command_recipe(lab.folder, "own", "fine")
    assert "command@own:latest" in lab("run . -t 1.0.0").stderr
    results = lab.json("run . -t 1.0.0 -t command@own:path:built")["results"]
    ran = {result["case"]: result["toolchain"]["name"] for result in results}
    assert ran == {"iree": "1.0.0", "own": "path:built"}


REFERENCE = (
    'run: {inputs: ["4xf32=1"], function: main, reference: {toolchain: 1.3.0}}\n'
)


@pytest.mark.parametrize(
    "command", ["bisect --good {0} --bad {1}", "nightly -t {1} -b {0}"]
)
@pytest.mark.parametrize("more", ["", REFERENCE])
def test_a_dry_run_installs_and_compiles_nothing(
    lab: Lab, command: str, more: str
) -> None:
    """Also not the toolchain of a reference, without which no key is known."""
    lab.recipe("case", "breaks-2", more)
    lab("toolchains install 1.1.0")
    before = lab.releases.events("start")
    line = command.format("1.1.0", "1.2.0")
    probes = lab.json(f"{line} case.yaml --dry-run")["probes"]
    states = [(row["toolchain"], row["known"], row["installed"]) for row in probes]
    assert sorted(states) == [("1.1.0", None, True), ("1.2.0", None, False)]
    assert len([*(lab.home / "toolchains").glob("[!.]*")]) == 1
    assert lab.releases.events("start") == before


EXPECT = """\
# known
kind=fine:
  - {failure: shared-memory-overflow, issue: "a/b#1"}  # fixed soon
"""
UPDATED = """\
# Known failures. `triage expect update` writes this file.
"kind=fine":
  - {failure: shared-memory-overflow, until: "1.3.0", issue: "a/b#1"}
"kind=breaks-0":
  - {failure: shared-memory-overflow, since: "1.3.0"}
"""


def test_the_expectations_of_each_case_become_what_was_seen(lab: Lab) -> None:
    lab.write("make.py", "import sys\nprint('//', *sys.argv)\n")
    recipe = "name: own\ninput: make.py\ntarget: {backend: llvm-cpu}\n"
    recipe += "matrix: {kind: [fine, breaks-0]}\nargs: {kind: '${kind}'}\n"
    listed = lab.write("expect.yaml", EXPECT)
    path = lab.write("own.yaml", f"{recipe}expect: expect.yaml  # ours\n")
    [file] = lab.json("expect update own.yaml -t 1.3.0")["files"]
    assert listed.read_text() == UPDATED
    changes = {change["case"]: change["after"] for change in file["changes"]}
    assert changes == {
        "own[kind=fine]": "shared-memory-overflow until 1.3.0",
        "own[kind=breaks-0]": "shared-memory-overflow",
    }
    # a list in a recipe is printed and never written
    path.write_text(recipe)
    [file] = lab.json("expect update own.yaml -t 1.3.0")["files"]
    assert UPDATED.partition("\n")[2].partition('"kind=b')[2] in file["paste"]
    assert path.read_text() == recipe


def test_lint_finds_an_undeclared_device_with_its_line_and_the_flags(lab: Lab) -> None:
    lab.write("seven.mlir", UNKNOWN_DEVICE.replace("@missing", "@__device_7"))
    flags = [f"--iree-hal-target-device=hip[{number}]" for number in range(8)]
    for count in (7, 8):
        lab.write(
            f"{count}.yaml",
            f"name: n{count}\ninput: seven.mlir\ntarget: {{backend: rocm}}\n"
            f"flags: {json.dumps(flags[:count])}\n",
        )
    answer = lab.json("lint 7.yaml", 1)
    [error] = [each for each in answer["findings"] if each["severity"] == "error"]
    assert (error["rule"], error["location"]) == ("undeclared-device", "seven.mlir:2:8")
    assert f"`{flags[7]}`" in error["message"]
    assert answer["suggested_flags"] == flags
    declared = [bool(device["declared"]) for device in answer["devices"]]
    assert sorted(declared) == [False, *[True] * 7]
    enough = lab.json("lint 8.yaml")
    assert enough["suggested_flags"] == []
    assert "undeclared-device" not in [each["rule"] for each in enough["findings"]]


CHAIN = "".join(
    f"  %{number} = arith.mulf %{number - 1}, %{number - 1} : tensor<4xf32>\n"
    for number in range(2, 12)
)


def test_a_reduced_program_reproduces_the_failure(lab: Lab) -> None:
    program = UNKNOWN_DEVICE.replace("  return %1", f"{CHAIN}  return %11")
    lab.write("device.mlir", program)
    answer = lab.json("reduce device.mlir --backend llvm-cpu -t installed")
    assert answer["status"] == "reduced"
    assert answer["signature"] == "undeclared-device:missing"
    assert answer["operations"]["before"] > 10 > answer["operations"]["after"]
    assert answer["bytes"]["after"] < answer["bytes"]["before"]
    folder = lab.folder / answer["reproducer"]
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert texts["input.mlir"] == answer["program"]
    kept = json.loads(texts["reproducer.json"])
    assert (kept["signature"], kept["case"]) == (answer["signature"], "device")
    for private in (str(lab.folder.parent), str(Path.home())):
        assert private not in "".join(texts.values())
    lab(f"recipe validate {folder}/recipe.yaml")
    [replayed] = lab.json("replay reproducers -t installed")["reproducers"]
    assert replayed["status"] == "reproduces"


@pytest.mark.parametrize("command", ["reduce", "nightly --reduce"])
def test_a_folder_that_is_no_reproducer_is_never_touched(
    lab: Lab, command: str
) -> None:
    lab.recipe("device", "breaks-0")
    for name in ("out/device/notes", "out/reproducers/device/notes"):
        lab.write(name, "keep")
    message = lab.refused(f"{command} device.yaml -t 1.0.0 --out out")
    assert "is not a reproducer" in message
    assert len([*lab.folder.glob("out/**/*")]) == 5


# It fails on the recipe's own file, and is killed from outside on every other one, as
# by a system without memory.
KILLED = """#!/bin/sh
case "$1" in
--version) echo 'version 1.0.0'; exit;;
*/case.txt) echo "case.txt:1:1: error: 'a.b' op failed to verify" >&2; exit 1;;
esac
kill -9 $$
"""


def test_a_reduction_that_the_machine_stops_is_no_answer(lab: Lab) -> None:
    write_program(lab.folder / "built" / "tools" / "iree-compile", KILLED)
    command_recipe(lab.folder, "case", "one\ntwo\nthree")
    answer = lab.json("reduce case.yaml -t path:built", 4)
    assert "killed from outside" in answer["reason"]


def test_a_command_line_is_compiled(lab: Lab, triage_process: Triage) -> None:
    install(lab.folder / "built", 5)
    lab.write("model.mlir", "// breaks-3\n")
    flags = ["--iree-hal-target-backends=llvm-cpu", *["--iree-opt-level=O2"] * 20]
    tool = "/opt/iree-3.1/bin/iree-compile"
    command = [tool, "model.mlir", *flags, "-o", "out.vmfb"]
    for words, line in (
        ("run", "model  failed  shared-memory-overflow"),
        ("why --budget 1s", "model for llvm-cpu: fails on path:built"),
    ):
        done = triage_process(*words.split(), "-t", "path:built", "--", *command)
        assert done.returncode == 1, done.stderr
        assert line in done.stdout


def test_commits_are_ranked_for_a_command_line(lab: Lab) -> None:
    history = History.begin(lab.folder / "clone")
    history.commit("first", {"a.cpp": "1"})
    history.commit("second", {"a.cpp": "2"})
    lab.write("model.mlir", PROGRAM)
    words = "suspects --repo clone --good HEAD~1 --bad HEAD -f json"
    command = "iree-compile model.mlir --iree-hal-target-backends=llvm-cpu"
    [suspect] = json.loads(lab(f"{words} -- {command}").stdout)["suspects"]
    assert suspect["subject"] == "second"


def test_a_command_line_may_name_a_file_with_spaces(lab: Lab) -> None:
    lab.write("my model.mlir", PROGRAM)
    lab("recipe new mine.yaml --backend llvm-cpu -- iree-compile 'my model.mlir'")
    assert "input: my model.mlir\n" in (lab.folder / "mine.yaml").read_text()


def test_requests_that_differ_have_recipes_of_their_own(lab: Lab) -> None:
    lab.write("add.mlir", PROGRAM)
    text = f"```mlir\n{PROGRAM}```\n"
    requests = (
        ("add.mlir", ""),
        ("add.mlir --backend rocm --chip gfx942", ""),
        ("add.mlir --backend rocm --chip gfx1100", ""),
        ("-", text),
        ("-", text.replace("4xf32", "8xf32")),
    )
    written = set()
    for words, stdin in requests:
        errors = lab(f"run {words} -t 1.0.0", input=stdin).stderr
        written |= set(re.findall("^recipe: (.+)", errors, re.MULTILINE))
    assert len(written) == 5
    assert lab("-q run add.mlir -t 1.0.0").stderr == ""


def test_the_written_folder_validates_and_is_never_overwritten(lab: Lab) -> None:
    lab("init mine")
    names = {path.name for path in (ROOT / "recipes").glob("*.yaml")}
    assert {path.name for path in lab.folder.glob("mine/*.yaml")} == names
    assert lab.json("recipe validate mine")["problems"] == []
    assert not list(lab.folder.rglob("__pycache__"))
    own = lab.write("mine/cuda-matmul-f32.yaml", "mine")
    lab.refused("init mine")
    assert own.read_text() == "mine"


@pytest.mark.slow
def test_an_installed_wheel_brings_the_examples(home: Path, tmp_path: Path) -> None:
    def run(*words: object) -> None:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    run(UV, "build", "--wheel", "--out-dir", tmp_path, ROOT)
    run(UV, "venv", "environment", "--python", sys.executable)
    run(UV, "pip", "install", "--python", "environment", *tmp_path.glob("*.whl"))
    run("environment/bin/triage", "init", "recipes")
    run("environment/bin/triage", "recipe", "validate", "recipes")


@pytest.mark.parametrize("nothing", ["0", "0.0GiB"])
def test_pruning_removes_the_least_recently_used_until_the_rest_fits(
    lab: Lab, nothing: str
) -> None:
    paths = []
    for age, kind in enumerate(map(str, KeptKind)):
        name = "folder/best.mlir" if kind == "reductions" else "a.mlir"
        file = lab.write(f"{lab.home}/{kind}/{name}", "x" * (1 << 20))
        paths.append(file)
        then = time.time() - age * 86400
        for changed in (file, file.parent):
            os.utime(changed, (then, then))
    pruned = lab.json("toolchains prune --keep 3MB")
    assert [path for path in paths if path.exists()] == paths[:2]
    assert len(pruned["removed"]) == len(paths) - 2
    assert pruned["bytes_left"] < 3_000_000
    lab(f"toolchains prune --keep {nothing}")
    assert not any(path.exists() for path in paths)
