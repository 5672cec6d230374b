"""Toolchains as archives, between a worker that builds and the client."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from triage.model.errors import EnvironmentFailure
from triage.toolchains.install_cache import MANIFEST
from triage.toolchains.remote_build import BuildAnswer, packed, unpack


def test_a_toolchain_arrives_with_its_links_and_modes(tmp_path: Path) -> None:
    (tmp_path / "built" / "bin").mkdir(parents=True)
    program = tmp_path / "built" / "bin" / "compiler"
    program.write_bytes(b"x" * 1000)
    program.chmod(0o755)
    (tmp_path / "built" / "compiler").symlink_to("bin/compiler")
    (tmp_path / "built" / MANIFEST).write_text("{}")
    (tmp_path / "here").mkdir()
    unpack(packed(tmp_path / "built"), tmp_path / "here")
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["bin", "compiler"]
    assert (tmp_path / "here" / "compiler").read_bytes() == program.read_bytes()
    assert os.access(tmp_path / "here" / "bin" / "compiler", os.X_OK)


def test_an_archive_writes_only_into_its_folder(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../outside"))
    (tmp_path / "here").mkdir()
    with pytest.raises(EnvironmentFailure):
        unpack(sink.getvalue(), tmp_path / "here")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("archive", [b"no archive", gzip.compress(b"x" * 1000), gzip.compress(bytes(os.urandom(2000)))[:500]])
def test_what_is_no_archive_is_a_failure_of_the_environment(archive: bytes, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure):
        unpack(archive, tmp_path)


@pytest.mark.parametrize("archive", [b"", b"other"])
def test_a_damaged_archive_is_recognized(archive: bytes) -> None:
    answer = BuildAnswer("worker", b"whole", sha256(b"whole").hexdigest())
    assert answer.is_whole
    assert not BuildAnswer("worker", archive, answer.digest).is_whole
    assert not BuildAnswer("worker", b"", sha256(b"").hexdigest()).is_whole
