"""A pasted text starts no program, sets no variable, opens no file and runs no Python
of its own.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import FromText
from tests.cli.test_cli import TRIAGE
from tests.conftest import Asked, Triage
from triage.compilers.pasted_text import keep_harmless
from triage.compilers.registry import recipe_starters
from triage.processes import sealing
from triage.recipes.recipe import RecipeStart

PROGRAM = "func.func @first(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n"
PLAIN = "iree-compile m.mlir --iree-hal-target-backends=llvm-cpu --iree-opt-data-tiling=false"
KEPT = ["--iree-opt-data-tiling=false"]
NAMES = frozenset[str]().union(
    *(starter.flags_allowed_in_texts for starter in recipe_starters().values())
)

# Each would start a program, load code, or read or write a file.
REFUSED = [
    "--iree-hal-preprocess-executables-with=touch here",
    "--iree-hal-preprocess-executables-with=touch",
    "--iree-load-plugin=plugin.so",
    "--iree-plugin=x",
    "--iree-flow-dump-dispatch-graph",
    "--iree-flow-dump-dispatch-graph-output-file=here",
    "--iree-hal-executable-object-search-path=here",
    "--iree-hal-substitute-executable-objects-from=here",
    "--iree-opt-splat-parameters=here.irpa",
    "--iree-opt-export-parameters=here.irpa",
    "--iree-opt-import-parameters=here.irpa",
    "--iree-parameter-splat=here.irpa",
    "--iree-vm-bytecode-source-listing=here",
    "--iree-llvmcpu-static-library-output-path=here.o",
    "--iree-llvmcpu-system-linker-path=here",
    "--iree-codegen-transform-dialect-library=here",
    "--iree-codegen-tuning-spec-path=here",
    "--iree-preprocessing-transform-spec-filename=here",
    "--iree-preprocessing-pass-pipeline=builtin.module(iree-util-dump-module{path=here})",
    "--iree-preprocessing-pass-pipeline=builtin.module(iree-hal-preprocess-executables-with-tool{command=touch})",
    "--iree-util-hoist-into-globals-print-constexpr-dotgraph-to=here",
    "--iree-cuda-use-ptxas-from=here",
    "--iree-hip-bc-dir=here",
    "--iree-scheduling-dump-statistics-file=here",
    "--log-actions-to=here",
    "--profile-actions-to=here",
    "--info-output-file=here",
    "--stack-usage-file=here",
    "--exec-on-ir-change=touch",
    "--load-pass-plugin=here.so",
    "--load-dialect-plugin=here.so",
    "--load=here.so",
    "--opt-bisect-print-ir-path=here",
    "--pass-pipeline=builtin.module(gpu-module-to-binary{toolkit=here})",
    "--pass-pipeline=builtin.module(transform-preload-library{transform-library-paths=here})",
    "--passes=dot-cfg",
    "--passes=view-cfg",
    "--canonicalize=toolkit-path=here",
    "--mlir-pass-pipeline-crash-reproducer=here",
    "--iree-hal-target-device=../here",
    "--iree-input-type=/here",
    "--iree-opt-level=@here",
    "--iree-made-up=1",
]
HARMLESS = [
    "--iree-opt-level=O3",
    "--iree-opt-data-tiling",
    "--iree-hal-target-device=__device_0=hip[0]",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu-features=+avx512f,+fma",
    "--iree-dispatch-creation-enable-aggressive-fusion",
    "--iree-input-type=torch",
    "--iree-preprocessing-pass-pipeline=builtin.module(iree-preprocessing-pad-linalg-ops{pad-size=16},util.func(canonicalize))",
    "--pass-pipeline=builtin.module(func.func(linalg-fuse-elementwise-ops,cse))",
    "--convert-vector-to-llvm=enable-x86vector",
    "-passes=default<O3>",
    "-passes=function(instcombine<max-iterations=1>,loop(licm))",
    "-mtriple=x86_64-linux-gnu",
    "-mattr=+sve,-neon",
    "-O2",
    "--tritongpu-pipeline=num-stages=3",
]


@pytest.mark.parametrize("flag", REFUSED)
def test_a_flag_that_could_do_harm_is_left_out(flag: str) -> None:
    start = keep_harmless(
        RecipeStart("iree", Path("m.mlir"), None, [flag, *KEPT]), NAMES
    )
    assert (list(start.flags), list(start.refused)) == (KEPT, [flag])


@pytest.mark.parametrize("flag", HARMLESS)
def test_a_harmless_flag_is_kept(flag: str) -> None:
    start = keep_harmless(RecipeStart("iree", Path("m.mlir"), None, [flag]), NAMES)
    assert (list(start.flags), list(start.refused)) == ([flag], [])


def issue(line: str) -> str:
    return f"```mlir\n{PROGRAM}```\n```\n{line}\n```\n"


def test_a_text_sets_no_variables(from_text: FromText) -> None:
    refused = ["LD_PRELOAD=x.so", "LD_AUDIT=y.so", "LD_DEBUG_OUTPUT=/here", "IREE_X=1"]
    made = from_text(issue(f"env {' '.join(refused)} {PLAIN}"))
    assert "env" not in made.values
    assert made.values["flags"] == KEPT
    assert set(made.answer["left_out"]) == set(refused)


@pytest.mark.parametrize("file", ["private.txt", "/dev/zero", "pipe", "itself"])
def test_a_response_file_of_a_text_is_not_opened(
    from_text: FromText, workplace: Path, file: str
) -> None:
    (workplace / "private.txt").write_text("--private-word")
    (workplace / "itself").write_text("@itself")
    os.mkfifo(workplace / "pipe")
    made = from_text(issue(f"{PLAIN} @{file}"))
    assert made.values["flags"] == KEPT
    assert made.answer["left_out"] == [f"@{file}"]


@pytest.mark.parametrize(
    "word",
    [
        "--iree-hal-target-backends=../x",
        "--iree-hip-target=/x --iree-hal-target-backends=rocm",
    ],
)
def test_a_target_that_is_no_word_is_refused(
    refused: Callable[..., str], word: str
) -> None:
    refused(issue(f"iree-compile m.mlir {word}"))


@pytest.mark.real
@pytest.mark.core
def test_no_flag_of_a_text_writes_a_file_or_starts_a_program(
    shared_home: Path, triage: Triage, workplace: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    attacks = " ".join(
        f"'{flag.replace('here', str(mark))}'"
        for flag in REFUSED[:-1]
        if not flag.startswith("--iree-hal-target-device")
    )
    (workplace / "issue.md").write_text(issue(f"{PLAIN} {attacks}"))
    done = triage("run", "issue.md", "-t", "3.3.0", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"][0]["status"] == "passed"
    assert "--iree-load-plugin" in done.stderr
    assert not list(tmp_path.rglob("mark*"))
    assert list(workplace.iterdir()) == [workplace / "issue.md"]


SECRET = "from secret import private\n"
KERNEL = """import pathlib
import triton
import triton.language as tl
{more}
@triton.jit(noinline=not open("{mark}", "w"))
def copy(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.load(x_ptr + at))
"""
ERROR = "```\nm.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes\n```\n"
RUN = ("run", "issue.md", "-t", "triton:3.2.0")


@pytest.fixture
def kernel_issue(workplace: Path) -> Callable[..., Path]:
    """Writes an issue with an error and a kernel that leaves a mark when it is
    imported, and returns the mark.
    """

    def write(more: str = "") -> Path:
        mark = workplace / "mark"
        text = KERNEL.replace("{mark}", str(mark)).replace("{more}", more)
        (workplace / "issue.md").write_text(f"```python\n{text}```\n{ERROR}")
        return mark

    return write


@pytest.mark.real
@pytest.mark.core
@pytest.mark.usefixtures("strictly_sealed")
def test_python_of_a_text_runs_where_it_can_be_sealed(
    installed: Callable[[str], Path],
    triage: Triage,
    kernel_issue: Callable[..., Path],
) -> None:
    installed("triton:3.2.0")
    mark = kernel_issue()
    done = triage(*RUN, "--format", "json")
    [result] = json.loads(done.stdout)["results"]
    assert result["status"] == "untestable"
    assert str(mark) in result["reason"]
    assert not mark.exists()


@pytest.mark.real
@pytest.mark.core
def test_python_of_a_text_runs_only_when_it_is_allowed(
    installed: Callable[[str], Path],
    triage: Triage,
    asked: Asked,
    kernel_issue: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it cannot be sealed."""
    installed("triton:3.2.0")
    monkeypatch.setattr(sealing, "can_seal", lambda: False)
    mark = kernel_issue(SECRET)
    for words in (RUN, ("reduce", "issue.md", "-t", "3.2.0")):
        refused = triage(*words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "--run-code" in refused.stderr
    why = asked("why", "issue.md", code=3)
    assert "pass --run-code" in why["reason"]
    classes = [failure["class"] for failure in why["log"]["failures"]]
    assert classes == ["shared-memory-overflow"]
    assert "--run-code" in why["next"][0]
    asked("recipe", "new", "mine.yaml", "--input", "issue.md")
    assert not mark.exists()
    kernel_issue()
    [result] = asked(*RUN, "--run-code")["results"]
    assert result["status"] == "xpass"
    assert mark.exists()


def test_a_kernel_of_a_text_takes_no_file_that_it_imports(
    from_text: FromText, kernel_issue: Callable[..., Path], workplace: Path
) -> None:
    kernel_issue(SECRET)
    (workplace / "secret.py").write_text("private = 'a private word'\n")
    text = (workplace / "issue.md").read_text()
    made = from_text(text.replace("    at = ", "    private\n    at = "))
    assert "a private word" not in made.program


@pytest.mark.usefixtures("home")
def test_python_of_a_text_is_shown_and_asked_about_on_a_terminal(
    workplace: Path,
    kernel_issue: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRIAGE_TEST_UNSEALED", "1")
    mark = kernel_issue()
    words = [*TRIAGE, "run", "issue.md", "-t", "triton:path:/nowhere"]
    own, other = pty.openpty()
    with subprocess.Popen(
        words, cwd=workplace, stdin=other, stdout=subprocess.PIPE, stderr=other
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
