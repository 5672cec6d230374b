"""`triage recipe new --from-text`: a program and a command line from an issue, a log or a gist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Triage
from triage.compilers.iree.pasted_text import read_text

FIRST = "func.func @first(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n"
SECOND = FIRST.replace("first", "second")
WHOLE = f"#map = affine_map<(d0) -> (d0)>\nmodule {{\n  {FIRST.rstrip()}\n}}\n"
COMMAND = "iree-compile a.mlir \\\n    --iree-hal-target-backends=llvm-cpu \\\n    -o a.vmfb"
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
TRACEBACK = f"""CompilerToolError: Error invoking the compiler
Invoked with:
 iree-compile /usr/lib/iree/compiler/tools/../_mlir_libs/iree-compile - --iree-hal-target-backends=vmvx --mlir-print-debuginfo

The program is
{WHOLE}
and that is all.
"""
SCRIPT = f"""```bash
cat > a.mlir <<EOF
{FIRST}EOF
iree-compile --iree-hal-target-backends=vmvx a.mlir -o /dev/null
```
"""
GIST = f"// RUN: iree-compile --iree-hal-target-backends=vmvx %s | FileCheck %s\n{FIRST}\n{SECOND}"
QUOTED = "".join(f"> {line}\n" for line in ISSUE.splitlines())
TWO = f"""<details><summary>first</summary>

```
{FIRST}```
</details>

~~~mlir
{SECOND}~~~

Run `iree-compile --iree-hal-target-backends=vmvx a.mlir` or `iree-compile --iree-hal-target-backends=llvm-cpu a.mlir`.
"""
DUMP = f"```mlir\n// -----// IR Dump After Canonicalizer //----- //\n{FIRST}```\n```mlir\n{SECOND}```\n"


@pytest.mark.parametrize(
    ("text", "programs", "commands"),
    [
        (ISSUE, [WHOLE], ["llvm-cpu"]),
        (QUOTED, [WHOLE], ["llvm-cpu"]),
        (ISSUE.replace("\n", "\r\n"), [WHOLE], ["llvm-cpu"]),
        (TRACEBACK, [WHOLE], ["vmvx"]),
        (SCRIPT, [FIRST], ["vmvx"]),
        (GIST, [f"{FIRST}\n{SECOND}"], ["vmvx"]),
        (WHOLE, [WHOLE], []),
        (TWO, [FIRST, SECOND], ["vmvx", "llvm-cpu"]),
        (DUMP, [SECOND], []),
        (ISSUE + ISSUE, [WHOLE], ["llvm-cpu"]),
        ("nothing of use: `iree-compile` fails", [], []),
    ],
)
def test_programs_and_command_lines_are_found(text: str, programs: list[str], commands: list[str]) -> None:
    pasted = read_text(text)
    assert [program.text for program in pasted.programs] == programs
    assert [command.text.partition("backends=")[2].split()[0] for command in pasted.commands] == commands
    assert all(command.text.startswith("iree-compile ") for command in pasted.commands)


def test_lines_that_run_the_module_are_found() -> None:
    assert read_text(ISSUE).runs == ("iree-run-module --module=a.vmfb --input=8xf32=1",)


def test_an_issue_becomes_a_recipe(home: Path, triage: Triage, tmp_path: Path) -> None:
    (tmp_path / "issue.md").write_text(ISSUE)
    recipe = tmp_path / "mine.yaml"
    done = triage("recipe", "new", recipe, "--from-text", tmp_path / "issue.md", "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["left_out"], answer["input"]) == (["-o a.vmfb"], str(tmp_path / "mine.mlir"))
    assert "iree-run-module" in answer["notes"][0]
    assert (tmp_path / "mine.mlir").read_text() == WHOLE
    assert "# The text also runs: iree-run-module" in recipe.read_text()
    assert triage("recipe", "validate", recipe).returncode == 0


def test_an_ambiguous_text_is_refused_with_the_choices(home: Path, triage: Triage, tmp_path: Path) -> None:
    words = ["recipe", "new", tmp_path / "mine.yaml", "--from-text", "-"]
    done = triage(*words, input=TWO)
    assert done.returncode == 2
    assert "--block" in done.stderr
    assert "line 4" in done.stderr
    done = triage(*words, "--block", "2", input=TWO)
    assert done.returncode == 2
    assert "--line" in done.stderr
    assert triage(*words, "--block", "3", "--line", "1", input=TWO).returncode == 2
    assert not (tmp_path / "mine.yaml").exists()
    assert triage(*words, "--block", "2", "--line", "1", input=TWO).returncode == 0
    assert (tmp_path / "mine.mlir").read_text() == SECOND
    assert "backend: vmvx" in (tmp_path / "mine.yaml").read_text()


def test_a_text_without_a_command_line_needs_a_backend(home: Path, triage: Triage, tmp_path: Path) -> None:
    words = ["recipe", "new", tmp_path / "mine.yaml", "--from-text", "-"]
    done = triage(*words, input=WHOLE)
    assert done.returncode == 2
    assert "--backend" in done.stderr
    assert triage(*words, "--backend", "vmvx", input=WHOLE).returncode == 0
