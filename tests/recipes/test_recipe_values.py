"""Each key's values: a mistake is reported at its position, and the message contains what to write instead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GOOD = {
    "name": "name: a",
    "input": "input: models/matmul.mlir",
    "target": "target: {backend: cuda}",
}


def recipe(**lines: str | None) -> str:
    """A good recipe with some lines replaced or added, each with the key it is about; None leaves one out."""
    return "\n".join(line for line in {**GOOD, **lines}.values() if line is not None) + "\n"


def only(told, text: str, failure_names=None) -> str:
    problems = told(text, failure_names)
    assert len(problems) == 1, problems
    return problems[0]


def test_unknown_keys_suggest_one_and_list_all(told):
    problem = only(told, recipe(phase="phse: hal"))
    assert problem.startswith('4:1: "phse"')
    assert 'did you mean "phase"?' in problem
    assert "name, summary, compiler, input, args, target, flags, phase, matrix, env, limits, expect" in problem
    problem = only(told, recipe(target="target: {backend: cuda, cpu: x}"))
    assert problem.startswith('3:25: "cpu"')
    assert "backend, chip, devices" in problem
    assert "did you mean" not in problem
    assert 'did you mean "timeout"?' in only(told, recipe(limits="limits: {time: 1s}"))
    assert 'did you mean "since"?' in only(told, recipe(flags='flags: [{flag: "-a", sinc: "1.0"}]'))
    assert 'did you mean "issue"?' in only(told, recipe(expect="expect: [{failure: a, isue: b}]"))


@pytest.mark.parametrize("key", GOOD)
def test_missing_keys_come_with_an_example(told, key):
    problem = only(told, recipe(**{key: None}))
    assert problem.startswith("1:1: ")
    assert f"add `{key}: " in problem


def test_a_mistyped_key_is_not_missing_as_well(told):
    assert 'did you mean "input"?' in only(told, recipe(input="inptu: models/matmul.mlir"))
    assert 'did you mean "backend"?' in only(told, recipe(target="target: {bakend: cuda}"))


def test_missing_inner_keys(told):
    problem = only(told, recipe(target="target: {chip: sm_86}"))
    assert problem.startswith("3:9: ")
    assert "add `backend: cuda`" in problem
    assert "`failure: " in only(told, recipe(expect='expect: [{since: "1.0"}]'))
    assert 'add `flag: "--iree-opt-level=O3"`' in only(told, recipe(flags='flags: [{since: "1.0"}]'))


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ("name: CUDA Matmul", '"cuda-matmul"'),
        ("name: ümlaut", '"mlaut"'),
        ("name: a[dtype=f16]", '"a[dtype=f16]"'),
        ("name: 3.10", 'write "3.10"'),
        ("name: on", 'write "on"'),
        ("name: No", 'write "No"'),
        ("name: 017", "the number 15"),
        ("name: " + "a" * 101, "at most 100"),
        ("name: |\n a\n b", '"a\\nb\\n"'),
        ('name: "\\e[31mred"', '"\\x1b[31mred"'),
        ("name: [a]", "not a list"),
        ('name: ""', "empty"),
    ],
)
def test_names(told, line, fragment):
    problem = only(told, recipe(name=line))
    assert problem.startswith("1:7: ")
    assert fragment in problem


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ("compiler: ire", 'did you mean "iree"? Compilers: iree, triton, command.'),
        ("compiler: gcc", "Compilers: iree, triton, command."),
        ("phase: flows", 'did you mean "flow"? Phases: input, abi, preprocessing, global-opt'),
        ("flags: -a", 'write `flags: ["--iree-opt-level=O3"]`'),
        ("flags: [O3]", '"--O3"'),
        ("flags: [{flag: O3}]", '"--O3"'),
        ('flags: ["--a --b"]', '"--a --b"'),
        ("flags: [-3]", 'write "-3"'),
        ("flags: [[-a]]", "not a list"),
        ("limits: 3", "write `limits: {timeout: 120s, memory: 8GiB}`"),
        ("limits: {timeout: 2 min}", "120s, 2m or 1h30m"),
        ("limits: {timeout: 1:30}", '"1:30"'),
        ("limits: {timeout: -5}", '"-5"'),
        ("limits: {timeout: 0s}", "above zero"),
        ("limits: {timeout: 999h}", "at most 168h"),
        ("limits: {timeout: [1s]}", "not a list"),
        ("limits: {memory: 8}", "write 8GiB or 8MiB"),
        ("limits: {memory: 8G}", 'unit "G": write 8GiB; the units are B, kB, MB'),
        ("limits: {memory: 8mb}", 'unit "mb": write 8MiB'),
        ("limits: {memory: 64B}", "at least 1MiB"),
        ("limits: {memory: 9999TiB}", "at most 1024TiB"),
        ("limits: {memory: lots}", "8GiB or 512MiB"),
        ("args: {n: 1}", '"models/matmul.mlir"'),
    ],
)
def test_other_keys(told, line, fragment):
    problem = only(told, recipe(added=line))
    assert fragment in problem
    assert problem.startswith("4:")


@pytest.mark.parametrize(
    ("target", "column", "fragment"),
    [
        ("{backend: vulkan}", 19, 'did you mean "vulkan-spirv"? Backends: cuda, llvm-cpu,'),
        ("{backend: hip}", 19, 'did you mean "rocm"?'),
        ("{backend: cdua}", 19, 'did you mean "cuda"?'),
        ("{backend: CUDA}", 19, 'did you mean "cuda"?'),
        ("{backend: cuda, chip: 90}", 31, 'write "90"'),
        ("{backend: cuda, chip: sm 86}", 31, '"sm 86"'),
        ("{backend: cuda, devices: 0}", 34, "1 or more"),
        ("{backend: cuda, devices: -1}", 34, "a whole number"),
        ("{backend: cuda, devices: 1.5}", 34, "a whole number"),
        ("{backend: cuda, devices: 99999}", 34, "at most 1024"),
        ("cuda", 9, "write `target: {backend: cuda, chip: sm_86}`"),
    ],
)
def test_targets(told, target, column, fragment):
    problem = only(told, recipe(target=f"target: {target}"))
    assert problem.startswith(f"3:{column}: ")
    assert fragment in problem


def test_an_absurd_number_of_digits_is_only_too_many(told):
    problem = only(told, recipe(target=f"target: {{backend: cuda, devices: {'9' * 5000}}}"))
    assert "9… devices are too many" in problem.replace("…" + "9" * 20, "…")
    assert len(problem) < 300


def test_words_of_an_unknown_compiler_are_not_checked(told):
    text = recipe(added="compiler: tritn", target="target: {backend: weird}", phase="phase: odd")
    assert 'did you mean "triton"?' in only(told, text)


def test_words_of_other_compilers(told):
    triton = recipe(added="compiler: triton", input="input: models/make.py", target="target: {backend: rocm}")
    assert 'did you mean "hip"?' in only(told, triton)
    kernel = recipe(added="compiler: triton", input="input: models/make.py", args="args: {n: 1}")
    assert "triton" in only(told, kernel)
    assert '"command"' in only(told, recipe(added="compiler: command\ncommand: [cc]", phase="phase: hal"))


@pytest.mark.parametrize(
    ("entry", "fragment"),
    [
        ("since: 3.10", 'write "3.10.0"'),
        ("since: 3.3", 'write "3.3.0"'),
        ("until: 3", 'write "3.0.0"'),
        ("until: latest", 'such as "3.5.0"'),
        ('since: "3.9.0", until: "3.5.0"', 'since "3.9.0" until "3.5.0"'),
        ('since: "3.5", until: "3.5.0"', "later than since"),
    ],
)
@pytest.mark.parametrize("line", ["expect: [{{failure: a, {}}}]", 'flags: [{{flag: "-a", {}}}]'])
def test_bounds(told, line, entry, fragment):
    assert fragment in only(told, recipe(added=line.format(entry)))


def test_the_wrong_order_is_reported_at_until(told):
    line = 'expect: [{failure: a, since: "3.9.0", until: "3.5.0"}]'
    column = line.index('"3.5.0"') + 1
    assert only(told, recipe(added=line)).startswith(f"4:{column}:")


@pytest.mark.parametrize(
    ("issue", "fragment"),
    [
        ('"#12"', 'write "owner/repo#12"'),
        ("19575", 'write "owner/repo#19575"'),
        ("iree#1", 'write "owner/repo#123"'),
        ("[a]", "not a list"),
    ],
)
def test_issues(told, issue, fragment):
    assert fragment in only(told, recipe(added=f"expect: [{{failure: a, issue: {issue}}}]"))


def test_failures_must_be_known_when_the_known_ones_are_given(told):
    text = recipe(added="expect: [{failure: shared-memory-overflw}]")
    problem = only(told, text, {"crash", "shared-memory-overflow"})
    assert problem.startswith("4:20: ")
    assert 'did you mean "shared-memory-overflow"?' in problem
    assert "crash, shared-memory-overflow" in problem


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ("args: {n: [1, 2]}", 'write "1,2"'),
        ("args: {n: {a: 1}}", "not a mapping"),
        ("args: {--n: 1}", 'write "n"'),
        ("args: [n]", "write `args: {size: 4096}`"),
    ],
)
def test_args(told, line, fragment):
    assert fragment in only(told, recipe(input="input: models/make.py", added=line))


@pytest.mark.parametrize(
    ("written", "fragment"),
    [
        ("models/matmul_f8.mlir", 'did you mean "matmul_f'),
        ("nowhere/a.mlir", "folder"),
        ("models/matmul.mlri", 'did you mean ".mlir"? Kinds: .mlir, .mlirbc,'),
        ("models/matmul", "Kinds: .mlir, .mlirbc, .onnx, .py"),
        ("dir.mlir", "is a folder"),
        ("pipe.mlir", "not a regular file"),
        ("gone.mlir", '"nothing"'),
        ("loop.mlir", "symbolic links"),
        ("models/matmul.mlir/x.mlir", "folder"),
        ("x" * 300 + ".mlir", "name too long"),
    ],
)
def test_inputs(told, folder, written, fragment):
    Path("dir.mlir").mkdir()
    os.mkfifo("pipe.mlir")
    Path("gone.mlir").symlink_to("nothing")
    Path("loop.mlir").symlink_to("loop.mlir")
    assert fragment in only(told, recipe(input=f"input: {written}"))


def test_an_input_without_permission(told, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read everything
    assert "no permission" in only(told, recipe())
