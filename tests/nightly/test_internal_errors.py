"""A defect of the program that one case brings out is reported with that case; the night goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from tests.fake_releases import FakeReleases, environment, fake_releases, write_case
from triage.cli.app import app
from triage.execution import make


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    with fake_releases(tmp_path_factory.mktemp("releases"), count=2) as made:
        yield made


@pytest.fixture
def cases(releases: FakeReleases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in environment(releases, tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    for name, words in {"steady": (), "broken": (), "breaks": ("breaks-1",)}.items():
        write_case(tmp_path / "cases", name, *words)
    return tmp_path / "cases"


def nightly(cases: Path, *words: str) -> Result:
    result = CliRunner().invoke(app, ["nightly", str(cases), "-t", "1.1.0", "-b", "1.0.0", "--out", str(cases / "out"), *words])
    assert "Traceback" in result.stderr
    assert "ZeroDivisionError" in result.stderr
    ElementTree.parse(cases / "out" / "nightly.xml")
    return result


def report(cases: Path) -> dict[str, object]:
    answer: dict[str, object] = json.loads((cases / "out" / "nightly.json").read_text())
    return answer


def not_tested(answer: dict[str, object]) -> list[dict[str, str]]:
    return [case for case in answer["cases"] if case["change"] == "untestable"]  # type: ignore[attr-defined]


def raising(name: str, function: object) -> object:
    def raise_for(*values: object, **named: object) -> object:
        if any(getattr(getattr(value, "case", value), "name", None) == name for value in values):
            raise ZeroDivisionError(name)
        return function(*values, **named)  # type: ignore[operator]

    return raise_for


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_an_error_while_a_case_is_judged(cases: Path, monkeypatch: pytest.MonkeyPatch, quiet: tuple[str, ...]) -> None:
    (cases / "breaks.yaml").unlink()
    monkeypatch.setattr(make, "rules_of", raising("broken", make.rules_of))
    result = nightly(cases, *quiet)
    assert result.exit_code == 4
    answer = report(cases)
    assert (answer["unchanged"], answer["untestable"], answer["partial"]) == (1, 1, False)
    [untested] = not_tested(answer)
    assert untested["case"] == "broken"
    assert "ZeroDivisionError" in untested["reason"]
    assert "broken" in result.stdout
