"""Candidates in rule files: what is wrong with one is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.classify import Rule, load_rules, packaged_rules
from triage.classify.candidates import DeclareDevices, DropFlag, GiveFlag, LaunchOption, LeastValue, RewriteInput
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


def rules(tmp_path: Path, entry: str) -> tuple[object, ...]:
    path = tmp_path / "mine.yaml"
    path.write_text(RULE.format(entry=entry))
    return next(rule for rule in load_rules([path]) if rule.name == "mine").candidates


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
def test_each_kind(tmp_path: Path, entry: str, candidate: object) -> None:
    assert rules(tmp_path, entry) == (candidate,)


def test_values_to_search() -> None:
    assert list(LeastValue("a", 4, 9).values) == [5, 6, 7, 8, 9]
    assert list(LeastValue("a", 4, 64, doubling=True).values) == [8, 16, 32, 64]


@pytest.mark.parametrize(
    "entry, says",
    [
        ("why: c", "exactly one of"),
        ('give: "--a", drop: "--a"', "exactly one of"),
        ('give: "a=b"', "give names a flag"),
        ('drop: "--a=b"', "drop names a flag"),
        ('least: "--a", above: 9, upto: 4', "above smaller"),
        ('least: "--a"', "above and upto"),
        ("declare: globals", "only devices"),
        ("rewrite: all", "barriers, affinities"),
        ("option: num_warps", "a list of values"),
        ('give: "--a", values: [1]', "unknown key 'values'"),
        ('give: "--a", why: [1]', "why is a text"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, entry: str, says: str) -> None:
    with pytest.raises(BadFiles) as told:
        rules(tmp_path, entry)
    assert says in str(told.value)
    assert "mine.yaml:10:" in str(told.value)


@pytest.mark.parametrize("rule", packaged_rules(), ids=lambda rule: rule.name)
def test_no_compiler_is_offered_another_one_s_flags(rule: Rule) -> None:
    assert not [text for text in rule.remedies_for("triton") if "--iree-" in text]
    assert not [one for one in rule.candidates_for("triton") if "iree" in str(one).replace("compiler='iree'", "")]
    assert not [one for one in rule.candidates_for("iree") if isinstance(one, LaunchOption)]
    assert set(rule.remedies_for(None)) >= {*rule.remedies_for("iree"), *rule.remedies_for("triton")}


def test_a_list_of_one_s_own_is_for_every_compiler(tmp_path: Path) -> None:
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
    [rule] = [one for one in load_rules([path]) if one.name == "mine"]
    assert rule.candidates_for("iree") == rule.candidates_for("command") == (GiveFlag("--a=b"),)
    told = [rule.remedies_for(compiler) for compiler in ("iree", "command", "triton")]
    assert told == [("Less.",), ("More.",), ()]
    path.write_text(text.replace("LIST", "{command: [{give: --a=b}, {give: nothing}]}"))
    with pytest.raises(BadFiles, match="give names a flag") as found:
        load_rules([path])
    assert found.value.problems[0].line == 10
