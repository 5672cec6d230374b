"""A night of two releases whose regression is narrowed to one commit of the compiler's real history.

Needs a clone of iree-org/iree with its tags, which TRIAGE_TEST_IREE_CLONE names. The history is real and so are the compilers
of both releases; the culprit is planted, because no compilers of the commits between them are kept.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage
from tests.real.served_commits import PROJECT, served_commits
from tests.toolchains.sources.loopback_github import TOKEN

CLONE = os.environ.get("TRIAGE_TEST_IREE_CLONE")
CULPRIT = "b681d633d9"
pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(CLONE is None, reason="TRIAGE_TEST_IREE_CLONE names no clone of iree-org/iree"),
]


@pytest.fixture
def releases(shared_home: Path, triage: Triage) -> tuple[Path, Path]:
    """The folders of both compilers, in a home whose other toolchains are its own."""
    assert triage("toolchains", "install", "3.2.0", "3.3.0").returncode == 0
    installed = shared_home / "toolchains"
    shared = installed.resolve()
    installed.unlink()
    installed.mkdir()
    for folder in shared.glob("iree-base-*"):
        (installed / folder.name).symlink_to(folder)
    old, new = (
        json.loads(triage("toolchains", "info", version, "-f", "json").stdout)["root"] for version in ("3.2.0", "3.3.0")
    )
    return Path(old), Path(new)


def test_a_regression_ends_at_its_commit(
    releases: tuple[Path, Path], triage: Triage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CLONE is not None
    (tmp_path / "project.yaml").write_text(PROJECT)
    with served_commits(Path(CLONE), releases, ("v3.2.0", "v3.3.0"), CULPRIT) as served:
        monkeypatch.setenv("GITHUB_API_URL", served.github.url)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        clone = ["--repo", CLONE, "--project", tmp_path / "project.yaml"]
        ends = ["-t", "3.3.0", "-b", "3.2.0"]
        words = ["nightly", ROOT / "recipes" / "i4-matvec.yaml", *ends, "--investigate", *clone, "--out", "out"]
        done = triage(*words, timeout=3000)
    assert done.returncode == 1, done.stderr
    [cluster] = json.loads((tmp_path / "work" / "out" / "nightly.json").read_text())["clusters"]
    assert [cluster["release_culprit"][side]["name"] for side in ("before", "after")] == ["3.2.0", "3.3.0"]
    culprit = cluster["culprit"]
    assert culprit["status"] == "culprit", culprit
    assert culprit["after"]["commit"] == served.line[served.culprit]
    assert culprit["before"]["commit"] == served.line[served.culprit - 1]
    assert [suspect["pull_request"] for suspect in culprit["suspects"]] == [20220]
    assert len(served.served) <= 16
    assert len(served.with_artifact) < len(served.line)
    steps = {step["step"]: step["status"] for step in cluster["steps"]}
    assert {steps[name] for name in ("bisect", "narrow", "attribute", "reduce", "replay", "issue")} == {"done"}
    assert CULPRIT in (tmp_path / "work" / cluster["issue"]).read_text()
