"""A bisect whose test is a script of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bisect.driving import answered
from tests.bisect.test_python_compiler import COUNT, CULPRIT, clone
from tests.bisect.tiny_compiler import COPIED
from tests.conftest import Triage
from tests.git_history.history import History

__all__ = ["clone"]  # a fixture
SCRIPT = """#!/bin/sh
echo "test" >> "$CALLS"
grep -q "sound 7" "$TRIAGE_TOOLCHAIN/tinyc.py" && exit 125
python3 "$TRIAGE_TOOLCHAIN/tinyc.py" "${1:-$0}" >/dev/null
"""


@pytest.fixture
def script(workplace: Path) -> Path:
    path = workplace / "check.sh"
    path.write_text(SCRIPT.replace("$CALLS", str(workplace.parent / "calls")))
    path.chmod(0o755)
    return path


def test_commits_are_tested_by_a_script(
    clone: History, script: Path, triage: Triage, workplace: Path, home: Path
) -> None:
    (workplace / "triage.yaml").write_text(COPIED)
    ends = ["--good", f"HEAD~{COUNT - 1}", "--bad", "HEAD", "--repo", clone.path]
    words = ["bisect", "--script", "check.sh", *ends, "--format", "json"]
    found = answered(triage(*words))
    assert found["after"]["subject"] == f"change {CULPRIT}"
    assert found["confirmed"]
    assert "lost a symbol" in found["failure"]["headline"]
    skips = found["untestable"]
    assert all("skips it (exit code 125)" in one["reason"] for one in skips)
    log = found["log"]
    assert len(log) == found["probes"]
    assert {one["verdict"] for one in log} >= {"good", "bad"}
    bad = {one["failure"] for one in log if one["verdict"] == "bad"}
    assert bad == {found["failure"]["signature"]}
    # the same test is not repeated, except to confirm; another test is
    calls = workplace.parent / "calls"
    first = len(calls.read_text().splitlines())
    answered(triage(*words))
    second = len(calls.read_text().splitlines()) - first
    assert second < first
    script.write_text(script.read_text() + "# changed\n")
    calls.unlink()
    answered(triage(*words))
    assert len(calls.read_text().splitlines()) == first
    shown = triage(*words[:-1], "markdown").stdout
    assert all(one["reason"] in shown for one in skips)


def test_a_script_that_cannot_start_is_a_failed_environment(
    clone: History, script: Path, triage: Triage, workplace: Path, home: Path
) -> None:
    (workplace / "triage.yaml").write_text(COPIED)
    script.write_text("#!/bin/sh\nno-such-program\n")
    ends = ["--good", f"HEAD~{COUNT - 1}", "--bad", "HEAD", "--repo", clone.path]
    done = triage("bisect", "--script", "check.sh", *ends)
    assert done.returncode == 4
    assert "no-such-program: " in done.stdout + done.stderr
