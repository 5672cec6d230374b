"""Every ending of a case in every command that reports it, in every format.

One night of a fake compiler has a case for each ending. What holds for all: no
traceback, the exit code of the ending, each case counted once, JSON without NaN, no
folder of this machine in Markdown and HTML, no control character.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import Triage
from tests.fake_releases import environment, fake_releases, recipe

EXPECTED = "expect: [{failure: shared-memory-overflow, since: '1.1.0'}]"


@dataclass(frozen=True)
class Ending:
    """A case: its words, what it does with 1.1.0, and the change since 1.0.0."""

    words: str
    status: str
    change: str
    run: int
    """The exit code of `triage run` on 1.1.0 for this case alone."""
    night: int
    """The exit code of a night of this case alone."""
    more: str = ""


ENDINGS = {
    "passes": Ending("", "passed", "passing", 0, 0),
    "fails": Ending("breaks-1", "failed", "regressed", 1, 1),
    "fails-as-before": Ending("breaks-0", "failed", "failing", 1, 0),
    "fails-otherwise": Ending("breaks-0 differs-1", "failed", "changed", 1, 1),
    "is-fixed": Ending("breaks-0 fixed-1", "passed", "fixed", 0, 0),
    "crashes": Ending("crashes-1", "failed", "regressed", 1, 1),
    "times-out": Ending("sleeps-1", "failed", "regressed", 1, 1),
    "untestable-now": Ending("unreadable-1", "untestable", "untestable", 3, 3),
    "untestable-before": Ending("read-from-1", "passed", "untestable", 0, 3),
    "never-testable": Ending("unreadable", "untestable", "untestable", 3, 3),
    "new-untested": Ending("read-from-1 breaks-1", "failed", "new-untested", 1, 1),
    "expected": Ending("breaks-1", "xfail", "known", 0, 0, EXPECTED),
    "unexpected-pass": Ending("", "xpass", "unexpected-pass", 0, 0, EXPECTED),
}
# What these end with is decided elsewhere, or changes from run to run.
LOOSE = {"flaky": "flips {flag}", "no-output": "silent-1"}
FORMATS = ("text", "verbose", "markdown", "html", "json", "junit")
PAGES = FORMATS[:-1]
# Each command with the formats that it has. `{cases}` is the folder of all cases.
NIGHT = ("nightly", "{cases}", "-t", "1.1.0", "-b", "1.0.0")
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "run": (("run", "{cases}", "-t", "1.1.0"), FORMATS),
    "run two": (("run", "{cases}", "-t", "1.0.0", "-t", "1.1.0"), FORMATS),
    "history": (("history", "{cases}", "--until", "1.1.0"), PAGES),
    "nightly": (NIGHT, FORMATS),
    "merge": (("nightly", "merge", "shard-1", "shard-2"), FORMATS),
    "merge one": (("nightly", "merge", "shard-1"), FORMATS),
    "list": (("nights", "list"), PAGES),
    "night": (("nights", "show", "1"), FORMATS),
    "site": (("site", "--out", "public"), PAGES),
}


@dataclass
class Lab:
    """A home with a night of all endings, its two shards, and how to call commands."""

    folder: Path
    call: Callable[..., subprocess.CompletedProcess[str]]
    results: dict[str, str]
    """The change of each case."""

    def answer(self, *words: str) -> subprocess.CompletedProcess[str]:
        named = [word.format(cases="cases") for word in words]
        done = self.call(*named)
        assert "Traceback" not in done.stderr, done.stderr
        assert "internal error" not in done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    """A folder with the cases, and releases for them."""
    place = tmp_path_factory.mktemp("matrix")
    more = "phase: executable-targets\nlimits: {timeout: 1s, memory: 1GiB}\n"
    words = {name: (ending.words, ending.more) for name, ending in ENDINGS.items()}
    words |= {
        name: (text.format(flag=place / "flag"), "") for name, text in LOOSE.items()
    }
    for name, (text, own) in words.items():
        recipe(place / "cases", name, f"{text} {name}", more + own)
    with fake_releases(place / "releases", count=2, logged=False) as releases:
        yield place, environment(releases, place / "home")


@pytest.fixture
def lab(folder: tuple[Path, Any], triage: Triage) -> Lab:
    place, env = folder

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return triage(*words, env=env, cwd=place)

    lab = Lab(place, call, {})
    if not (place / "shard-1").is_dir():
        for number in (1, 2):
            part = (f"--shard={number}/2", "--out", f"shard-{number}")
            assert lab.answer(*NIGHT, *part).returncode == 1
        # a worker may get the tests of what is stored without those that store it
        assert lab.answer(*NIGHT).returncode == 1
    for number in (1, 2):
        document = json.loads((place / f"shard-{number}" / "nightly.json").read_text())
        lab.results |= {case["case"]: case["change"] for case in document["cases"]}
    return lab


def strict_json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"JSON has no {constant}")

    return json.loads(text, parse_constant=refuse)


def check_text(done: subprocess.CompletedProcess[str], place: Path, kind: str) -> None:
    """Check what holds for each output."""
    for stream in (done.stdout, done.stderr):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", stream)
    if kind in ("markdown", "html"):
        assert str(place) not in done.stdout
        assert not re.search(r"\b[0-9a-f]{64}\.\w+", done.stdout)
    assert not re.search(r"\d(?:\.\d+)?e[+-]\d", done.stdout), "a number"
    assert 'triage: {"' not in done.stdout


def check_junit(text: str) -> Counter[str]:
    """Check that each case is there once; return how many ended in which way."""
    suite = ElementTree.fromstring(text).find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    names = [case.get("name") for case in cases]
    assert len(set(names)) == len(names)
    tags = Counter(child.tag for case in cases for child in case)
    assert suite.get("tests") == str(len(cases))
    assert suite.get("failures") == str(tags["failure"])
    assert suite.get("skipped") == str(tags["skipped"])
    return tags


def check_night(night: dict[str, Any], results: dict[str, str]) -> None:
    """Check that each case of a night is counted once, whatever counts it."""
    names = [case["case"] for case in night["cases"]]
    assert len(set(names)) == len(names)
    assert {case["case"]: case["change"] for case in night["cases"]} == results
    assert sum(night["changes"].values()) == len(names)
    assert sum(verdict["cases"] for verdict in night["verdict"]) == len(names)
    new = {name for name, change in results.items() if is_new(change)}
    broken = sum(verdict["broken"] for verdict in night["verdict"])
    failures = sum(verdict["failures"] for verdict in night["verdict"])
    clustered = [name for cluster in night["clusters"] for name in cluster["cases"]]
    assert (broken, sorted(clustered)) == (len(new), sorted(new))
    assert failures == len(night["clusters"])
    done = [to_do["cluster"] for to_do in night["to_do"]]
    assert done == [cluster["id"] for cluster in night["clusters"]]


def is_new(change: str) -> bool:
    return change in ("regressed", "changed", "new-untested")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (command, output)
        for command, (_, outputs) in COMMANDS.items()
        for output in outputs
    ],
)
def test_each_command_tells_every_ending_in_each_format(
    lab: Lab, command: str, output: str
) -> None:
    words, _ = COMMANDS[command]
    if output == "verbose":
        done = lab.answer("--verbose", *words)
    else:
        done = lab.answer(*words, "--format", output)
    fails = command in ("run", "run two", "nightly", "merge", "merge one")
    assert done.returncode == int(fails), done.stderr
    check_text(done, lab.folder, output)
    if output == "junit":
        tags = check_junit(done.stdout)
        if command in ("nightly", "merge", "night"):
            assert tags["failure"] == sum(map(is_new, lab.results.values()))
    if output == "json":
        answer = strict_json(done.stdout)
        if command in ("nightly", "merge", "night"):
            check_night(answer, lab.results)
        if command.startswith("run"):
            cells = [
                (row["case"], row["toolchain"]["name"]) for row in answer["results"]
            ]
            count = len(lab.results) * words.count("-t")
            assert len(set(cells)) == len(cells) == count
        if command == "history":
            assert sorted(one["case"] for one in answer["cases"]) == sorted(lab.results)
    if output == "text" and command in ("nightly", "merge", "night"):
        assert len(done.stdout.splitlines()) <= 40


@pytest.mark.parametrize("name", list(ENDINGS))
def test_each_ending_has_its_status_its_change_and_its_exit_codes(
    lab: Lab, name: str
) -> None:
    ending, path = ENDINGS[name], f"cases/{name}.yaml"
    ran = lab.answer("run", path, "-t", "1.1.0", "--format", "json")
    [result] = strict_json(ran.stdout)["results"]
    assert (result["status"], ran.returncode) == (ending.status, ending.run)
    night = ("nightly", path, "-t", "1.1.0", "-b", "1.0.0")
    done = lab.answer(*night, "--format", "json")
    [case] = strict_json(done.stdout)["cases"]
    assert (case["change"], done.returncode) == (ending.change, ending.night)
    strict = lab.answer(*night, "--strict", "--format", "junit")
    tags = check_junit(strict.stdout)
    passes_unexpectedly = ending.change == "unexpected-pass"
    is_red = is_new(ending.change) or passes_unexpectedly
    assert (strict.returncode == 1, tags["failure"]) == (is_red, int(is_red))
    strict = lab.answer("run", path, "-t", "1.1.0", "--strict", "--format", "junit")
    is_red = ending.run == 1 or passes_unexpectedly
    tags = check_junit(strict.stdout)
    assert (strict.returncode == 1, tags["failure"]) == (is_red, int(is_red))


# JSON for each ending, and the other formats in turn.
SHOWN = [
    (name, output)
    for number, name in enumerate([*ENDINGS, *LOOSE])
    for output in ("json", ("text", "markdown", "html")[number % 3])
]


@pytest.mark.parametrize(("name", "output"), SHOWN)
def test_show_tells_each_ending(lab: Lab, name: str, output: str) -> None:
    night = ("nightly", f"cases/{name}.yaml", "-t", "1.1.0", "-b", "1.0.0")
    lab.answer(*night)
    done = lab.answer("show", name, "--format", output)
    assert done.returncode == 0
    check_text(done, lab.folder, output)
    assert name in done.stdout
    if output == "json":
        answer = strict_json(done.stdout)
        states = [state["toolchain"]["name"] for state in answer["states"]]
        assert len(set(states)) == len(states)
        pages = [failure["page"] for failure in answer["failures"]]
        assert len(set(pages)) == len(pages)


def test_a_night_takes_the_cases_that_a_pattern_names(lab: Lab) -> None:
    words = (*NIGHT, "--case", "fa*ls", "--format", "json")
    cases = strict_json(lab.answer(*words).stdout)["cases"]
    assert [case["case"] for case in cases] == ["fails"]


def test_each_log_of_a_night_is_classified_as_the_night_says(lab: Lab) -> None:
    for number in (1, 2):
        out = lab.folder / f"shard-{number}"
        night = json.loads((out / "nightly.json").read_text())
        for case in night["cases"]:
            # of a killed process, no log says how it ended
            if not case["log"] or case["case"] in ("crashes", "times-out"):
                continue
            path = str((out / case["log"]).relative_to(lab.folder))
            done = lab.answer("classify", path, "--format", "json")
            [log] = strict_json(done.stdout)["logs"]
            assert done.returncode == 1
            assert log["failures"][0]["signature"] == case["failure"]["signature"]
