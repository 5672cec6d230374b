"""Reproducers are read from folders and compiled again. Letters stand for the outcomes
of versions.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.execution.damage import do, each_damage
from tests.reduce.made import outcome, reproducer
from triage.model.errors import BadFiles
from triage.model.outcome import Measured, Probe
from triage.model.revision import Revision
from triage.reduce.replay import Replay, Replays, open_reproducers, replay
from triage.report.reproducer import write_reproducer
from triage.toolchains.registry import ToolchainRef


class FakeEngine:
    """Versions 3.0.0, 3.1.0 and so on, a letter each; `latest` is the last one."""

    def __init__(self, letters: str) -> None:
        self.letters, self.registry = letters, self

    def resolve(self, text: str, family: str) -> ToolchainRef:
        return ToolchainRef(
            family,
            Revision(f"3.{len(self.letters) - 1}.0" if text == "latest" else text),
        )

    def probe_all(self, jobs: Sequence, what: str) -> Iterator[Probe]:
        for job in reversed(jobs):
            index = int(job.ref.revision.name.split(".")[1])
            yield Probe(
                job.case,
                job.ref.revision,
                None,
                outcome(self.letters[index]),
                Measured(),
                cached=False,
            )


def replayed(tmp_path: Path, letters: str, *named: str) -> Replay:
    write_reproducer(reproducer(), tmp_path)
    [one] = replay(
        FakeEngine(letters),
        open_reproducers([tmp_path]),
        {"iree": named} if named else None,
    )
    return one


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
    found = replayed(tmp_path, letters)
    assert (found.status, found.holds, Replays([found]).exit) == (
        status,
        holds,
        code,
    )
    assert [version.toolchain.name for version in found.versions] == list(
        dict.fromkeys(["3.2.0", f"3.{len(letters) - 1}.0"])
    )


def test_all_mistakes_of_all_folders_are_reported_together(tmp_path: Path) -> None:
    for name in "bcde":
        shutil.copytree(
            write_reproducer(reproducer(), tmp_path / "good"), tmp_path / "all" / name
        )
    wrong = tmp_path / "all"
    (wrong / "b" / "reproducer.json").write_text('{"case": "x",\n oops}')
    (wrong / "c" / "reproducer.json").write_text(
        '{"case": "", "bad": {"name": "banana"}}'
    )
    (wrong / "d" / "input.mlir").unlink()
    (wrong / "e" / "recipe.yaml").write_text("name: e\n")
    with pytest.raises(BadFiles) as raised:
        open_reproducers([wrong, tmp_path / "nowhere"])
    messages = "\n".join(
        str(problem).removeprefix(str(tmp_path)) for problem in raised.value.problems
    )
    for line in (
        "/all/b/reproducer.json: Invalid JSON",
        "/all/c/reproducer.json: case: ",
        "/all/c/reproducer.json: signature: ",
        '/all/d/recipe.yaml:4:8: "input.mlir"',
        "/all/e/recipe.yaml",
        "/nowhere: contains no reproducer",
    ):
        assert line in messages


@each_damage
def test_a_damaged_record_is_bad_input(
    triage: Triage, tmp_path: Path, damage: str
) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "reproducer.json").write_text(
        '{"case": "c", "signature": "s", "bad": {"name": "3.2.0"}}'
    )
    do(damage, tmp_path / "r" / "reproducer.json")
    done = triage("replay", tmp_path / "r")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "reproducer.json" in done.stderr or damage == "a flipped bit"
