"""Pasted texts: issues as people write them become recipes. They start no program, set
no variable, open no file, and run no Python of their own.
"""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Lab, rows
from tests.conftest import Asked, Triage
from tests.programs import TRIAGE
from triage.compilers.pasted_text import refuse_harmful_flags
from triage.compilers.recipe_start import reported_revisions
from triage.processes import sealing
from triage.recipes.recipe import RecipeStart

NEW = "recipe new mine.yaml --input -"
FIRST = "func.func @first(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n"
PLAIN = "iree-compile m.mlir --iree-hal-target-backends=llvm-cpu --iree-opt-data-tiling=false"
KEPT = ["--iree-opt-data-tiling=false"]
REFUSED, HARMLESS = (
    Path(__file__).with_name(name).read_text().splitlines()
    for name in ("refused_flags.txt", "harmless_flags.txt")
)


def made_from(lab: Lab, text: str) -> tuple[Any, str, list[str]]:
    """Make a valid recipe from a text, and remove it. Return it, its program, and what
    was left out.
    """
    answer = lab.json(NEW, input=text)
    assert lab.json("recipe validate mine.yaml")["problems"] == []
    values = yaml.safe_load((lab.folder / "mine.yaml").read_text())
    program = (lab.folder / values["input"]).read_text()
    for written in lab.folder.glob("mine.*"):
        written.unlink()
    return values, program, answer["left_out"]


def assert_refused(lab: Lab, text: str) -> None:
    lab.refused(NEW, input=text)
    assert not [*lab.folder.glob("mine.*")]


def issue(line: str) -> str:
    return f"```mlir\n{FIRST}```\n```\n{line}\n```\n"


# A sentence, and the versions of the compiler in it; not those of models and of other
# programs.
SENTENCES = """
IREE compiler version 3.3.0 @ abc                    3.3.0
broken somewhere between 3.1.0 and 3.3.0             3.1.0  3.3.0
IREE 3.1.0, 3.2.0 and Python 3.11.2                  3.1.0  3.2.0
| iree-compile | 3.1.0 | 2.6.0 |                     3.1.0
iree-base-compiler==3.4.0rc20250312, iree-base-compiler 3.2.0 is fine  nightly:2025-03-12  3.2.0
It worked in version 3.2.0 and fails since 3.3.0     3.2.0  3.3.0
## Version information\\n\\n3.3.0\\n                  3.3.0
IREE stops when it compiles Llama 3.1 8B
CMake version: version 3.31.4
IREE built with clang 17.0.6
"""


def test_versions_are_those_of_the_compiler() -> None:
    for text, *revisions in rows(SENTENCES):
        text = text.replace("\\n", "\n")
        assert reported_revisions(text, "iree") == revisions, text


KERNEL = """import triton
import triton.language as tl

@triton.jit
def copy(x, n: tl.constexpr):
    tl.store(x, n)
"""
MODEL = """import onnx
import onnxruntime
from onnx import helper

value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
node = helper.make_node("Relu", ["x"], ["y"])
model = helper.make_model(helper.make_graph([node], "relu", [value], [result]))
print(onnxruntime.InferenceSession(model))
"""


@pytest.mark.parametrize("mark", [": ", "\t"])
@pytest.mark.parametrize("program", [FIRST, KERNEL])
def test_a_numbered_listing_is_a_program(lab: Lab, mark: str, program: str) -> None:
    lines = [f"{n:3}{mark}{line}" for n, line in enumerate(program.splitlines(), 7)]
    listing = "\n".join(lines)
    _, made, _ = made_from(lab, f"It fails:\n\n```\n{listing}\n```\n")
    assert made.split() == program.split()


@pytest.mark.real
@pytest.mark.core
def test_python_that_makes_a_model_is_imported_and_compiled(
    shared_home: Path, asked: Asked
) -> None:
    text = f"IREE 3.3.0\n\n```python\n{MODEL}```\n"
    [result] = asked("run", "-", "-t", "3.3.0", input=text)["results"]
    assert result["status"] == "passed"


MANY = 20_000
WIDE = 60_000  # characters of one line
FENCES = "".join("`" * (4 + number % 50) + " text\n" for number in range(MANY))
PIECES = (",", "/", ":a/", ";", "<p ", "%", "func ", "~", '"\\"')
TEXTS = {
    "fences of many lengths": FENCES,
    "functions that end at once": "func.func\ntext\n" * MANY,
    "wide lines": "\n".join(piece * (WIDE // len(piece)) for piece in PIECES),
    "blanks in a call": f"iree-compile a{' ' * WIDE}b --c\n" * 3,
}


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_becomes_a_recipe(lab: Lab, name: str) -> None:
    values, program, _ = made_from(lab, f"{TEXTS[name]}\n{issue(PLAIN)}")
    assert (values["flags"], program) == (KEPT, FIRST)


@pytest.mark.usefixtures("in_time")
def test_a_long_kernel_becomes_a_recipe_or_is_refused(lab: Lab) -> None:
    made_from(lab, f"```python\n{KERNEL}a = {'b + ' * 900}c\n```\n")
    assert_refused(lab, f"```python\n{KERNEL}a = {'-' * MANY}1\n```\n")


def test_flags_that_could_do_harm_are_left_out() -> None:
    """They would start a program, load code, or read or write a file."""
    flags = [*REFUSED, *HARMLESS]
    start = refuse_harmful_flags(RecipeStart("iree", Path("m.mlir"), None, flags))
    assert (list(start.flags), list(start.refused)) == (HARMLESS, REFUSED)


def test_a_text_sets_no_variables(lab: Lab) -> None:
    refused = ["LD_PRELOAD=x.so", "LD_AUDIT=y.so", "LD_DEBUG_OUTPUT=/here", "IREE_X=1"]
    line = f"env {' '.join(refused)} {PLAIN}"
    values, _, left_out = made_from(lab, issue(line))
    assert "env" not in values
    assert (values["flags"], set(left_out)) == (KEPT, set(refused))


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("file", ["private.txt", "/dev/zero", "pipe", "itself"])
def test_a_response_file_of_a_text_is_not_opened(lab: Lab, file: str) -> None:
    lab.write("private.txt", "--private-word")
    lab.write("itself", "@itself")
    os.mkfifo(lab.folder / "pipe")
    values, _, left_out = made_from(lab, issue(f"{PLAIN} @{file}"))
    assert (values["flags"], left_out) == (KEPT, [f"@{file}"])


@pytest.mark.parametrize(
    "word",
    [
        "--iree-hal-target-backends=../x",
        "--iree-hip-target=/x --iree-hal-target-backends=rocm",
    ],
)
def test_a_target_that_is_no_word_is_refused(lab: Lab, word: str) -> None:
    assert_refused(lab, issue(f"iree-compile m.mlir {word}"))


@pytest.mark.real
@pytest.mark.core
def test_no_flag_of_a_text_writes_a_file_or_starts_a_program(
    shared_home: Path, triage: Triage, workplace: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    attacks = " ".join(
        f"'{flag.replace('here', str(mark))}'"
        for flag in REFUSED
        if not flag.startswith(("--iree-hal-target-device", "--iree-made-up"))
    )
    (workplace / "issue.md").write_text(issue(f"{PLAIN} {attacks}"))
    done = triage("run", "issue.md", "-t", "3.3.0")
    assert done.returncode == 0, done.stderr
    assert "passed" in done.stdout
    assert "--iree-load-plugin" in done.stderr
    assert not list(tmp_path.rglob("mark*"))
    assert list(workplace.iterdir()) == [workplace / "issue.md"]


SECRET = "from secret import private\n"
MARKING = """```python
import pathlib
import triton
import triton.language as tl
MORE
@triton.jit(noinline=not open("MARK", "w"))
def copy(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.load(x_ptr + at))
```
```
m.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes
```
"""
RUN = ("run", "issue.md", "-t", "triton:3.2.0")


def write_kernel(folder: Path, more: str = "") -> Path:
    """Write an issue with an error and a kernel that leaves a mark when it is imported,
    and return the mark.
    """
    mark = folder / "mark"
    text = MARKING.replace("MARK", str(mark)).replace("MORE", more)
    (folder / "issue.md").write_text(text)
    return mark


@pytest.mark.real
@pytest.mark.core
@pytest.mark.usefixtures("strictly_sealed")
def test_python_of_a_text_runs_where_it_can_be_sealed(
    installed: Callable[[str], Path], asked: Asked, workplace: Path
) -> None:
    installed("triton:3.2.0")
    mark = write_kernel(workplace)
    [result] = asked(*RUN, code=3)["results"]
    assert result["status"] == "untestable"
    assert str(mark) in result["reason"]
    assert not mark.exists()


@pytest.mark.real
@pytest.mark.core
def test_python_of_a_text_runs_only_when_it_is_allowed(
    installed: Callable[[str], Path],
    triage: Triage,
    asked: Asked,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it cannot be sealed."""
    installed("triton:3.2.0")
    monkeypatch.setattr(sealing, "can_seal", lambda: False)
    mark = write_kernel(workplace, SECRET)
    for words in (RUN, ("reduce", "issue.md", "-t", "3.2.0")):
        refused = triage(*words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "--run-code" in refused.stderr
    why = asked("why", "issue.md", code=3)
    assert "pass --run-code" in why["reason"]
    assert "--run-code" in why["next"][0]
    asked("recipe", "new", "mine.yaml", "--input", "issue.md")
    assert not mark.exists()
    write_kernel(workplace)
    [result] = asked(*RUN, "--run-code")["results"]
    assert result["status"] == "xpass"
    assert mark.exists()


def test_a_kernel_of_a_text_takes_no_file_that_it_imports(lab: Lab) -> None:
    write_kernel(lab.folder, SECRET)
    lab.write("secret.py", "private = 'a private word'\n")
    text = (lab.folder / "issue.md").read_text()
    text = text.replace("    at = ", "    private\n    at = ")
    assert "a private word" not in str(made_from(lab, text))


def test_python_of_a_text_is_shown_and_asked_about_on_a_terminal(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_TEST_UNSEALED", "1")
    mark = write_kernel(lab.folder)
    words = [*TRIAGE, "run", "issue.md", "-t", "triton:path:/nowhere"]
    own, other = pty.openpty()
    with subprocess.Popen(
        words, cwd=lab.folder, stdin=other, stdout=subprocess.PIPE, stderr=other
    ) as process:
        os.close(other)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(own, 4096)
        os.write(own, b"n\n")
        assert process.wait(60) == 2
    os.close(own)
    assert str(mark).encode() in shown
    assert not mark.exists()
