"""An interactive bisect on the command line, with a compiler that is really built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bisect.driving import CULPRIT, answered, counted, is_culprit, words
from tests.bisect.small_compiler import SmallCompiler
from tests.conftest import Triage


def test_a_person_leads_and_resumes(
    small: SmallCompiler, recipe: Path, command: Path, triage: Triage, home: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    asked = words(small, recipe, command, "--jobs", "1", "--interactive", first=100, last=199)
    done = triage(*asked, input=f"\n\ngood {small.shas[101]}\nlog\ngood nothing\nquit\n")
    assert done.returncode == 130, done.stderr
    assert f"good  {small.shas[101][:10]}  person" in done.stderr
    assert "'nothing' is not one of the 100 candidates" in done.stderr
    first = counted(calls)
    calls.unlink()
    done = triage(*asked, "--resume", input="\n" * 30)
    assert "resumed: 3 verdicts" in done.stderr
    assert is_culprit(answered(done), small)
    assert not {sha for sha in counted(calls) if sha in first} - {small.shas[CULPRIT - 1], small.sha, small.shas[199]}
