"""A user's own rule files: how they combine with the packaged rules, and how mistakes
are reported.
"""

from pathlib import Path

import pytest

from tests.classify.samples import scan_output
from tests.classify.test_diagnose import ran
from triage.classify import Rule, diagnose, load_rules, packaged_rules
from triage.model.errors import BadFiles
from triage.model.outcome import Cause

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


def write_rules(folder: Path, text: str, name: str = "own.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_new_class_needs_no_python(tmp_path: Path) -> None:
    rules = load_rules([write_rules(tmp_path, OWN)])
    assert len(rules.rules) == len(packaged_rules().rules) + 1
    (failure,) = scan_output(
        b"step of it\n" * 9000
        + b"  %1 = text of any kind, purple level 12 in kitchen\n"
        + b"step of it\n" * 9000,
        rules=rules,
    )
    assert (failure.signature, failure.family, failure.phase) == (
        "too-purple:kitchen",
        "mine",
        "flow",
    )
    assert failure.details == {"level": 12, "where": "kitchen"}
    assert rules.by_name["too-purple"].says_nothing is Cause.ENVIRONMENT
    assert (
        diagnose(ran("purple level 1 in hall\n"), rules).failures[0].signature
        == "too-purple:hall"
    )


def test_a_rule_replaces_a_packaged_one(tmp_path: Path) -> None:
    rules = load_rules([write_rules(tmp_path, OWN.replace("too-purple", "dominance"))])
    assert len(rules.rules) == len(packaged_rules().rules)
    assert (
        scan_output(b"error: purple level 3 in hall\n", rules=rules)[0].failure_class
        == "dominance"
    )


def test_every_mistake_of_every_file_has_its_position(tmp_path: Path) -> None:
    text = (
        OWN.replace("rank: 15", "rank: high")
        .replace("phase: flow", "colour: red")
        .replace("environment", "weather")
    )
    text = text.replace("(?P<level>", "(?P<level")
    with pytest.raises(BadFiles) as error:
        load_rules(
            [
                write_rules(tmp_path, text),
                write_rules(tmp_path, "classes: [", "broken.yaml"),
                tmp_path / "none.yaml",
            ]
        )
    positions = {
        (Path(problem.path).name, problem.line, problem.column)
        for problem in error.value.problems
    }
    assert positions == {
        ("none.yaml", None, None),
        ("own.yaml", 4, 11),  # rank
        ("own.yaml", 5, 19),  # says_nothing
        ("own.yaml", 6, 5),  # colour
        ("own.yaml", 8, 16),  # the regex
        ("broken.yaml", 2, 1),
    }


@pytest.mark.parametrize("rule", packaged_rules().rules, ids=lambda rule: rule.name)
def test_candidates_and_advice_suit_their_compiler(rule: Rule) -> None:
    assert not [
        advice
        for advice in rule.remedies
        if advice.compiler in (None, "triton") and "--iree-" in advice.text
    ]
    assert not [item for item in rule.candidates_for("triton") if "iree" in str(item)]
    assert not [item for item in rule.candidates_for("iree") if item.option]
