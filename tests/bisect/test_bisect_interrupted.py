"""Ctrl-C in a bisect that a person leads on a real terminal, and going on afterwards."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.bisect.driving import CULPRIT, counted, is_culprit, words
from tests.bisect.small_compiler import SmallCompiler

PATIENCE = 120.0  # seconds; a guard against waiting for ever, nothing is measured


class Terminal:
    """The program on a pseudo-terminal of its own: what is typed reaches it as keys, Ctrl-C as a signal of the terminal."""

    def __init__(self, asked: list[str], answer: Path, cwd: Path) -> None:
        self.said = ""
        self.pid, self._keys = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.dup2(os.open(answer, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
            os.execv(sys.executable, [sys.executable, "-c", "from triage.cli import main; main()", *asked])

    def wait_for(self, pattern: str) -> None:
        """Read until the new output contains the pattern."""
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.said)):
            assert time.monotonic() < end, self.said
            if select.select([self._keys], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self._keys, 1 << 16).decode("utf-8", "replace")
                except OSError:  # it has ended
                    pytest.fail(self.said)
        self.said = self.said[found.end() :]

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())

    def end(self) -> int:
        """Read the rest of the output; return the exit status."""
        end = time.monotonic() + PATIENCE
        with suppress(OSError):  # the other side is closed
            while True:
                if time.monotonic() > end:
                    os.kill(self.pid, signal.SIGKILL)
                    pytest.fail(f"it does not end: {self.said}")
                if select.select([self._keys], [], [], 0.1)[0]:
                    if not (data := os.read(self._keys, 1 << 16)):
                        break
                    self.said += data.decode("utf-8", "replace")
        os.close(self._keys)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def asked(misleading: SmallCompiler, recipe: Path, command: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("SMALL_REPO", str(misleading.path))
    monkeypatch.setenv("TERM", "xterm")
    return [*words(misleading, recipe, command, "--jobs", "1", first=100, last=199), "--interactive"]


@pytest.mark.parametrize("at", ["the prompt", "a build"])
def test_ctrl_c_costs_nothing_that_was_finished(
    misleading: SmallCompiler, asked: list[str], calls: Path, tmp_path: Path, at: str
) -> None:
    first = Terminal(asked, tmp_path / "first.json", tmp_path)
    for _ in range(3):
        first.wait_for(r"> ")
        first.type("\n")
    first.wait_for(r"> ")
    attempted, done = counted(calls, "build"), counted(calls)
    if at == "a build":
        built = len(calls.read_text())
        (tmp_path / "hang").touch()
        first.type("\n")
        while len(calls.read_text()) == built:
            time.sleep(0.02)
    first.type("\x03")
    assert first.end() == 130, first.said
    assert "--interactive" in first.said
    assert "Traceback" not in first.said
    assert (tmp_path / "first.json").read_text() == ""
    assert len(attempted) == 5  # both ends and three candidates, some of which may not build
    assert not [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(one.info["cmdline"] or [])]
    (tmp_path / "hang").unlink(missing_ok=True)
    calls.unlink()
    second = Terminal([*asked, "--resume"], tmp_path / "second.json", tmp_path)
    second.wait_for("resumed: 3 verdicts")
    second.wait_for(r"> ")
    second.type("auto\n")
    assert second.end() == 0, second.said
    assert is_culprit(json.loads((tmp_path / "second.json").read_text()), misleading)
    pair = {misleading.shas[CULPRIT - 1], misleading.sha}
    assert not set(counted(calls)) & set(done) - pair
    assert not set(counted(calls, "build")) & set(attempted)
