"""Reproducers are read from folders and compiled again. Letters stand for the outcomes
of versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.execution.damage import do, each_damage
from tests.reduce.made import probes, reproducer
from triage.execution.task import ProbeJob
from triage.model.outcome import Probe
from triage.model.revision import Revision
from triage.reduce.reproducer import open_reproducers, replay
from triage.reduce.result import Replays
from triage.report.reproducer import write_reproducer
from triage.toolchains.registry import ToolchainRef


class FakeEngine:
    """Versions 3.0.0, 3.1.0 and so on, a letter each; `latest` is the last one."""

    def __init__(self, letters: str) -> None:
        self.letters, self.registry = letters, self

    def resolve(self, text: str, family: str) -> ToolchainRef:
        if text == "latest":
            text = f"3.{len(self.letters) - 1}.0"
        return ToolchainRef(family, Revision(text))

    def probe_all(self, jobs: Sequence[ProbeJob], what: str) -> Iterator[Probe]:
        made = {probe.revision.name: probe for probe in probes(self.letters)}
        for job in reversed(jobs):
            yield replace(made[job.ref.revision.name], case=job.case)


@pytest.mark.parametrize(
    ("letters", "status", "holds", "code"),
    [
        ("PUFP", "fixed", True, 0),
        ("PUPP", "fixed", False, 1),
        ("PUGF", "reproduces", False, 1),
        ("PUUP", "fixed", None, 3),
        ("PUF", "reproduces", True, 0),
    ],
)
def test_the_recorded_version_and_the_newest_are_compiled(
    tmp_path: Path, letters: str, status: str, holds: bool | None, code: int
) -> None:
    write_reproducer(reproducer(), tmp_path)
    [result] = replay(FakeEngine(letters), open_reproducers([tmp_path]))  # type: ignore[arg-type]
    assert (result.status, result.holds) == (status, holds)
    assert Replays([result]).exit == code
    assert [version.toolchain.name for version in result.versions] == list(
        dict.fromkeys(["3.2.0", f"3.{len(letters) - 1}.0"])
    )


@each_damage
def test_a_damaged_record_is_bad_input(
    triage: Triage, tmp_path: Path, damage: str
) -> None:
    record = tmp_path / "reproducer.json"
    record.write_text('{"case": "c", "signature": "s", "bad": {"name": "3.2.0"}}')
    do(damage, record)
    done = triage("replay", tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "reproducer.json" in done.stderr or damage == "a flipped bit"
