"""Every ending of a case in every command that reports it, in every format.

One night of a fake compiler has a case for each ending. What holds for all: no
traceback, the exit code of the ending, each case counted once, JSON without NaN, no
folder of this machine in Markdown and HTML, no control character.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.conftest import Triage
from tests.fake_releases import recipe

Answer = Callable[..., "CompletedProcess[str]"]

ENDINGS = yaml.safe_load(Path(__file__).with_name("endings.yaml").read_text())
DECIDED = [name for name, ending in ENDINGS.items() if "status" in ending]
EXPECT = "expect: [{failure: shared-memory-overflow, since: '1.1.0'}]"
LIMITS = "phase: executable-targets\nlimits: {timeout: 1s, memory: 1GiB}\n"
NEW = ("regressed", "changed", "new-untested")
ENDS = "-t 1.1.0 -b 1.0.0"
PAGES = ("text", "verbose", "markdown", "html", "json")
# those that fail on a new failure
RUNS = {
    "run": "run cases -t 1.1.0",
    "run two": "run cases -t 1.0.0 -t 1.1.0",
    "nightly": f"nightly cases {ENDS}",
    "merge": "nightly merge shard-1 shard-2",
    "merge one": "nightly merge shard-1",
}
OTHERS = {
    "night": "nights show 1",
    "history": "history cases --until 1.1.0",
    "list": "nights list",
    "site": "site --out public",
}
COMMANDS = RUNS | OTHERS


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the cases."""
    place = tmp_path_factory.mktemp("matrix")
    for name, ending in ENDINGS.items():
        words = ending["words"].replace("FLAG", str(place / "flag"))
        expect = EXPECT if "expected" in ending else ""
        recipe(place / "cases", name, f"{words} {name}", LIMITS + expect)
    return place


@pytest.fixture
def answer(
    place: Path, release_index: str, triage: Triage, monkeypatch: pytest.MonkeyPatch
) -> Answer:
    """Runs commands where a night of all endings is stored, with its two shards."""
    monkeypatch.setenv("TRIAGE_HOME", str(place / "home"))
    monkeypatch.setenv("TRIAGE_INDEX_URL", release_index)

    def call(line: str, *words: str) -> CompletedProcess[str]:
        done = triage(*line.split(), *words, cwd=place)
        assert "Traceback" not in done.stderr, done.stderr
        assert "internal error" not in done.stdout + done.stderr
        return done

    # a worker may get the tests of what is stored without those that store it
    if not (place / "shard-1").is_dir():
        for options in ("--shard 1/2 --out shard-1", "--shard 2/2 --out shard-2", ""):
            assert call(f"nightly cases {ENDS} {options}").returncode == 1
    return call


def shards(place: Path) -> list[Any]:
    files = [place / f"shard-{number}" / "nightly.json" for number in (1, 2)]
    return [json.loads(file.read_text()) for file in files]


@pytest.fixture
def changes(answer: Answer, place: Path) -> dict[str, str]:
    """The change of each case."""
    cases = [case for night in shards(place) for case in night["cases"]]
    return {case["case"]: case["change"] for case in cases}


def strict_json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"JSON has no {constant}")

    return json.loads(text, parse_constant=refuse)


def check_text(done: CompletedProcess[str], place: Path, kind: str) -> None:
    """Check what holds for each output."""
    for stream in (done.stdout, done.stderr):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", stream)
    if kind in ("markdown", "html"):
        assert str(place) not in done.stdout
        assert not re.search(r"\b[0-9a-f]{64}\.\w+", done.stdout)
    assert not re.search(r"\d(?:\.\d+)?e[+-]\d", done.stdout), "a number"


def check_junit(text: str) -> Counter[str]:
    """Check that each case is there once; return how many ended in which way."""
    suite = ElementTree.fromstring(text).find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    assert len({case.get("name") for case in cases}) == len(cases)
    tags = Counter(child.tag for case in cases for child in case)
    counts = [suite.get(name) for name in ("tests", "failures", "skipped")]
    assert counts == [str(len(cases)), str(tags["failure"]), str(tags["skipped"])]
    return tags


def check_night(night: dict[str, Any], changes: dict[str, str]) -> None:
    """Check that each case of a night is counted once, whatever counts it."""
    assert len(night["cases"]) == len(changes)
    assert {case["case"]: case["change"] for case in night["cases"]} == changes
    assert sum(night["changes"].values()) == len(changes)
    new = sorted(name for name, change in changes.items() if change in NEW)
    clusters, verdicts = night["clusters"], night["verdict"]
    assert sorted(name for cluster in clusters for name in cluster["cases"]) == new
    counts = [
        sum(verdict[count] for verdict in verdicts)
        for count in ("cases", "broken", "failures")
    ]
    assert counts == [len(changes), len(new), len(clusters)]
    done = [to_do["cluster"] for to_do in night["to_do"]]
    assert done == [cluster["id"] for cluster in clusters]


@pytest.mark.parametrize(
    ("command", "output"),
    [*product(COMMANDS, PAGES), *product([*RUNS, "night"], ["junit"])],
)
def test_each_command_tells_every_ending_in_each_format(
    answer: Answer, place: Path, changes: dict[str, str], command: str, output: str
) -> None:
    line = COMMANDS[command]
    if output == "verbose":
        done = answer(f"--verbose {line}")
    else:
        done = answer(f"{line} --format {output}")
    assert done.returncode == int(command in RUNS), done.stderr
    check_text(done, place, output)
    is_night = command in ("nightly", "merge", "night")
    if output == "junit":
        tags = check_junit(done.stdout)
        if is_night:
            new = [name for name, change in changes.items() if change in NEW]
            assert tags["failure"] == len(new)
    if output == "text" and is_night:
        assert len(done.stdout.splitlines()) <= 40
    if output == "json":
        result = strict_json(done.stdout)
        if is_night:
            check_night(result, changes)
        if command.startswith("run"):
            rows = result["results"]
            cells = {(row["case"], row["toolchain"]["name"]) for row in rows}
            assert len(cells) == len(rows) == len(changes) * line.count("-t")
        if command == "history":
            assert sorted(row["case"] for row in result["cases"]) == sorted(changes)


@pytest.mark.parametrize("name", DECIDED)
def test_each_ending_has_its_status_its_change_and_its_exit_codes(
    answer: Answer, name: str
) -> None:
    ending = ENDINGS[name]
    run, night = f"run cases/{name}.yaml -t 1.1.0", f"nightly cases/{name}.yaml {ENDS}"
    done = answer(f"{run} --format json")
    [result] = strict_json(done.stdout)["results"]
    assert (result["status"], done.returncode) == (ending["status"], ending["run"])
    done = answer(f"{night} --format json")
    [case] = strict_json(done.stdout)["cases"]
    assert (case["change"], done.returncode) == (ending["change"], ending["night"])
    for line, code in ((run, ending["run"]), (night, ending["night"])):
        strict = answer(f"{line} --strict --format junit")
        is_red = code == 1 or ending["status"] == "xpass"
        tags = check_junit(strict.stdout)
        assert (strict.returncode == 1, tags["failure"]) == (is_red, int(is_red))


# JSON for each ending, and the other formats in turn.
SHOWN = [
    (name, output)
    for number, name in enumerate(ENDINGS)
    for output in ("json", ("text", "markdown", "html")[number % 3])
]


@pytest.mark.parametrize(("name", "output"), SHOWN)
def test_show_tells_each_ending(
    answer: Answer, place: Path, name: str, output: str
) -> None:
    answer(f"nightly cases/{name}.yaml {ENDS}")
    done = answer(f"show {name} --format {output}")
    assert done.returncode == 0
    check_text(done, place, output)
    assert name in done.stdout
    if output == "json":
        result = strict_json(done.stdout)
        states = [state["toolchain"]["name"] for state in result["states"]]
        pages = [failure["page"] for failure in result["failures"]]
        assert len({*states, *pages}) == len(states) + len(pages)


def test_each_log_of_a_night_is_classified_as_the_night_says(
    answer: Answer, place: Path
) -> None:
    for number, night in enumerate(shards(place), 1):
        for case in night["cases"]:
            # of a killed process, no log says how it ended
            if not case["log"] or case["case"] in ("crashes", "times-out"):
                continue
            done = answer(f"classify shard-{number}/{case['log']} --format json")
            [log] = strict_json(done.stdout)["logs"]
            assert done.returncode == 1
            assert log["failures"][0]["signature"] == case["failure"]["signature"]
