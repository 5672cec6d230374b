"""Two nightlies at once on one home share their compiles."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.torture.fake_releases import environment, fake_releases, write_case

CASES = {f"case{number}": ("breaks-2",) if number % 2 else () for number in range(6)}
WORDS = ("-t", "1.2.0", "-b", "1.1.0", "--jobs", "2", "--format", "json")


@pytest.mark.slow
def test_each_case_is_compiled_by_one_of_two_nightlies(tmp_path: Path) -> None:
    for name, words in CASES.items():
        write_case(tmp_path / "cases", name, *words)
    with fake_releases(tmp_path / "releases", 3) as releases:
        env = environment(releases, tmp_path / "home")
        subprocess.run(["triage", "toolchains", "install", "1.1.0", "1.2.0"], env=env, check=True, capture_output=True)
        nights = [
            subprocess.Popen(("triage", "nightly", "cases", *WORDS), cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        answers = [json.loads(night.communicate(timeout=60)[0]) for night in nights]
        compiled = releases.events("start")
    assert sorted(set(compiled)) == sorted(compiled)
    assert len(compiled) == 2 * len(CASES)
    assert [[pair["case"] for pair in answer["regressed"]] for answer in answers] == [["case1", "case3", "case5"]] * 2
