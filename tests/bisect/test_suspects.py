"""Commits ranked before anything is built."""

from __future__ import annotations

from pathlib import Path

from tests.bisect.driving import answered
from tests.bisect.small_compiler import SmallCompiler
from tests.conftest import Triage


def test_suspects_are_ranked_without_a_compile(
    small: SmallCompiler, recipe: Path, command: Path, triage: Triage, home: Path, calls: Path, tmp_path: Path
) -> None:
    log = tmp_path / "failed.log"
    log.write_text("m.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes\n")
    ends = ("--good", f"commit:{small.shas[0]}", "--bad", small.shas[-1], "--repo", small.path, "--project", command)
    for source in (recipe, log):
        done = triage("suspects", source, *ends, "--backend", "rocm", "--format", "json")
        ranked = [one["commit"] for one in answered(done)["suspects"]]
        assert small.sha in ranked
    assert ranked[0] == small.sha
    assert not calls.exists()
    assert not (tmp_path / "made").exists()


def test_a_missing_log_is_an_error(small: SmallCompiler, triage: Triage, tmp_path: Path) -> None:
    ends = ("--good", f"commit:{small.shas[0]}", "--bad", small.shas[-1], "--repo", small.path)
    done = triage("suspects", tmp_path / "none.log", *ends)
    assert done.returncode == 2
    assert f"{tmp_path}/none.log: No such file" in done.stderr
