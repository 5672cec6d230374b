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
        anchor: purple level
    identity: [where]
    explanation: It is too purple.
    remedies: [Paint it.]
    examples:
      - text: "   somewhere inside a line: purple level 12 in kitchen"
        details: {level: 12}
    near_misses: ["purple"]
"""


def write_rules(folder: Path, text: str, name: str = "own.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_new_class_needs_no_python(tmp_path: Path) -> None:
    rules = load_rules([write_rules(tmp_path, OWN)])
    assert len(rules.rules) == len(packaged_rules().rules) + 1
    (failure,) = scan_output(
        b"  %1 = text of any kind, purple level 12 in kitchen\n", rules=rules
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


def test_a_rule_in_a_folder_replaces_a_packaged_one(tmp_path: Path) -> None:
    write_rules(tmp_path, OWN.replace("too-purple", "dominance"))
    rules = load_rules([tmp_path])
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


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("        anchor: purple level\n", "", 8),
        ("phase: flow", "signals: SIGILL", 6),
        ("identity: [where]", "identity: [shade]", 11),
        ("details: {level: 12}", "details: {level: 13}", 16),
        ("details: {level: 12}", 'signature: "too-purple:hall"', 16),
        ("line: purple level 12", "line: violet level 12", 15),
        ('near_misses: ["purple"]', 'near_misses: ["purple level 1 in hall"]', 17),
        (
            "near_misses:",
            'candidates: [{give: "--a", declare: devices}]\n    near_misses:',
            17,
        ),
    ],
)
def test_a_mistake_is_reported_at_its_line(
    tmp_path: Path, old: str, new: str, line: int
) -> None:
    assert old in OWN
    with pytest.raises(BadFiles) as error:
        load_rules([write_rules(tmp_path, OWN.replace(old, new))])
    assert line in {problem.line for problem in error.value.problems}, (
        error.value.problems
    )


def test_advice_for_each_compiler(tmp_path: Path) -> None:
    path = write_rules(
        tmp_path, OWN.replace("[Paint it.]", "{iree: [Less.], command: More.}")
    )
    [failure] = scan_output(b"purple level 3 in hall\n", rules=load_rules([path]))
    assert [failure.advice(compiler) for compiler in ("iree", "command", "triton")] == [
        ("Less.",),
        ("More.",),
        (),
    ]


@pytest.mark.parametrize("rule", packaged_rules().rules, ids=lambda rule: rule.name)
def test_candidates_and_advice_suit_their_compiler(rule: Rule) -> None:
    assert not [
        advice
        for advice in rule.remedies
        if advice.compiler in (None, "triton") and "--iree-" in advice.text
    ]
    assert not [item for item in rule.candidates_for("triton") if "iree" in str(item)]
    assert not [item for item in rule.candidates_for("iree") if item.option]
