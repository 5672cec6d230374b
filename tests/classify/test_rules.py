"""Every packaged rule matches its examples and no near miss. A user's own rules join
them, and their mistakes have positions.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from tests.classify.samples import scan_output
from triage.classify import Rule, load_rules, packaged_rules
from triage.classify.log import MOST_CHARACTERS
from triage.model import content
from triage.model.errors import BadFiles
from triage.model.outcome import Cause

PACKAGED = packaged_rules().rules
OWN = """\
family: mine
classes:
  - class: too-purple
    rank: 15
    says_nothing: environment
    phase: flow
    patterns:
      - regex: "purple level (?P<level>\\\\d+) in (?P<where>\\\\w+)"
        where: line
    identity: [where]
    explanation: It is too purple.
    remedies: {all: [Paint it.]}
"""


@pytest.mark.parametrize("rule", PACKAGED, ids=lambda rule: rule.name)
def test_a_class_matches_its_examples_and_no_near_miss(rule: Rule) -> None:
    assert rule.examples
    assert rule.near_misses
    assert rule.explanation.endswith(".")
    for example in rule.examples:
        if not example.text:  # how a process ended; test_runs covers it
            continue
        failure = scan_output(example.text.encode())[0]
        assert (failure.failure_class, failure.family) == (rule.name, rule.family)
        assert dict(example.details).items() <= dict(failure.details).items()
        assert example.signature in (None, failure.signature)
    for text in rule.near_misses:
        seen = {failure.failure_class for failure in scan_output(text.encode())}
        assert rule.name not in seen, text


@pytest.mark.parametrize("rule", PACKAGED, ids=lambda rule: rule.name)
def test_candidates_and_advice_suit_their_compiler(rule: Rule) -> None:
    assert rule.remedies
    for advice in rule.remedies:
        assert advice.compiler == "iree" or "--iree-" not in advice.text
    assert not [item for item in rule.candidates_for("triton") if "iree" in str(item)]
    assert not [item for item in rule.candidates_for("iree") if item.option]


@pytest.mark.parametrize("rule", PACKAGED, ids=lambda rule: rule.name)
def test_no_rule_is_slow_on_a_line_that_repeats_its_words(rule: Rule) -> None:
    for pattern in rule.patterns:
        words = sorted(set(re.findall(r"[A-Za-z][A-Za-z :']{3,}", pattern.regex)))
        for text in (" ".join(words), *words):
            line = (text * MOST_CHARACTERS)[:MOST_CHARACTERS]
            started = time.process_time()
            re.compile(pattern.regex).search(f"error: {line}")
            assert time.process_time() - started < 0.5, pattern.regex


def write_rules(folder: Path, text: str, name: str = "own.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_new_class_needs_no_python(tmp_path: Path) -> None:
    rules = load_rules([write_rules(tmp_path, OWN)])
    assert len(rules.rules) == len(PACKAGED) + 1
    assert rules.by_name["too-purple"].says_nothing is Cause.ENVIRONMENT
    steps = b"step of it\n" * 9000
    line = b"  %1 = text of any kind, purple level 12 in kitchen\n"
    [failure] = scan_output(steps + line + steps, rules=rules)
    assert failure.signature == "too-purple:kitchen"
    assert (failure.family, failure.phase) == ("mine", "flow")
    assert failure.details == {"level": 12, "where": "kitchen"}


def test_a_rule_replaces_a_packaged_one(tmp_path: Path) -> None:
    rules = load_rules([write_rules(tmp_path, OWN.replace("too-purple", "dominance"))])
    assert len(rules.rules) == len(PACKAGED)
    [failure] = scan_output(b"error: purple level 3 in hall\n", rules=rules)
    assert failure.failure_class == "dominance"


def test_every_mistake_of_every_file_has_its_position(tmp_path: Path) -> None:
    text = OWN.replace("rank: 15", "rank: high").replace("phase: flow", "colour: red")
    text = text.replace("environment", "weather").replace("(?P<level>", "(?P<level")
    paths = [write_rules(tmp_path, text), tmp_path / "none.yaml"]
    paths.append(write_rules(tmp_path, "classes: [", "broken.yaml"))
    with pytest.raises(BadFiles) as error:
        load_rules(paths)
    assert {
        (Path(problem.path).name, problem.line, problem.column)
        for problem in error.value.problems
    } == {
        ("none.yaml", None, None),
        ("own.yaml", 4, 11),  # rank
        ("own.yaml", 5, 19),  # says_nothing
        ("own.yaml", 6, 5),  # colour
        ("own.yaml", 8, 16),  # the regex
        ("broken.yaml", 2, 1),
    }


def test_a_data_file_is_parsed_once_and_again_when_it_or_its_copy_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(content, "__file__", str(tmp_path / "module.py"))
    source, parsed = tmp_path / "words.txt", []

    def words() -> list[str]:
        parsed.append(source.read_text())
        return parsed[-1].split()

    def read() -> list[str]:
        return content.cached_in_file("words", [source], words)

    for number, text in enumerate(("a b", "a b c"), 1):
        source.write_text(text)
        for _ in range(3):
            assert read() == text.split()
        assert len(parsed) == number
    [copy] = (tmp_path / "__pycache__").iterdir()
    copy.write_bytes(b"\x80\x05garbage")
    assert read() == ["a", "b", "c"]
    assert len(parsed) == 3
