"""Commit bisects whose compilers are artifacts of a packaging workflow, some of them missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bisect.driving import CULPRIT, answered, is_culprit, words
from tests.bisect.small_compiler import SmallCompiler, compile_commit, wheel_of
from tests.conftest import Triage
from tests.toolchains.sources.loopback_github import TOKEN, archive, serve_github

FIRST, LAST = 141, 168
EXPIRED = frozenset({143, 146, 147, 157})
CORRUPT = 145
RUNNING = 154


def test_artifacts_of_commits(
    small: SmallCompiler,
    recipe: Path,
    project: Callable[[str], Path],
    triage: Triage,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = "distribution: iree-base-compiler\nartifacts:\n  workflow: pkgci.yml\n"
    sources += '  artifact: linux_x86_64_release_packages\n  wheel: "iree_base_compiler-*.whl"\n  branch: main\n'
    wheels = {at: wheel for at in range(FIRST, LAST + 1) if (wheel := artifact(small, at, tmp_path))}
    for name, gone in (("all", frozenset()), ("neighbours", frozenset({CULPRIT - 1, CULPRIT + 1})), ("it", {CULPRIT})):
        monkeypatch.setenv("TRIAGE_HOME", str(home / name))
        with serve_github() as github:
            monkeypatch.setenv("GITHUB_API_URL", github.url)
            monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
            for at in range(FIRST, LAST + 1):
                day = f"2026-01-{1 + at // 24:02}T{at % 24:02}:05:00Z"
                if at == RUNNING:
                    github.run(small.shas[at], day, status="in_progress", conclusion=None)
                elif at not in wheels:
                    github.run(small.shas[at], day, conclusion="failure")
                else:
                    data = b"PK\x03\x04 cut off" if at == CORRUPT else wheels[at]
                    github.run(small.shas[at], day, data, expired=at in EXPIRED or at in gone)
            github.refusals = [(429, {"Retry-After": "0"})]
            done = triage(*words(small, recipe, project(sources), first=FIRST, last=LAST))
            reasons = {one["revision"]["commit"]: one["reason"] for one in json.loads(done.stdout)["untestable"]}
            for at, reason in ((small.shas.index(sha), reason) for sha, reason in reasons.items()):
                if at in EXPIRED or at in gone:
                    assert "expired" in reason
                elif at == RUNNING:
                    assert "is not over (in progress)" in reason
                elif at == CORRUPT:
                    assert "damaged" in reason
                else:
                    assert "ended as failure" in reason
            if name == "all":
                assert is_culprit(answered(done), small)
            else:
                found = answered(done, status=3)
                named = [one["commit"] for one in found["suspects"]]
                assert small.sha in named
                assert len(named) == 2
                assert found["status"] == "suspects"
            assert github.asked["zip"] <= 12


def artifact(small: SmallCompiler, at: int, folder: Path) -> bytes | None:
    program = compile_commit(small, small.shas[at], folder / "compiled" / str(at))
    if program is None:
        return None
    return archive(wheel_of(program, f"9.9.9.dev0+{small.shas[at][:10]}"))
