from __future__ import annotations

import os
from pathlib import Path

from triage.compilers.base import Description
from triage.model.revision import Capabilities
from triage.toolchains.home import Home, Workspace
from triage.toolchains.registry import describe_once


class TwoFiles:
    """A compiler of a small program and a large library; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        return program, (program.parent / "lib.so").resolve()

    def describe(self, program: Path) -> Description:
        self.asked += 1
        return Description(
            "1.0",
            None,
            None,
            Capabilities(frozenset({"rocm"}), ("flow",), frozenset({"a"})),
        )


def make(folder: Path, program: bytes, library: bytes | Path) -> Path:
    folder.mkdir()
    (folder / "compile").write_bytes(program)
    if isinstance(library, Path):
        (folder / "lib.so").symlink_to(library)
    else:
        (folder / "lib.so").write_bytes(library)
    return folder / "compile"


LIBRARY = b"x" * 1000


def test_the_identity_is_the_content_of_every_file_wherever_it_lies(
    tmp_path: Path,
) -> None:
    compiler, state = TwoFiles(), Workspace(Home(tmp_path / "home"))
    first = make(tmp_path / "first", b"1", LIBRARY)
    known = describe_once(state, compiler, first)
    assert describe_once(state, compiler, first) == known
    assert compiler.asked == 1
    linked = describe_once(
        state, compiler, make(tmp_path / "linked", b"1", tmp_path / "first" / "lib.so")
    )
    copied = describe_once(state, compiler, make(tmp_path / "copied", b"1", LIBRARY))
    other = describe_once(
        state, compiler, make(tmp_path / "other", b"2", tmp_path / "first" / "lib.so")
    )
    assert known[0] == linked[0] == copied[0] != other[0]
    assert known[1].capabilities == Capabilities(
        frozenset({"rocm"}), ("flow",), frozenset({"a"})
    )


def test_a_changed_library_is_another_compiler(tmp_path: Path) -> None:
    compiler, state = TwoFiles(), Workspace(Home(tmp_path / "home"))
    program = make(tmp_path / "one", b"1", LIBRARY)
    before = describe_once(state, compiler, program)[0]
    library = tmp_path / "one" / "lib.so"
    time = library.stat()
    library.write_bytes(LIBRARY[:-1] + b"y")
    os.utime(library, ns=(time.st_atime_ns, time.st_mtime_ns + 1))
    assert describe_once(state, compiler, program)[0] != before
