"""What each key may hold: the mistake, its place, and what to write instead."""

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
    assert only(told, recipe(phase="phse: hal")) == (
        '4:1: "phse" is no key of a recipe; did you mean "phase"? Keys: name, summary, compiler, input, args, target, '
        "flags, phase, matrix, limits, expect."
    )
    assert only(told, recipe(target="target: {backend: cuda, cpu: x}")) == (
        '3:25: "cpu" is no key of a target. Keys: backend, chip, devices.'
    )
    assert 'of limits; did you mean "timeout"? Keys: timeout, memory.' in only(told, recipe(limits="limits: {time: 1s}"))
    assert 'of a flag; did you mean "since"?' in only(told, recipe(flags='flags: [{flag: "-a", sinc: "1.0"}]'))
    assert 'of an expect entry; did you mean "issue"?' in only(told, recipe(expect="expect: [{failure: a, isue: b}]"))


@pytest.mark.parametrize("key", GOOD)
def test_missing_keys_come_with_an_example(told, key):
    assert only(told, recipe(**{key: None})).startswith(f'1:1: the key "{key}" of the recipe is missing: add `{key}: ')


def test_a_mistyped_key_is_not_missing_as_well(told):
    assert 'did you mean "input"?' in only(told, recipe(input="inptu: models/matmul.mlir"))
    assert 'did you mean "backend"?' in only(told, recipe(target="target: {bakend: cuda}"))


def test_missing_inner_keys(told):
    assert only(told, recipe(target="target: {chip: sm_86}")) == (
        '3:9: the key "backend" of a target is missing: add `backend: cuda`.'
    )
    assert 'the key "failure" of an expect entry is missing' in only(told, recipe(expect='expect: [{since: "1.0"}]'))
    assert 'the key "flag" of a flag is missing' in only(told, recipe(flags='flags: [{since: "1.0"}]'))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "name: CUDA Matmul",
            '1:7: "CUDA Matmul" cannot be a name: use small letters a-z, digits and hyphens, such as',
        ),
        ("name: ümlaut", '1:7: "ümlaut" cannot be a name: use small letters a-z, digits and hyphens, such as "mlaut".'),
        ("name: a[dtype=f16]", '1:7: "a[dtype=f16]" cannot be a name'),
        ("name: 3.10", '1:7: 3.10 without quotes is the number 3.1 in YAML, and text is wanted: write "3.10".'),
        ("name: on", '1:7: on without quotes is the truth value true in YAML 1.1: write "on" in quotes.'),
        ("name: No", '1:7: No without quotes is the truth value false in YAML 1.1: write "No" in quotes.'),
        ("name: 017", "1:7: 017 without quotes is the number 15 in YAML, and text is wanted"),
        ("name: " + "a" * 101, "1:7: the name has 101 characters; file names are made of it, so write at most 100."),
        ("name: |\n a\n b", '1:7: "a\\nb\\n" cannot be a name'),
        ('name: "\\e[31mred"', '1:7: "\\x1b[31mred" cannot be a name'),
        ("name: [a]", "1:7: one value is wanted here, not a list."),
        ('name: ""', "1:7: the text is empty; give it a value or remove the key."),
    ],
)
def test_names(told, line, message):
    assert only(told, recipe(name=line)).startswith(message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compiler: ire", '"ire" is no compiler known here; did you mean "iree"? Compilers: iree, triton, command.'),
        ("compiler: gcc", '"gcc" is no compiler known here. Compilers: iree, triton, command.'),
        (
            "phase: flows",
            '"flows" is no phase of iree; did you mean "flow"? Phases: input, abi, preprocessing, global-opt',
        ),
        ("flags: -a", '"flags" holds a list, not "-a": write `flags: ["--iree-opt-level=O3"]`.'),
        ("flags: [O3]", '"O3" is no flag: a flag begins with a hyphen, such as "--O3".'),
        ("flags: [{flag: O3}]", '"O3" is no flag'),
        ('flags: ["--a --b"]', '"--a --b" looks like several flags: give each an entry of its own.'),
        ("flags: [-3]", '-3 without quotes is the number -3 in YAML, and text is wanted: write "-3".'),
        ("flags: [[-a]]", 'an entry of "flags" is a mapping, not a list'),
        ("limits: 3", '"limits" holds a mapping, not "3": write `limits: {timeout: 120s, memory: 8GiB}`.'),
        ("limits: {timeout: 2 min}", '"2 min" is no duration: write hours, minutes and seconds as 120s, 2m or 1h30m.'),
        ("limits: {timeout: 1:30}", '"1:30" is no duration'),
        ("limits: {timeout: -5}", '"-5" is no duration'),
        ("limits: {timeout: 0s}", '"0s" leaves no time at all'),
        ("limits: {timeout: 999h}", '"999h" is longer than a week'),
        ("limits: {timeout: [1s]}", "one value is wanted here, not a list."),
        ("limits: {memory: 8}", '"8" has no unit: write 8GiB or 8MiB.'),
        ("limits: {memory: 8G}", '"8G" has the unknown unit "G": write 8GiB; the units are B, kB, MB'),
        ("limits: {memory: 8mb}", '"8mb" has the unknown unit "mb": write 8MiB'),
        ("limits: {memory: 64B}", '"64B" is 64 bytes, too little for any process'),
        ("limits: {memory: 9999TiB}", '"9999TiB" is more than any machine has'),
        ("limits: {memory: lots}", '"lots" is no size'),
        (
            "args: {n: 1}",
            'args are handed to a .py generator, and the input "models/matmul.mlir" is none; remove them.',
        ),
    ],
)
def test_other_keys(told, line, message):
    problem = only(told, recipe(added=line))
    assert message in problem
    assert problem.startswith("4:")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "{backend: vulkan}",
            '3:19: "vulkan" is no backend of iree; did you mean "vulkan-spirv"? Backends: cuda, llvm-cpu,',
        ),
        ("{backend: hip}", 'did you mean "rocm"?'),
        ("{backend: cdua}", 'did you mean "cuda"?'),
        ("{backend: CUDA}", 'did you mean "cuda"?'),
        (
            "{backend: cuda, chip: 90}",
            '3:31: 90 without quotes is the number 90 in YAML, and text is wanted: write "90".',
        ),
        ("{backend: cuda, chip: sm 86}", '3:31: "sm 86" holds white space; write one word.'),
        (
            "{backend: cuda, devices: 0}",
            "3:34: 0 devices cannot be compiled for: write 1 or more, or leave the key out.",
        ),
        ("{backend: cuda, devices: -1}", '"-1" is no number of devices: write a whole number, such as 2.'),
        ("{backend: cuda, devices: 1.5}", '"1.5" is no number of devices'),
        ("{backend: cuda, devices: 99999}", "99999 devices are too many: write at most 1024."),
        ("cuda", '3:9: "target" holds a mapping, not "cuda": write `target: {backend: cuda, chip: sm_86}`.'),
    ],
)
def test_targets(told, target, message):
    assert message in only(told, recipe(target=f"target: {target}"))


def test_an_absurd_number_of_digits_is_only_too_many(told):
    problem = only(told, recipe(target=f"target: {{backend: cuda, devices: {'9' * 5000}}}"))
    assert "9… devices are too many" in problem.replace("…" + "9" * 20, "…")
    assert len(problem) < 300


def test_words_of_an_unknown_compiler_are_not_judged(told):
    text = recipe(added="compiler: tritn", target="target: {backend: weird}", phase="phase: odd")
    assert 'did you mean "triton"?' in only(told, text)


def test_words_of_other_compilers(told):
    triton = recipe(added="compiler: triton", input="input: models/make.py", target="target: {backend: rocm}")
    assert '"rocm" is no backend of triton; did you mean "hip"?' in only(told, triton)
    kernel = recipe(added="compiler: triton", input="input: models/make.py", args="args: {n: 1}")
    assert "args are handed to a generator, and triton takes none" in only(told, kernel)
    assert 'compiler "command" cannot stop after a phase' in only(
        told, recipe(added="compiler: command\ncommand: [cc]", phase="phase: hal")
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("since: 3.10", '3.10 without quotes is a number in YAML (3.10 would become 3.1): write "3.10.0".'),
        ("since: 3.3", '3.3 without quotes is a number in YAML (3.10 would become 3.1): write "3.3.0".'),
        ("until: 3", '3 without quotes is a number in YAML: write "3.0.0".'),
        ("until: latest", '"latest" is no version: write a release such as "3.5.0".'),
        ('since: "3.9.0", until: "3.5.0"', 'no version lies from "3.9.0" (since) up to "3.5.0" (until)'),
        ('since: "3.5", until: "3.5.0"', "until names the first version without it, so it must be the later one."),
    ],
)
@pytest.mark.parametrize("line", ["expect: [{{failure: a, {}}}]", 'flags: [{{flag: "-a", {}}}]'])
def test_bounds(told, line, entry, message):
    assert message in only(told, recipe(added=line.format(entry)))


def test_the_wrong_order_is_told_at_until(told):
    line = 'expect: [{failure: a, since: "3.9.0", until: "3.5.0"}]'
    column = line.index('"3.5.0"') + 1
    assert only(told, recipe(added=line)).startswith(f"4:{column}:")


@pytest.mark.parametrize(
    ("issue", "message"),
    [
        ('"#12"', '"#12" is no issue: write "owner/repo#12" or its URL.'),
        ("19575", '"19575" is no issue: write "owner/repo#19575" or its URL.'),
        ("iree#1", '"iree#1" is no issue: write "owner/repo#123" or its URL.'),
        ("[a]", "one value is wanted here, not a list."),
    ],
)
def test_issues(told, issue, message):
    assert message in only(told, recipe(added=f"expect: [{{failure: a, issue: {issue}}}]"))


def test_failures_are_known_ones_when_they_are_given(told):
    text = recipe(added="expect: [{failure: shared-memory-overflw}]")
    assert only(told, text, {"crash", "shared-memory-overflow"}) == (
        '4:20: "shared-memory-overflw" is no failure class or family; did you mean "shared-memory-overflow"? '
        "Known: crash, shared-memory-overflow."
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "args: {n: [1, 2]}",
            'a list cannot be handed over as one argument: write "1,2" and let the generator split it.',
        ),
        ("args: {n: {a: 1}}", "one value is wanted here, not a mapping."),
        ("args: {--n: 1}", '"--n" cannot be a key here: use letters, digits, _ and -, a letter first; write "n".'),
        ("args: [n]", '"args" holds a mapping, not a list: write `args: {n: 4096}`.'),
    ],
)
def test_args(told, line, message):
    assert message in only(told, recipe(input="input: models/make.py", added=line))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("models/matmul_f8.mlir", 'does not exist; did you mean "matmul_f'),
        ("nowhere/a.mlir", "does not exist, nor does its folder; paths count from the recipe's own folder."),
        (
            "models/matmul.mlri",
            'ends in ".mlri", which iree does not take; did you mean ".mlir"? Kinds: .mlir, .mlirbc,',
        ),
        (
            "models/matmul",
            "has no suffix, which iree does not take. Kinds: .mlir, .mlirbc, .onnx, .py (a generator that",
        ),
        ("dir.mlir", 'the input "dir.mlir" is a folder; name a file in it.'),
        ("pipe.mlir", 'the input "pipe.mlir" is not a regular file.'),
        ("gone.mlir", 'the input "gone.mlir" is a link to "nothing", which does not exist.'),
        ("loop.mlir", 'the input "loop.mlir" cannot be read: too many levels of symbolic links.'),
        ("models/matmul.mlir/x.mlir", "does not exist, nor does its folder"),
        ("x" * 300 + ".mlir", "cannot be read: file name too long."),
    ],
)
def test_inputs(told, folder, written, message):
    Path("dir.mlir").mkdir()
    os.mkfifo("pipe.mlir")
    Path("gone.mlir").symlink_to("nothing")
    Path("loop.mlir").symlink_to("loop.mlir")
    assert message in only(told, recipe(input=f"input: {written}"))


def test_an_input_without_permission(told, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read everything
    assert "cannot be read: no permission." in only(told, recipe())
