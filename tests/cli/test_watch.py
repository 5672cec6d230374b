"""A nightly is followed from its journal: in lines, as JSON, and on a screen with keys."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from tests.nightly.test_nightly_stopped import stop_when
from tests.torture.fake_releases import FakeReleases, environment, fake_releases, write_case
from triage.cli.app import app
from triage.execution.runner import ProbeRunner
from triage.nightly.journal import JOURNAL, NightJournal
from triage.report.watch import WatchedNight

NIGHTLY = ("triage", "nightly", "cases", "-t", "1.1.0", "-b", "1.0.0", "--jobs", "2", "--out", "out")


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    with fake_releases(tmp_path_factory.mktemp("releases"), count=2) as made:
        yield made


@pytest.fixture(scope="module")
def ended(releases: FakeReleases, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a night that has ended."""
    folder = tmp_path_factory.mktemp("night")
    for name, words in {"steady": (), "breaks": ("breaks-1",), "never": ("breaks-0",)}.items():
        write_case(folder / "cases", name, *words)
    env = environment(releases, folder / "home")
    assert subprocess.run(NIGHTLY, cwd=folder, env=env, capture_output=True, check=False).returncode == 1
    return folder / "out"


def watched(folder: Path) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["watch", str(folder), "--format", "json"])
    assert result.exit_code == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_the_state_of_a_night_that_has_ended(ended: Path) -> None:
    state = watched(ended)
    assert (state["state"], state["toolchain"], state["baseline"], state["cases"]) == ("ended", "1.1.0", "1.0.0", 3)
    assert state["counts"] == {"1.0.0": {"failed": 1, "passed": 2}, "1.1.0": {"failed": 2, "passed": 1}}
    assert state["running"] == []
    assert {(probe["case"], probe["class"]) for probe in state["failures"]} == {
        ("breaks", "shared-memory-overflow"),
        ("never", "shared-memory-overflow"),
    }


def test_the_log_of_each_failure_is_beside_the_report(ended: Path) -> None:
    cases = {case["case"]: case for case in json.loads((ended / "nightly.json").read_text())["cases"]}
    assert (cases["steady"]["log"], cases["breaks"]["baseline"]["log"]) == (None, None)
    for log in (cases["breaks"]["log"], cases["never"]["log"], cases["never"]["baseline"]["log"]):
        assert "286720 bytes of shared memory" in (ended / log).read_text()


def test_without_a_terminal_failures_are_printed_until_the_end(ended: Path) -> None:
    result = CliRunner().invoke(app, ["watch", str(ended)])
    assert result.exit_code == 0
    assert result.stdout.count("breaks  shared-memory-overflow") == 2  # as it came, and in the state at the end


def test_a_journal_is_read_as_it_grows_and_anew_for_another_night(ended: Path, tmp_path: Path) -> None:
    lines = (ended / JOURNAL).read_text().splitlines(keepends=True)
    night, path = WatchedNight(tmp_path), tmp_path / JOURNAL
    with path.open("w") as sink:
        started = next(index for index, line in enumerate(lines) if '"start"' in line) + 1
        sink.write("".join(lines[:started]) + lines[started][:20])
        sink.flush()
        night.read()
        assert len(night.running) == 1
        assert night.state == "gone"  # the process of that night has ended
        sink.write(lines[started][20:] + "".join(lines[started + 1 :]))
    night.read()
    assert (night.state, len(night.ended), night.running) == ("ended", 6, {})
    other = tmp_path / "other"
    other.write_text(lines[0])
    other.replace(path)
    night.read()
    assert (night.done, night.ended) == (False, {})


def test_a_journal_that_is_replaced_while_it_is_read_is_read_whole(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / JOURNAL, tmp_path / "other"
    whole = (ended / JOURNAL).read_bytes()
    path.write_bytes(whole.splitlines(keepends=True)[0].replace(b"1.1.0", b"1.0.1"))
    other.write_bytes(whole)
    night, opened = WatchedNight(tmp_path), Path.open

    def open_and_replace(file: Path, *args: Any, **kwargs: Any) -> Any:
        stream = opened(file, *args, **kwargs)
        if other.exists():
            other.replace(path)
        return stream

    monkeypatch.setattr(Path, "open", open_and_replace)
    night.read()
    assert not night.done
    night.read()
    assert (night.done, night.toolchain, len(night.ended)) == (True, "1.1.0", 6)


@pytest.mark.parametrize(
    "line", ['{"event": "end", "at": "2026-01-01T00:00:00Z"}', '{"event": "done", "at": "soon"}', "{", "[]"]
)
def test_a_damaged_line_of_a_journal_is_left_out(ended: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / JOURNAL).write_text(f"{line}\n{(ended / JOURNAL).read_text()}{line}\n")
    state = watched(tmp_path)
    assert (state["state"], state["cases"], len(state["failures"])) == ("ended", 3, 2)


def test_a_new_journal_is_another_file_at_once(tmp_path: Path) -> None:
    """Who follows the older one recognises it by its inode, which a file that is removed first would leave to the new one."""
    journals = []
    for _ in range(2):
        NightJournal(cast(ProbeRunner, None), tmp_path, ["case"], ("1.1.0", "1.0.0"))
        journals.append((tmp_path / JOURNAL).stat().st_ino)
    assert journals[0] != journals[1]
    assert [path.name for path in tmp_path.iterdir()] == [JOURNAL]


def test_a_folder_without_a_night_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["watch", str(tmp_path)]).exit_code == 2


@pytest.mark.slow
def test_a_night_that_was_stopped(releases: FakeReleases, tmp_path: Path) -> None:
    write_case(tmp_path / "cases", "stuck", "hangs")
    releases.log.unlink(missing_ok=True)
    stop_when(tmp_path, releases, NIGHTLY, lambda: bool(releases.events("start")) and watched_runs(tmp_path / "out"))
    state = watched(tmp_path / "out")
    assert (state["state"], state["reason"], state["running"]) == ("stopped", "interrupted", [])


def watched_runs(folder: Path) -> bool:
    state = watched(folder)
    return state["state"] == "running" and [probe["case"] for probe in state["running"]] == ["stuck"] * len(state["running"])


class Screen:
    """`triage watch` on a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.end, other = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "LINES": "30", "COLUMNS": "100"}
        command = [sys.executable, "-c", "from triage.cli import main; main()", "watch", str(folder)]
        self.process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment)
        os.close(other)
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Read the screen until it shows a text; what was shown before does not count."""
        self.shown = ""
        while text not in self.shown:
            assert select.select([self.end], [], [], 60)[0], self.shown
            self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self.end, 65536).decode("utf-8", "replace"))

    def press(self, keys: str) -> None:
        os.write(self.end, keys.encode())


@pytest.mark.slow
def test_a_key_opens_the_log_of_the_chosen_failure(ended: Path) -> None:
    screen = Screen(ended)
    screen.wait_for("Failures (2)")
    screen.press("\x1b[B\r")
    screen.wait_for("286720 bytes of shared memory")
    screen.press("\x1b")
    screen.wait_for("Failures (2)")
    screen.press("q")
    assert screen.process.wait(60) == 0
    os.close(screen.end)
