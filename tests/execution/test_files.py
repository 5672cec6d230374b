"""Files that are made once for each content."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from triage.execution.inputs import KeptFiles
from triage.model.content import cached_sha256

MAKERS = 6


def test_a_folder_that_several_make_at_once_is_there_for_all(tmp_path: Path) -> None:
    """Programs that run the same values at once share no lock."""

    def write(scratch: Path) -> Path:
        made = scratch / "value"
        made.mkdir()
        (made / "0.bin").write_bytes(b"1")
        return made

    def get(number: int) -> bytes:
        start.wait()
        [file] = (
            KeptFiles().get(tmp_path / "values" / str(number), write).path.iterdir()
        )
        return file.read_bytes()

    start = threading.Barrier(MAKERS)
    with ThreadPoolExecutor(MAKERS) as threads:
        for number in range(40):
            assert [*threads.map(get, [number] * MAKERS)] == [b"1"] * MAKERS


def test_a_file_that_changes_has_another_digest(tmp_path: Path) -> None:
    """Also when its size and its times stay the same, as far as a program can see to
    it.
    """
    path = tmp_path / "value.bin"
    for content in (b"one", b"two", b"six"):
        path.write_bytes(content)
        os.utime(path, (1e9, 1e9))
        assert cached_sha256(str(path)) == sha256(content).hexdigest()


def test_a_file_that_another_process_made_meanwhile_stays(tmp_path: Path) -> None:
    """A sealed program may open the file that it was allowed, and no other one."""
    target, inodes = tmp_path / "kept.mlir", []

    def write(scratch: Path) -> Path:
        made = scratch / "made"
        made.write_text("module {}")
        return made

    def make(scratch: Path) -> Path:
        KeptFiles().get(target, write)
        inodes.append(target.stat().st_ino)
        return write(scratch)

    assert KeptFiles().get(target, make).path == target
    assert [target.stat().st_ino] == inodes
