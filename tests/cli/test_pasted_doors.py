"""A pasted text starts no program, sets no variable, opens no file and runs no Python
of its own.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.conftest import Triage
from tests.git_history.history import ENV, History
from triage.compilers.pasted_flags import keep_harmless
from triage.compilers.registry import recipe_starters
from triage.processes import sealing
from triage.recipes.family import RecipeStart

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


def written(
    triage: Triage, folder: Path, command: str, program: str = PROGRAM
) -> tuple[dict[str, object], list[str]]:
    """The recipe that is made from an issue, and the words that were left out."""
    (folder / "issue.md").write_text(f"```mlir\n{program}```\n```\n{command}\n```\n")
    done = triage(
        "recipe",
        "new",
        "mine.yaml",
        "--from-text",
        folder / "issue.md",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    text = (folder / "mine.yaml").read_text()
    (folder / "mine.yaml").unlink()
    (folder / "mine.mlir").unlink()
    return yaml.safe_load(text), json.loads(done.stdout)["left_out"]


@pytest.mark.usefixtures("home")
def test_a_text_sets_only_harmless_variables(triage: Triage, workplace: Path) -> None:
    settings = "LD_PRELOAD=x.so env LD_AUDIT=y.so LD_DEBUG_OUTPUT=/here OMP_NUM_THREADS=4 IREE_X=1"
    recipe, left_out = written(triage, workplace, f"{settings} {PLAIN}")
    assert (recipe["env"], recipe["flags"]) == ({"OMP_NUM_THREADS": "4"}, KEPT)
    assert set(left_out) == {
        "LD_PRELOAD=x.so",
        "LD_AUDIT=y.so",
        "LD_DEBUG_OUTPUT=/here",
        "IREE_X=1",
    }


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("file", ["private.txt", "/dev/zero", "pipe", "itself"])
def test_a_response_file_of_a_text_is_not_opened(
    triage: Triage, workplace: Path, file: str
) -> None:
    (workplace / "private.txt").write_text("--private-word")
    (workplace / "itself").write_text("@itself")
    os.mkfifo(workplace / "pipe")
    recipe, left_out = written(triage, workplace, f"{PLAIN} @{file}")
    assert (recipe["flags"], left_out) == (KEPT, [f"@{file}"])


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "word",
    [
        "--iree-hal-target-backends=../x",
        "--iree-hip-target=/x --iree-hal-target-backends=rocm",
    ],
)
def test_a_target_that_is_no_word_is_refused(
    triage: Triage, workplace: Path, word: str
) -> None:
    (workplace / "issue.md").write_text(
        f"```mlir\n{PROGRAM}```\n```\niree-compile m.mlir {word}\n```\n"
    )
    assert triage("run", "issue.md").returncode == 2


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
    (workplace / "issue.md").write_text(
        f"```mlir\n{PROGRAM}```\n```\n{PLAIN} {attacks}\n```\n"
    )
    done = triage("run", "issue.md", "-t", "3.3.0", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"][0]["status"] == "passed"
    assert "--iree-load-plugin" in done.stderr
    assert not list(tmp_path.rglob("mark*"))
    assert list(workplace.iterdir()) == [workplace / "issue.md"]


KERNEL = """import pathlib
import triton
import triton.language as tl
from secret import private

@triton.jit(noinline=not open("{mark}", "w"))
def copy(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.load(x_ptr + at))
"""
ERROR = "```\nm.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes\n```\n"


def kernel_issue(folder: Path) -> Path:
    """An issue with a kernel that leaves a mark when it is imported, and an error."""
    text = KERNEL.replace("{mark}", str(folder / "mark"))
    (folder / "issue.md").write_text(f"```python\n{text}```\n{ERROR}")
    return folder / "mark"


@pytest.mark.real
@pytest.mark.core
def test_python_of_a_text_runs_where_it_can_be_sealed(
    installed: Callable[[str], Path],
    triage: Triage,
    workplace: Path,
    strictly_sealed: None,
) -> None:
    del strictly_sealed
    installed("triton:3.2.0")
    mark = kernel_issue(workplace)
    text = (workplace / "issue.md").read_text()
    text = text.replace("from secret import private\n", "")
    (workplace / "issue.md").write_text(text)
    done = triage("run", "issue.md", "-t", "triton:3.2.0", "--format", "json")
    [result] = json.loads(done.stdout)["results"]
    assert result["status"] == "untestable"
    assert str(mark) in result["reason"]
    assert not mark.exists()


@pytest.mark.real
@pytest.mark.core
def test_python_of_a_text_runs_only_when_it_is_allowed(
    installed: Callable[[str], Path],
    triage: Triage,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it cannot be sealed."""
    installed("triton:3.2.0")
    monkeypatch.setattr(sealing, "can_seal", lambda: False)
    mark = kernel_issue(workplace)
    for words in (
        ["run", "issue.md", "-t", "triton:3.2.0"],
        ["reduce", "issue.md", "-t", "3.2.0"],
    ):
        refused = triage(*words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "--run-code" in refused.stderr
    why = triage("why", "issue.md", "--format", "json")
    told = json.loads(why.stdout)
    assert why.returncode == 3
    assert "pass --run-code" in told["reason"]
    assert [failure["class"] for failure in told["log"]["failures"]] == [
        "shared-memory-overflow"
    ]
    assert "--run-code" in told["next"][0]
    new = triage(
        "recipe",
        "new",
        "mine.yaml",
        "--from-text",
        "issue.md",
    )
    assert new.returncode == 0, new.stderr
    assert not mark.exists()
    text = (
        (workplace / "issue.md").read_text().replace("from secret import private\n", "")
    )
    (workplace / "issue.md").write_text(text)
    allowed = triage(
        "run", "issue.md", "-t", "triton:3.2.0", "--run-code", "--format", "json"
    )
    assert json.loads(allowed.stdout)["results"][0]["status"] == "xpass"
    assert mark.exists()


@pytest.mark.usefixtures("home")
def test_python_of_a_text_is_shown_and_asked_about_on_a_terminal(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_TEST_UNSEALED", "1")
    mark = kernel_issue(workplace)
    words = [
        sys.executable,
        "-c",
        "from triage.cli import main; main()",
        "run",
        "issue.md",
        "-t",
        "triton:path:/nowhere",
    ]
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


@pytest.mark.usefixtures("home")
def test_a_kernel_of_a_text_takes_no_file_that_it_imports(
    triage: Triage, workplace: Path
) -> None:
    kernel_issue(workplace)
    (workplace / "secret.py").write_text("private = 'a private word'\n")
    text = (
        (workplace / "issue.md")
        .read_text()
        .replace("    at = ", "    private\n    at = ")
    )
    (workplace / "issue.md").write_text(text)
    done = triage("recipe", "new", "mine.yaml", "--from-text", "issue.md")
    assert done.returncode == 0, done.stderr
    assert "a private word" not in (workplace / "mine.py").read_text()


@pytest.mark.usefixtures("home")
def test_a_project_file_in_the_clone_runs_nothing_unless_builds_are_allowed(
    triage: Triage, workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    mark = tmp_path / "mark"
    steps = (
        f"name: small\ncompiler: iree\nbuild: {{commands: ['touch {mark}; false']}}\n"
    )
    clone = History.begin(tmp_path / "clone")
    first, last = (
        clone.commit("first", {"triage.yaml": steps}),
        clone.commit("last", {"a.c": "1"}),
    )
    (workplace / "m.mlir").write_text(PROGRAM)
    words = [
        "bisect",
        workplace / "m.mlir",
        "--repo",
        tmp_path / "clone",
        "--good",
        f"commit:{first}",
        "--bad",
        f"commit:{last}",
    ]
    for folder in (workplace, tmp_path / "clone"):
        done = triage(*words, cwd=folder)
        assert done.returncode in (3, 4), done.stderr
        assert "--build" in done.stderr
        assert not mark.exists()
    assert triage(*words, "--build").returncode in (3, 4)
    assert mark.exists()
    mark.unlink()
    # a file of the user's own
    (workplace / "triage.yaml").write_text(steps.replace("false", "exit 1"))
    assert triage(*words).returncode in (3, 4)
    assert mark.exists()
