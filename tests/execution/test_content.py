"""The digest of a file that is read once while it stays as it is."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from triage.model.content import settled_sha256


def test_a_file_that_changes_has_another_digest(tmp_path: Path) -> None:
    """Also when its size and its times stay the same, as far as a program can see to
    it.
    """
    path = tmp_path / "value.bin"
    for content in (b"one", b"two", b"six"):
        path.write_bytes(content)
        os.utime(path, (1e9, 1e9))
        assert settled_sha256(str(path)) == sha256(content).hexdigest()
