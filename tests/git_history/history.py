"""Real git repositories, written commit by commit."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

# Nothing of the machine's own git settings reaches a test.
ENV = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "C",
    "GIT_COMMITTER_EMAIL": "c@example.org",
    # Submodules of tests lie on this machine, which git allows only with this setting.
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "protocol.file.allow",
    "GIT_CONFIG_VALUE_0": "always",
    "GIT_CONFIG_KEY_1": "maintenance.auto",
    "GIT_CONFIG_VALUE_1": "false",
}


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


@dataclass
class History:
    """A work tree. There are two commits a day from 2025-06-01 12:00 UTC on, unless a
    date is given.
    """

    path: Path
    count: int = 0

    @classmethod
    def begin(cls, path: Path) -> History:
        path.mkdir(parents=True, exist_ok=True)
        history = cls(path)
        history.git("init --quiet --initial-branch=main")
        return history

    def git(
        self,
        line: str,
        *words: str,
        date: str | None = None,
        data: bytes | None = None,
    ) -> str:
        """Run `git LINE WORDS...`, and return what it prints."""
        env = os.environ | ENV
        if date:
            env |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        command = ["git", *line.split(), *words]
        done = subprocess.run(
            command, cwd=self.path, env=env, capture_output=True, input=data
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def write(self, name: str, text: str | bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def commit(
        self,
        subject: str = "",
        files: dict[str, str | bytes] | None = None,
        date: str | None = None,
    ) -> str:
        """A commit of everything that changed; its sha."""
        self.count += 1
        for name, text in (files or {}).items():
            self.write(name, text)
        self.git("add --all")
        line = "commit --quiet --allow-empty --allow-empty-message --cleanup=verbatim"
        data = subject.encode()
        date = date or f"@{1748736000 + 43200 * self.count} +0000"
        self.git(f"{line} --file=-", date=date, data=data)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse HEAD")
