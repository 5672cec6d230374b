"""Candidate remedies in rule files: every kind is read, every mistake is reported with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.classify.samples import scan_output
from triage.classify import Rule, load_rules, packaged_rules
from triage.classify.rules import DeclareDevices, DropFlag, GiveFlag, LaunchOption, LeastValue, RewriteInput
from triage.model.errors import BadFiles

RULE = """classes:
  - class: mine
    rank: 1
    explanation: x
    remedies: [y]
    patterns: [z]
    examples: [{{text: "error: z"}}]
    near_misses: [n]
    candidates:
      - {{{entry}}}
"""


def candidates_of(tmp_path: Path, entry: str) -> tuple[object, ...]:
    path = tmp_path / "mine.yaml"
    path.write_text(RULE.format(entry=entry))
    return load_rules([path]).by_name["mine"].candidates


@pytest.mark.parametrize(
    "entry, candidate",
    [
        ('give: "--a=b", why: c', GiveFlag("--a=b", "c")),
        ('give: "--a", checks_less: true', GiveFlag("--a", checks_less=True)),
        ('drop: "--a"', DropFlag("--a")),
        ('least: "--a", above: 4, upto: 9', LeastValue("a", 4, 9)),
        ('least: "--a", above: 4, upto: 64, doubling: true', LeastValue("a", 4, 64, doubling=True)),
        ("declare: devices", DeclareDevices()),
        ("rewrite: barriers", RewriteInput("barriers")),
        ("option: num_warps, values: [1, 2]", LaunchOption("num_warps", (1, 2))),
    ],
)
def test_each_kind_is_read(tmp_path: Path, entry: str, candidate: object) -> None:
    assert candidates_of(tmp_path, entry) == (candidate,)


def test_values_of_a_flag_to_search() -> None:
    assert list(LeastValue("a", 4, 9).values) == [5, 6, 7, 8, 9]
    assert list(LeastValue("a", 4, 64, doubling=True).values) == [8, 16, 32, 64]


@pytest.mark.parametrize(
    "entry, column, keyword",
    [
        ("why: c", 9, "give, drop, least"),
        ('give: "--a", drop: "--a"', 9, "give, drop, least"),
        ('give: "a=b"', 16, "--name=value"),
        ('drop: "--a=b"', 16, "without a value"),
        ('least: "--a", above: 9, upto: 4', 9, "`above`"),
        ('least: "--a"', 9, "`upto`"),
        ("declare: globals", 19, "devices"),
        ("rewrite: all", 19, "'barriers', 'affinities'"),
        ("option: num_warps", 9, "values"),
        ('give: "--a", values: [1]', 31, "'values'"),
        ('give: "--a", why: [1]', 28, "a list"),
    ],
)
def test_mistakes_have_their_line_and_column(tmp_path: Path, entry: str, column: int, keyword: str) -> None:
    with pytest.raises(BadFiles) as error:
        candidates_of(tmp_path, entry)
    [problem] = error.value.problems
    assert (problem.line, problem.column) == (10, column)
    assert keyword in problem.message


@pytest.mark.parametrize("rule", packaged_rules().rules, ids=lambda rule: rule.name)
def test_candidates_and_advice_suit_their_compiler(rule: Rule) -> None:
    assert not [advice for advice in rule.remedies if advice.compiler in (None, "triton") and "--iree-" in advice.text]
    assert not [item for item in rule.candidates_for("triton") if "iree" in str(item).replace("compiler='iree'", "")]
    assert not [item for item in rule.candidates_for("iree") if isinstance(item, LaunchOption)]


def test_a_plain_list_is_for_every_compiler(tmp_path: Path) -> None:
    text = """
classes:
  - class: mine
    rank: 5
    explanation: A test.
    remedies: {iree: [Less.], command: More.}
    examples: [{text: "error: mine"}]
    near_misses: ["mine"]
    patterns: ["^mine"]
    candidates: LIST
"""
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("LIST", "[{give: --a=b}]"))
    rule = load_rules([path]).by_name["mine"]
    assert rule.candidates_for("iree") == rule.candidates_for("command") == (GiveFlag("--a=b"),)
    [failure] = scan_output(b"error: mine\n", rules=load_rules([path]))
    assert [failure.advice(compiler) for compiler in ("iree", "command", "triton")] == [("Less.",), ("More.",), ()]
    assert failure.advice(None) == ("Less.", "More.")
    path.write_text(text.replace("LIST", "{command: [{give: --a=b}, {give: nothing}]}"))
    with pytest.raises(BadFiles) as error:
        load_rules([path])
    assert [problem.line for problem in error.value.problems] == [10]
