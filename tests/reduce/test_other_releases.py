"""What a reproducer says of other releases than the one that it was reduced on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.fake_releases import recipe

pytestmark = pytest.mark.usefixtures("with_releases")


def test_a_newer_good_release_is_named_after_the_bad_one(
    triage: Triage, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "case", "breaks-1\n// fixed-4 newer")
    words = ("-t", "1.2.0", "--good", "1.5.0", "--out", tmp_path / "out")
    done = triage("reduce", path, *words, "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["lines"]["after"] == 2
    readme = Path(answer["reproducer"], "README.md").read_text()
    assert "It passes with 1.5.0" in readme
    assert "compare/1.5.0" not in readme


def test_a_good_release_that_fails_in_another_way_is_refused(
    triage: Triage, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "case", "differs-5\n// breaks-2")
    done = triage("reduce", path, "-t", "1.3.0", "--good", "1.5.0")
    assert done.returncode == 3
    assert "it fails on 1.5.0, the --good version, too" in done.stdout
