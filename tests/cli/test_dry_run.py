"""A dry run installs, downloads and compiles nothing, and says what would be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Asked
from tests.fake_releases import FakeReleases, environment, recipe

RELEASES = 4
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
@pytest.mark.parametrize("more", ["", REFERENCE])
def test_nothing_is_installed_and_nothing_compiled(
    tmp_path: Path, releases: FakeReleases, asked: Asked, command: str, more: str
) -> None:
    """Also not the toolchain of a reference, without which no key is known."""
    path = recipe(tmp_path / "cases", "case", "breaks-2", more)
    env = environment(releases, tmp_path / "home")
    asked("toolchains", "install", "1.1.0", env=env)
    before = installed(tmp_path / "home")
    forecast = asked(command, path, *ENDS[command], "--dry-run", env=env)
    probes = {probe["toolchain"]: probe for probe in forecast["probes"]}
    states = {name: (row["known"], row["installed"]) for name, row in probes.items()}
    assert states == {"1.1.0": (None, True), "1.2.0": (None, False)}
    assert installed(tmp_path / "home") == before
    assert releases.events("start") == []
