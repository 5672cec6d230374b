"""Programs, command lines and pasted texts in the place of a recipe."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, Triage
from tests.fake_releases import install

UV = Path(sys.executable).with_name("uv")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "model.mlir"
    path.write_text("// breaks-3\n")
    return path


@pytest.fixture
def built(tmp_path: Path) -> str:
    return f"path:{install(tmp_path / 'built', 5)}"


def case_of(triage: Triage, *words: object, **options: object) -> str:
    done = triage("run", "--format", "json", *words, **options)
    assert done.returncode == 1, done.stderr
    [result] = json.loads(done.stdout)["results"]
    assert result["failure"]["class"] == "shared-memory-overflow"
    return str(result["case"])


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("mödel 日本 (1).mlir", "model-1"),
        ("日本.mlir", "program"),
    ],
)
def test_a_recipe_is_named_after_its_file_in_any_script(
    triage: Triage, home: Path, tmp_path: Path, built: str, file: str, name: str
) -> None:
    (tmp_path / file).write_text("// breaks-3\n")
    assert case_of(triage, tmp_path / file, "-t", built) == name
    written = tmp_path / "made.yaml"
    done = triage(
        "recipe", "new", written, "--input", tmp_path / file, "--backend", "llvm-cpu"
    )
    assert done.returncode == 0, done.stderr
    assert triage("recipe", "validate", written).returncode == 0


def test_a_pasted_issue_is_compiled(
    triage: Triage, home: Path, tmp_path: Path, built: str
) -> None:
    program = "```mlir\nfunc.func @breaks() { // breaks-3\n  return\n}\n```\n"
    text = f"{program}\n```\niree-compile a.mlir --iree-hal-target-backends=llvm-cpu\n```\n"
    (tmp_path / "issue.md").write_text(text)
    assert case_of(triage, tmp_path / "issue.md", "-t", built) == "issue"
    assert case_of(triage, "-", "-t", built, input=text) == "stdin"


@pytest.mark.usefixtures("home")
def test_a_command_line_is_compiled(
    program: Path, built: str, triage_process: Triage
) -> None:
    line = (
        "iree-compile",
        program,
        "--iree-hal-target-backends=llvm-cpu",
        "-o",
        "out.vmfb",
    )
    assert case_of(triage_process, "-t", built, "--", *line) == "model"


def test_the_written_folder_validates_and_is_never_overwritten(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    folder = tmp_path / "recipes"
    done = triage("init", folder)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (ROOT / "recipes").glob("*.yaml")}
    assert {path.name for path in folder.glob("*.yaml")} == names
    checked = json.loads(
        triage("recipe", "validate", folder, "--format", "json").stdout
    )
    assert checked["problems"] == []
    assert not list(folder.rglob("__pycache__"))
    (folder / "cuda-matmul-f32.yaml").write_text("mine")
    again = triage("init", folder)
    assert (again.returncode, again.stdout) == (2, "")
    assert (folder / "cuda-matmul-f32.yaml").read_text() == "mine"


@pytest.mark.slow
def test_an_installed_wheel_brings_the_examples(home: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"

    def run(*words: object) -> None:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    run(UV, "build", "--wheel", "--out-dir", tmp_path, ROOT)
    run(UV, "venv", environment, "--python", sys.executable)
    run(UV, "pip", "install", "--python", python, *tmp_path.glob("*.whl"))
    run(environment / "bin" / "triage", "init", "recipes")
    run(environment / "bin" / "triage", "recipe", "validate", "recipes")


FIRST = "func.func @first(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n"
WHOLE = f"#map = affine_map<(d0) -> (d0)>\nmodule {{\n  {FIRST.rstrip()}\n}}\n"
COMMAND = (
    "iree-compile \\\n    --iree-hal-target-backends=llvm-cpu a.mlir \\\n    -o a.vmfb"
)
ISSUE = f"""It's broken since last week:

```
error: something went wrong
```

Save this as `a.mlir`:

```mlir
{WHOLE}```

```shell
$ {COMMAND}
$ iree-run-module --module=a.vmfb --input=8xf32=1
```
"""


def test_an_issue_becomes_a_recipe(home: Path, triage: Triage, tmp_path: Path) -> None:
    (tmp_path / "issue.md").write_text(ISSUE)
    recipe = tmp_path / "mine.yaml"
    done = triage(
        "recipe",
        "new",
        recipe,
        "--from-text",
        tmp_path / "issue.md",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["left_out"], answer["input"]) == (
        ["-o a.vmfb"],
        str(tmp_path / "mine.mlir"),
    )
    assert (tmp_path / "mine.mlir").read_text() == WHOLE
    assert triage("recipe", "validate", recipe).returncode == 0


CUT_START = "  %0 = arith.addf %a, %b : f32\n  func.return %0 : f32\n}\n"
CUT_END = WHOLE.rstrip().rstrip("}")


@pytest.mark.parametrize(
    ("program", "fence"), [(CUT_START, "```mlir\n{}```\n"), (CUT_END, "{}")]
)
def test_a_program_that_was_cut_is_refused(
    home: Path, triage: Triage, tmp_path: Path, program: str, fence: str
) -> None:
    words = ["recipe", "new", tmp_path / "mine.yaml", "--from-text", "-"]
    assert triage(*words, input=f"{fence.format(program)}\n{COMMAND}\n").returncode == 2
    assert not [*tmp_path.glob("mine.*")]


LLVM = "define i32 @f(i32 %a) {\n  ret i32 %a ; ok }\n}\n"


@pytest.mark.parametrize(
    ("program", "line", "flags"),
    [
        (LLVM, "llc -O2 -mtriple=x86_64 a.ll -o -", ["-O2", "-mtriple=x86_64"]),
        (LLVM, "`opt-19 -passes=instcombine -S < a.ll`", ["-passes=instcombine", "-S"]),
        (WHOLE, "$ mlir-opt --cse a.mlir | FileCheck a.mlir", ["--cse"]),
        (WHOLE, "// RUN: circt-opt %s --cse", ["--cse"]),
    ],
)
def test_a_tool_of_llvm_becomes_a_recipe_with_a_command(
    home: Path,
    triage: Triage,
    tmp_path: Path,
    program: str,
    line: str,
    flags: list[str],
) -> None:
    recipe = tmp_path / "mine.yaml"
    done = triage(
        "recipe",
        "new",
        recipe,
        "--from-text",
        "-",
        input=f"```\n{program}```\n{line}\n",
    )
    assert done.returncode == 0, done.stderr
    values = yaml.safe_load(recipe.read_text())
    assert values["flags"] == flags
    assert (tmp_path / values["input"]).read_text() == program
    assert triage("recipe", "validate", recipe).returncode == 0


def test_a_refused_recipe_leaves_no_file(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    words = ["recipe", "new", tmp_path / "mine.yaml", "--from-text", "-"]
    done = triage(*words, "--backend", "unknown", input=ISSUE)
    assert (done.returncode, done.stdout) == (2, "")
    assert not [*tmp_path.glob("mine.*")]
