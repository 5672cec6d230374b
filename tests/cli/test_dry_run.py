"""A dry run installs, downloads and compiles nothing, and says what would be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.fake_releases import environment, fake_releases, recipe

REFERENCE = (
    'run: {inputs: ["4xf32=1"], function: main, reference: {toolchain: 1.3.0}}\n'
)
ENDS = {
    "bisect": ("--good", "1.1.0", "--bad", "1.2.0"),
    "nightly": ("-b", "1.1.0", "-t", "1.2.0"),
}


def installed(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "toolchains").glob("[!.]*"))


@pytest.mark.parametrize("command", list(ENDS))
@pytest.mark.parametrize("is_installed", [False, True])
@pytest.mark.parametrize("more", ["", REFERENCE])
def test_nothing_is_installed_and_nothing_compiled(
    tmp_path: Path, triage: Triage, command: str, is_installed: bool, more: str
) -> None:
    """Also not the toolchain of a reference, without which no key is known."""
    path = recipe(tmp_path / "cases", "case", "breaks-2", more)
    with fake_releases(tmp_path / "releases", count=4) as releases:
        env = environment(releases, tmp_path / "home")
        if is_installed:
            assert not triage("toolchains", "install", "1.1.0", env=env).returncode
        before = installed(tmp_path / "home")
        done = triage(
            command, path, *ENDS[command], "--dry-run", "--format", "json", env=env
        )
        assert done.returncode == 0, done.stderr
        forecast = json.loads(done.stdout)
        assert {
            probe["toolchain"]: (probe["known"], probe["installed"])
            for probe in forecast["probes"]
        } == {"1.1.0": (None, is_installed), "1.2.0": (None, False)}
        assert installed(tmp_path / "home") == before
        assert releases.events("start") == []


def test_a_program_without_a_recipe_is_not_tried(
    tmp_path: Path, triage: Triage, workplace: Path
) -> None:
    program = workplace / "program.mlir"
    program.write_text("func.func @f() { return } // breaks-2\n")
    with fake_releases(tmp_path / "releases", count=4) as releases:
        env = environment(releases, tmp_path / "home")
        words = ("bisect", program, *ENDS["bisect"])
        done = triage(*words, "--dry-run", env=env)
        assert done.returncode == 0, done.stderr
        assert installed(tmp_path / "home") == []
        assert releases.events("start") == []
        assert triage(*words, env=env).returncode == 0, "the guess is corrected then"


@pytest.mark.parametrize(
    "words",
    [
        ("run", "case.yaml"),
        ("bench", "case.yaml"),
        ("history", "case.yaml"),
        ("reduce", "case.yaml", "-t", "1.2.0"),
        ("remedy", "case.yaml", "-t", "1.2.0"),
        ("expect", "update", "case.yaml"),
        ("toolchains", "prune"),
    ],
)
def test_other_commands_have_no_dry_run(
    home: Path, triage: Triage, words: tuple[str, ...]
) -> None:
    done = triage(*words, "--dry-run")
    assert done.returncode == 2
    assert "--dry-run" in done.stderr
