"""Texts and programs as editors, shells and people write them: versions of models,
other encodings, names of packages, and one recipe for each request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.fake_releases import install
from triage.compilers.recipe_start import reported_revisions

PROGRAM = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"
SENTENCES = {
    "IREE compiler version 3.3.0 @ abc": ["3.3.0"],
    "broken somewhere between 3.1.0 and 3.3.0": ["3.1.0", "3.3.0"],
    "IREE 3.1.0 -> 3.2.0": ["3.1.0", "3.2.0"],
    "IREE 3.1.0, 3.2.0 and Python 3.11.2": ["3.1.0", "3.2.0"],
    "| iree-compile | 3.1.0 | 2.6.0 |": ["3.1.0"],
    "iree-base-compiler==3.4.0rc20250312, but iree-base-compiler 3.2.0 is fine": [
        "nightly:2025-03-12",
        "3.2.0",
    ],
    "IREE version: `3.3.0`": ["3.3.0"],
    "| iree-base-compiler | 3.3.0 |": ["3.3.0"],
    "It worked in version 3.2.0 and fails since 3.3.0": ["3.2.0", "3.3.0"],
    "Version: 3.3.0": ["3.3.0"],
    "The compiler is 3.3.0": ["3.3.0"],
    "with the 3.3.0 release": ["3.3.0"],
    "## Version information\n\n3.3.0\n": ["3.3.0"],
    "The iree-compile release is v3.3": ["3.3"],
    # versions of models and of other programs
    "IREE stops when it compiles Llama 3.1 8B": [],
    "IREE does not compile Llama-3.1.1": [],
    "MLIR (from llama-3.2-3B)": [],
    "iree with Qwen 2.5": [],
    "I compile with IREE: Llama 3.2 1B": [],
    "iree, Stable Diffusion 3.5 medium": [],
    "CMake version: version 3.31.4": [],
    "Python version: 3.11.11 (main)": [],
    "Python 3.11.2": [],
    "IREE built with clang 17.0.6": [],
}


@pytest.mark.parametrize("text", SENTENCES)
def test_versions_are_those_of_the_compiler(text: str) -> None:
    assert reported_revisions(text, "iree") == SENTENCES[text]


@pytest.mark.parametrize(
    ("family", "text", "versions"),
    [
        ("triton", "[pip3] triton==3.2.0\n[pip3] torch==2.6.0", ["3.2.0"]),
        ("triton", "Triton kernel of Llama 3.1 8B", []),
        ("triton", "Triton Inference Server 2.5.0", []),
        ("triton", "PyTorch version: 2.6.0+cu124", []),
        ("xla", "jax:    0.4.35\njaxlib: 0.4.34\npython: 3.11.2", ["0.4.35", "0.4.34"]),
        ("xla", "XLA compiles Gemma 2.0 wrong", []),
    ],
)
def test_versions_are_those_of_the_family(
    family: str, text: str, versions: list[str]
) -> None:
    assert sorted(reported_revisions(text, family)) == sorted(versions)


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


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("mark", [": ", "\t"])
@pytest.mark.parametrize("program", [PROGRAM, KERNEL])
def test_a_numbered_listing_is_a_program(
    triage: Triage, tmp_path: Path, mark: str, program: str
) -> None:
    numbered = "".join(
        f"{number:3}{mark}{line}"
        for number, line in enumerate(program.splitlines(keepends=True), 7)
    )
    (tmp_path / "issue.md").write_text(f"It fails:\n\n```\n{numbered}```\n")
    done = triage("recipe", "new", "r.yaml", "--from-text", "issue.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [path] = [path for path in tmp_path.iterdir() if path.suffix in (".mlir", ".py")]
    assert path.read_text().split() == program.split()


@pytest.mark.real
@pytest.mark.core
def test_python_that_makes_a_model_is_imported_and_compiled(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    (tmp_path / "issue.md").write_text(f"IREE 3.3.0\n\n```python\n{MODEL}```\n")
    done = triage("run", "issue.md", "-t", "3.3.0", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)
    [result] = json.loads(done.stdout)["results"]
    assert result["status"] == "passed"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "passes", ["--no-such-pass", '--pass-pipeline="builtin.module(no-such-pass)"']
)
def test_a_call_without_its_passes_is_not_made(
    triage: Triage, tmp_path: Path, passes: str
) -> None:
    text = f"```mlir\n{PROGRAM}```\n```\nmlir-opt --cse {passes} a.mlir\n```\n"
    (tmp_path / "issue.md").write_text(text)
    done = triage("why", "issue.md", "--format", "json", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "no-such-pass" in json.loads(done.stdout)["reason"]


ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16-without-mark": lambda text: text.encode("utf-16-le"),
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["m.mlir", "issue.md", "m.yaml"])
def test_an_encoding_of_another_system_is_read(
    triage: Triage, tmp_path: Path, encoding: str, name: str
) -> None:
    built = f"path:{install(tmp_path / 'built', 5)}"
    program = f"// first-line\n{PROGRAM}"
    path = tmp_path / name
    if name == "issue.md":
        path.write_bytes(ENCODINGS[encoding](f"```mlir\n{program}```\n"))
    else:
        (tmp_path / "m.mlir").write_bytes(ENCODINGS[encoding](program))
    if name == "m.yaml":
        path.write_text("name: m\ninput: m.mlir\ntarget: {backend: llvm-cpu}\n")
    done = triage("run", path, "-t", built, "--format", "json")
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)["results"]
    assert result["status"] == "passed"


@pytest.mark.usefixtures("home")
def test_requests_that_differ_have_recipes_of_their_own(
    triage: Triage, tmp_path: Path
) -> None:
    built = f"path:{install(tmp_path / 'built', 5)}"
    (tmp_path / "add.mlir").write_text(PROGRAM)
    text = f"```mlir\n{PROGRAM}```\n"
    other = text.replace("4xf32", "8xf32")
    requests = [
        (("add.mlir",), ""),
        (("add.mlir", "--backend", "rocm", "--chip", "gfx942"), ""),
        (("add.mlir", "--backend", "rocm", "--chip", "gfx1100"), ""),
        (("add.mlir", "--backend", "llvm-cpu"), ""),
        (("-",), text),
        (("-",), other),
    ]
    written = {}
    for words, stdin in requests:
        done = triage("run", *words, "-t", built, cwd=tmp_path, input=stdin)
        [line] = [one for one in done.stderr.splitlines() if one.startswith("recipe: ")]
        path = Path(line.removeprefix("recipe: "))
        written[path] = path.read_text()
    assert len(written) == len(requests)
    assert all(path.read_text() == text for path, text in written.items())
