"""Commit bisects between nightlies that a page lists, with their commits known from
tags.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bisect.driving import CULPRIT, MIXED, answered, counted, is_culprit, words
from tests.bisect.small_compiler import (
    Fate,
    SmallCompiler,
    begin,
    compile_commit,
    wheel_of,
)
from tests.conftest import Triage
from tests.toolchains.loopback import LoopbackIndex, serve

# of January 2026; commits are an hour apart, and the nightly is of five o'clock
DAYS = range(2, 10)
NOT_PUBLISHED = 4
MOVED = 8  # built after the culprit; its tag is moved to the commit before the culprit


def at_five(day: int) -> int:
    return 24 * (day - 1) + 5


@dataclass(frozen=True)
class Nightlies:
    small: SmallCompiler
    server: LoopbackIndex
    sources: str

    def fetched(self) -> int:
        """Count the wheels that were downloaded."""
        return sum(".whl" in path for path in self.server.requests)


@pytest.fixture
def nightlies(tmp_path: Path) -> Iterator[Nightlies]:
    fates = list(MIXED)
    for day in DAYS:
        fates[at_five(day)] = Fate.SOUND
    small = begin(tmp_path / "repo", fates, CULPRIT, suspicious=180)
    web = tmp_path / "web"
    web.mkdir()
    for day in DAYS:
        version, sha = f"9.9.9rc202601{day:02}", small.shas[at_five(day)]
        subprocess.run(
            ["git", "-C", str(small.path), "tag", f"iree-{version}", sha], check=True
        )
        program = compile_commit(small, sha, tmp_path / "compiled" / str(day))
        assert program is not None
        if day != NOT_PUBLISHED:
            wheel_of(program, version).rename(
                web / f"iree_base_compiler-{version}-cp311-cp311-linux_x86_64.whl"
            )
    subprocess.run(
        [
            "git",
            "-C",
            str(small.path),
            "tag",
            f"wip-202601{DAYS[-1]:02}",
            small.shas[3],
        ],
        check=True,
    )
    links = "".join(
        f"<a href={path.name}>{path.name}</a><br>" for path in sorted(web.glob("*.whl"))
    )
    (web / "links.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    with serve(web) as server:
        page = server.url.replace("/simple/", "/links.html")
        yield Nightlies(
            small,
            server,
            f'distribution: iree-base-compiler\nnightlies: {{find-links: "{page}", tags: "iree-{{version}}"}}\n',
        )


def between_nightlies(one: Nightlies, recipe: Path, project: Path) -> list[str]:
    asked = words(one.small, recipe, project, "--jobs", "2")
    return [
        *asked,
        "--good",
        f"nightly:2026-01-{DAYS[0]:02}",
        "--bad",
        f"nightly:2026-01-{DAYS[-1]:02}",
    ]


def test_a_script_goes_on_between_two_nightlies_and_for_one_whose_tag_was_moved(
    nightlies: Nightlies,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
    calls: Path,
) -> None:
    command.write_text(command.read_text() + nightlies.sources)
    git = ("git", "-C", str(nightlies.small.path))
    subprocess.run(
        [
            *git,
            "tag",
            "--force",
            f"iree-9.9.9rc202601{MOVED:02}",
            nightlies.small.shas[CULPRIT - 1],
        ],
        check=True,
    )
    found = answered(triage(*between_nightlies(nightlies, recipe, command)))
    assert is_culprit(found, nightlies.small)
    assert nightlies.fetched() >= 2
    published = {
        nightlies.small.shas[at_five(day)]
        for day in DAYS
        if day not in (NOT_PUBLISHED, MOVED)
    }
    # a wheel is cheaper than a build
    assert not published & set(counted(calls, "build"))
