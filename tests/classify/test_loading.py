"""A user's own rule files: how they combine with the packaged rules, and how mistakes are reported."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.classify.samples import scan_output
from tests.classify.test_diagnose import ran
from triage.classify import diagnose, load_rules, packaged_rules
from triage.classify.rules import detail
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
    assert len(rules) == len(packaged_rules()) + 1
    (failure,) = scan_output(b"  %1 = text of any kind, purple level 12 in kitchen\n", rules=rules)
    assert failure.signature == "too-purple:kitchen"
    assert failure.family == "mine"
    assert failure.phase == "flow"
    assert failure.details == {"level": 12, "where": "kitchen"}
    assert rules.by_name["too-purple"].says_nothing is Cause.ENVIRONMENT


def test_a_rule_in_a_folder_replaces_a_packaged_one(tmp_path: Path) -> None:
    write_rules(tmp_path, OWN.replace("too-purple", "dominance"))
    rules = load_rules([tmp_path])
    assert len(rules) == len(packaged_rules())
    assert scan_output(b"error: purple level 3 in hall\n", rules=rules)[0].failure_class == "dominance"


def test_every_mistake_of_every_file_has_its_position(tmp_path: Path) -> None:
    text = OWN.replace("rank: 15", "rank: high").replace("phase: flow", "colour: red").replace("environment", "weather")
    text = text.replace("(?P<level>", "(?P<level").replace("identity: [where]", "identity: [shade]")
    with pytest.raises(BadFiles) as error:
        load_rules([write_rules(tmp_path, text), write_rules(tmp_path, "classes: [", "broken.yaml"), tmp_path / "none.yaml"])
    positions = {(Path(problem.path).name, problem.line, problem.column) for problem in error.value.problems}
    assert positions == {
        ("none.yaml", None, None),
        ("own.yaml", 4, 11),  # rank
        ("own.yaml", 5, 19),  # says_nothing
        ("own.yaml", 6, 5),  # colour
        ("own.yaml", 8, 16),  # the regex
        ("own.yaml", 11, 15),  # identity
        ("broken.yaml", 2, 1),
    }


@pytest.mark.parametrize(
    "text, keyword",
    [
        ("- a\n", "mapping"),
        ("classes: [3]\n", "mapping"),
        ("family: x\nclasses: []\nmore: 1\n", '"more"'),
        (OWN.replace("class: too-purple", "class: Too Purple"), "a-z0-9-"),
        (OWN.replace("where: line", "where: nowhere"), '"nowhere"'),
        (OWN.replace("        anchor: purple level\n", ""), "`anchor`"),
        (OWN.replace("    remedies: [Paint it.]\n", ""), '"remedies"'),
        (OWN + OWN[OWN.index("  - class") :], "already defined"),
        (OWN + "family: yours\n", '"family"'),
    ],
)
def test_a_mistake_names_what_is_wrong(tmp_path: Path, text: str, keyword: str) -> None:
    with pytest.raises(BadFiles) as error:
        load_rules([write_rules(tmp_path, text)])
    [problem] = error.value.problems
    assert keyword in problem.message


@pytest.mark.parametrize(
    "old, new, column",
    [
        ("explanation: It is too purple.", "explanation: [a, b]", 18),
        ("phase: flow", "phase: [flow]", 12),
        ("phase: flow", "signals: SIGILL", 14),
        ("phase: flow", "as_read: yes", 14),
        ("phase: flow", "source_op: maybe", 16),
        ("phase: flow", "frames: {a: b}", 13),
        ("phase: flow", "context: [{regexp: a}]", 16),
        ("family: mine", "family: 3.10", 9),
        ("[Paint it.]", "{iree: 5}", 22),
        ('["purple"]', "[7]", 19),
    ],
)
def test_each_value_is_checked(tmp_path: Path, old: str, new: str, column: int) -> None:
    path = write_rules(tmp_path, OWN.replace(old, new))
    with pytest.raises(BadFiles) as error:
        load_rules([path])
    line = path.read_text().partition(new)[0].count("\n") + 1
    assert (line, column) in {(problem.line, problem.column) for problem in error.value.problems}


@pytest.mark.parametrize(
    "old, new",
    [
        ("details: {level: 12}", "details: {level: 13}"),
        ("details: {level: 12}", 'signature: "too-purple:hall"'),
        ("line: purple level 12", "line: violet level 12"),
        ('near_misses: ["purple"]', 'near_misses: ["purple level 1 in hall"]'),
    ],
)
def test_examples_and_near_misses_are_tried(tmp_path: Path, old: str, new: str) -> None:
    path = write_rules(tmp_path, OWN.replace(old, new))
    with pytest.raises(BadFiles) as error:
        load_rules([path])
    [problem] = error.value.problems
    assert problem.line == path.read_text().partition(new)[0].count("\n") + 1


def test_a_diagnosis_uses_the_given_rules(tmp_path: Path) -> None:
    rules = load_rules([write_rules(tmp_path, OWN)])
    assert diagnose(ran("purple level 1 in hall\n"), rules).failures[0].signature == "too-purple:hall"


@pytest.mark.parametrize("text, value", [("12", 12), ("-3", -3), ("1.5", "1.5"), ("0x1f", "0x1f"), ("", "")])
def test_integer_captures_are_int(text: str, value: object) -> None:
    assert detail(text) == value


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, triage.classify; print(*({'pydantic', 'requests', 'yaml', 'git', 'rich'} & {*sys.modules}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == []


def test_a_regex_that_a_later_python_may_read_otherwise_is_a_mistake(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(BadFiles) as error:
        load_rules([write_rules(tmp_path, OWN.replace("purple level (?P<level>", "purple level [[](?P<level>"))])
    assert [problem.line for problem in error.value.problems][:1] == [8]
    assert not recwarn.list
