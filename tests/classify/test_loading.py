"""Rules of the user's own, and what is said of wrong ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from triage.classify import Scanner, diagnose, load_rules, packaged_rules
from triage.classify.rule import detail
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


def write(folder: Path, text: str, name: str = "own.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def scan(text: str, rules):
    scanner = Scanner(rules)
    scanner.feed(text.encode())
    return scanner.finish()


def test_an_own_class_needs_no_python(tmp_path: Path) -> None:
    rules = load_rules([write(tmp_path, OWN)])
    assert len(rules) == len(packaged_rules()) + 1
    (failure,) = scan("  %1 = text of any kind, purple level 12 in kitchen\n", rules)
    assert failure.signature == "too-purple:kitchen"
    assert failure.family == "mine"
    assert failure.phase == "flow"
    assert failure.details == {"level": 12, "where": "kitchen"}
    rule = next(rule for rule in rules if rule.name == "too-purple")
    assert rule.says_nothing is Cause.ENVIRONMENT


def test_a_folder_and_a_replacement(tmp_path: Path) -> None:
    write(tmp_path, OWN.replace("too-purple", "dominance"))
    rules = load_rules([tmp_path])
    assert len(rules) == len(packaged_rules())
    assert scan("error: purple level 3 in hall\n", rules)[0].failure_class == "dominance"


def test_every_problem_is_told_with_its_place(tmp_path: Path) -> None:
    text = OWN.replace("rank: 15", "rank: high").replace("phase: flow", "colour: red").replace("environment", "weather")
    text = text.replace("(?P<level>", "(?P<level").replace("identity: [where]", "identity: [shade]")
    with pytest.raises(BadFiles) as caught:
        load_rules([write(tmp_path, text), write(tmp_path, "classes: [", "broken.yaml"), tmp_path / "none.yaml"])
    assert [problem.path for problem in caught.value.problems] == [str(tmp_path / "none.yaml")]
    with pytest.raises(BadFiles) as caught:
        load_rules([write(tmp_path, text), write(tmp_path, "classes: [", "broken.yaml")])
    told = [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems]
    assert any(line.startswith("own.yaml:4:11: a rank is") for line in told)
    assert any(line.startswith("own.yaml:6:13: unknown key 'colour'") for line in told)
    assert any(line.startswith("own.yaml:5:19: unknown says_nothing 'weather'") for line in told)
    assert any("not a regular expression" in line for line in told)
    assert any("no pattern captures 'shade'" in line for line in told)
    assert any(line.startswith("broken.yaml:2:") and "not YAML" in line for line in told)


@pytest.mark.parametrize(
    "text, message",
    [
        ("- a\n", "expected a mapping"),
        ("classes: [3]\n", "expected a mapping"),
        ("family: x\nclasses: []\nmore: 1\n", "unknown key 'more'"),
        (OWN.replace("class: too-purple", "class: Too Purple"), "a class is named"),
        (OWN.replace("where: line", "where: nowhere"), "unknown `where`"),
        (OWN.replace("        anchor: purple level\n", ""), "needs `begins`"),
        (OWN.replace("    remedies: [Paint it.]\n", ""), "`remedies` is missing"),
        (OWN + OWN[OWN.index("  - class") :], "already defined"),
    ],
)
def test_problems(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadFiles, match=message):
        load_rules([write(tmp_path, text)])


def test_own_rules_serve_the_diagnosis(tmp_path: Path) -> None:
    from tests.classify.test_diagnose import ran

    rules = load_rules([write(tmp_path, OWN)])
    assert diagnose(ran("purple level 1 in hall\n"), rules=rules).failures[0].signature == "too-purple:hall"


@pytest.mark.parametrize("text, value", [("12", 12), ("-3", -3), ("1.5", "1.5"), ("0x1f", "0x1f"), ("", "")])
def test_integers_are_integers(text: str, value: object) -> None:
    assert detail(text) == value


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, triage.classify; print('pydantic' in sys.modules, 'requests' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]
