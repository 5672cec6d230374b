"""Cases of valid recipes, and mistakes of several files reported together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.loading import load_recipes
from triage.model.case import Expectation, Flag, InputKind, Target
from triage.model.errors import BadFiles, BadInput
from triage.model.execution import Limits

GOLDEN = Path(__file__).parent / "golden"

FULL = """\
name: cuda-matmul-f32
summary: a matmul — with ümlauts
compiler: iree
input: models/make.py
args: {n: 4096, exact: no, scale: 1.10}
target: {backend: cuda, chip: sm_86, devices: 2}
flags: ["--iree-opt-level=O3", {flag: "--iree-x=y", since: "3.5.0", until: "3.9.0"}]
phase: executable-targets
limits: {timeout: 1h30m, memory: 2GB}
expect:
  - {failure: shared-memory-overflow, since: "3.1.0", until: "3.8.0", issue: "iree-org/iree#19575"}
  - failure: crash
    issue: https://github.com/iree-org/iree/issues/1
"""
SMALL = "name: {name}\ninput: models/matmul.mlir\ntarget: {{backend: cuda}}\n"


def test_every_key_reaches_the_case(loaded, folder):
    (case,) = loaded(FULL)
    assert case.name == case.recipe == "cuda-matmul-f32"
    assert case.summary == "a matmul — with ümlauts"
    assert case.source == folder / "r.yaml"
    assert case.input.path == folder / "models/make.py"
    assert case.input.kind is InputKind.GENERATOR
    assert case.input.args == (("n", "4096"), ("exact", "no"), ("scale", "1.10"))
    assert case.target == Target("cuda", "sm_86", 2)
    assert case.flags == (Flag("--iree-opt-level=O3"), Flag("--iree-x=y", "3.5.0", "3.9.0"))
    assert case.phase == "executable-targets"
    assert case.limits == Limits(timeout=5400.0, memory=2 * 10**9, without_waiting=False)
    assert case.expect == (
        Expectation("shared-memory-overflow", "3.1.0", "3.8.0", "iree-org/iree#19575"),
        Expectation("crash", issue="https://github.com/iree-org/iree/issues/1"),
    )


def test_only_name_input_and_target_are_needed(loaded):
    (case,) = loaded(SMALL.format(name="a"))
    assert (case.compiler, case.summary, case.flags, case.phase) == ("iree", "", (), None)
    assert case.limits == Limits()
    assert case.target == Target("cuda")


@pytest.mark.parametrize(("written", "read"), [("90s", (90.0, False)), ("2m cpu", (120.0, True)), ("300", (300.0, False))])
def test_a_time_limit_is_wall_time_unless_it_says_cpu(loaded, written, read):
    (case,) = loaded(SMALL.format(name="a") + f"limits: {{timeout: {written}}}\n")
    assert (case.limits.timeout, case.limits.without_waiting) == read
    (again,) = loaded(SMALL.format(name="a") + f"limits: {{timeout: {case.limits.timeout_text}}}\n")
    assert again.limits == case.limits


def test_texts_are_plain_strings(loaded):
    (case,) = loaded(FULL)
    texts = [case.name, case.flags[0].text, case.target.backend, *(value for _, value in case.input.args)]
    assert {type(text) for text in texts} == {str}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("matmul.mlir", InputKind.MLIR),
        ("old.mlirbc", InputKind.BYTECODE),
        ("conv.onnx", InputKind.ONNX),
        ("make.py", InputKind.GENERATOR),
    ],
)
def test_the_suffix_decides_the_kind(loaded, name, kind):
    (case,) = loaded(f"name: a\ninput: models/{name}\ntarget: {{backend: cuda}}\n")
    assert case.input.kind is kind


def test_other_compilers_get_python_unchanged(loaded):
    (case,) = loaded("name: a\ncompiler: triton\ninput: models/make.py\ntarget: {backend: hip}\n")
    assert (case.compiler, case.target.backend, case.input.kind) == ("triton", "hip", InputKind.OTHER)
    (case,) = loaded("name: a\ncompiler: command\ninput: models/make.py\ncommand: [cc]\ntarget: {backend: any}\n")
    assert (case.compiler, case.target.backend, case.input.kind) == ("command@a", "any", InputKind.OTHER)


def test_a_command_takes_any_file(loaded, folder):
    (folder / "models/kernel.cu").touch()
    (case,) = loaded("name: a\ncompiler: command\ninput: models/kernel.cu\ncommand: [nvcc]\n")
    assert case.input.kind is InputKind.OTHER


def test_inputs_are_relative_to_the_recipe(folder):
    deep = folder / "suites/cuda"
    deep.mkdir(parents=True)
    (deep / "a.yaml").write_text("name: a\ninput: ../../models/matmul.mlir\ntarget: {backend: cuda}\n")
    (case,) = load_recipes([Path("suites")])
    assert case.input.path == folder / "models/matmul.mlir"
    assert case.source == deep / "a.yaml"


def test_anchors_and_aliases_repeat_values(loaded):
    text = 'name: a\ninput: models/matmul.mlir\ntarget: {backend: &it cuda, chip: *it}\nflags: ["-a"]\n'
    (case,) = loaded(text)
    assert case.target == Target("cuda", "cuda")


def test_a_byte_order_mark_is_left_out(folder):
    Path("a.yaml").write_bytes(b"\xef\xbb\xbf" + SMALL.format(name="a").encode())
    assert load_recipes([Path("a.yaml")])[0].name == "a"


def test_known_failures_are_accepted(folder):
    Path("a.yaml").write_text(FULL)
    assert load_recipes([Path("a.yaml")], {"shared-memory-overflow", "crash"})


def test_many_mistakes_are_reported_at_once(folder):
    """`many_mistakes.txt` has the position and a key word of each."""
    Path("many_mistakes.yaml").write_text((GOLDEN / "many_mistakes.yaml").read_text())
    with pytest.raises(BadFiles) as raised:
        load_recipes([Path("many_mistakes.yaml")], {"shared-memory-overflow", "out-of-memory"})
    expected = [line.split(" ", 1) for line in (GOLDEN / "many_mistakes.txt").read_text().splitlines()]
    problems = raised.value.problems
    assert [f"{problem.line}:{problem.column}" for problem in problems] == [position for position, _ in expected]
    assert [word for problem, (_, word) in zip(problems, expected, strict=True) if word not in problem.message] == []


def test_problems_of_all_files_come_together(folder):
    Path("a.yaml").write_text(SMALL.format(name="A"))
    Path("b.yaml").write_text("name: [")
    Path("c.yaml").write_text(SMALL.format(name="c"))
    with pytest.raises(BadFiles) as raised:
        load_recipes([Path("c.yaml"), Path("missing.yaml"), Path("b.yaml"), Path("a.yaml")])
    assert {problem.path for problem in raised.value.problems} == {"missing.yaml", "a.yaml", "b.yaml"}


def test_a_name_used_twice_names_both_places(folder):
    Path("a.yaml").write_text("# first\n" + SMALL.format(name="same"))
    Path("b.yaml").write_text(SMALL.format(name="same"))
    with pytest.raises(BadFiles) as raised:
        load_recipes([Path("b.yaml"), Path("a.yaml")])
    [problem] = raised.value.problems
    assert (problem.path, problem.line, problem.column) == ("a.yaml", 2, 7)
    assert "b.yaml:1:7" in problem.message


def test_a_name_counts_even_in_a_bad_recipe(folder):
    Path("a.yaml").write_text("name: same\ninput: models/matmul.mlir\n")
    Path("b.yaml").write_text(SMALL.format(name="same"))
    with pytest.raises(BadFiles) as raised:
        load_recipes([Path()])
    assert [(problem.path, problem.line) for problem in raised.value.problems] == [("a.yaml", 1), ("b.yaml", 1)]


def test_no_path_is_bad_input():
    with pytest.raises(BadInput, match="no recipe was named"):
        load_recipes([])
