from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from triage.compilers.base import Description
from triage.model.errors import EnvironmentFailure
from triage.model.revision import Capabilities
from triage.toolchains.capability_cache import describe
from triage.toolchains.install_cache import prune
from triage.toolchains.registry import ToolchainRegistry
from triage.toolchains.workspace import StateStore


class TwoFiles:
    """A compiler of a small program and a large library; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        return program, (program.parent / "lib.so").resolve()

    def describe(self, program: Path) -> Description:
        self.asked += 1
        return Description("1.0", None, None, Capabilities(frozenset({"rocm"}), ("flow",), frozenset({"a"})))


def make(folder: Path, program: bytes, library: bytes | Path) -> Path:
    folder.mkdir()
    (folder / "compile").write_bytes(program)
    if isinstance(library, Path):
        (folder / "lib.so").symlink_to(library)
    else:
        (folder / "lib.so").write_bytes(library)
    return folder / "compile"


LARGE = b"x" * (17 << 20)


def test_the_identity_is_the_content_of_every_file_wherever_it_lies(tmp_path: Path) -> None:
    compiler, state = TwoFiles(), StateStore(tmp_path / "home" / "state.db")
    first = make(tmp_path / "first", b"1", LARGE)
    known = describe(state, compiler, first)
    assert describe(state, compiler, first) == known
    assert compiler.asked == 1
    linked = describe(state, compiler, make(tmp_path / "linked", b"1", tmp_path / "first" / "lib.so"))
    copied = describe(state, compiler, make(tmp_path / "copied", b"1", LARGE))
    other = describe(state, compiler, make(tmp_path / "other", b"2", tmp_path / "first" / "lib.so"))
    assert known.identity == linked.identity == copied.identity != other.identity
    assert known.description.capabilities == Capabilities(frozenset({"rocm"}), ("flow",), frozenset({"a"}))


def test_a_changed_library_is_another_compiler(tmp_path: Path) -> None:
    compiler, state = TwoFiles(), StateStore(tmp_path / "home" / "state.db")
    program = make(tmp_path / "one", b"1", LARGE)
    before = describe(state, compiler, program).identity
    library = tmp_path / "one" / "lib.so"
    time = library.stat()
    library.write_bytes(LARGE[:-1] + b"y")
    os.utime(library, ns=(time.st_atime_ns, time.st_mtime_ns + 1))
    assert describe(state, compiler, program).identity != before
    # The stored digests can be lost at any time.
    after = describe(state, compiler, program).identity
    state.path.unlink()
    assert describe(state, compiler, program).identity == after


def test_a_compiler_with_missing_files_is_an_environment_failure(tmp_path: Path) -> None:
    program = make(tmp_path / "one", b"1", LARGE)
    (tmp_path / "one" / "lib.so").unlink()
    with pytest.raises(EnvironmentFailure, match=r"lib\.so of the compiler is missing"):
        describe(StateStore(tmp_path / "state.db"), TwoFiles(), program)


@pytest.mark.parametrize("name", ["identity", "version", "backends", "flags", "choices"])
@pytest.mark.parametrize("value", ["text", 5, [5], {"a": "b"}])
def test_a_stored_description_of_another_type_is_asked_for_again(tmp_path: Path, name: str, value: object) -> None:
    compiler, state = TwoFiles(), StateStore(tmp_path / "state.db")
    program = make(tmp_path / "one", b"1", b"x")
    known = describe(state, compiler, program)
    with closing(sqlite3.connect(state.path)) as db:
        [(key,)] = db.execute("SELECT key FROM entries WHERE section = 'capabilities'").fetchall()
    section = state.section("capabilities")
    stored = section.get(key)
    [values] = [part for part in (stored, stored["description"], stored["description"]["capabilities"]) if name in part]
    values[name] = value
    section.put(key, stored)
    text = name in ("identity", "version") and value == "text"
    assert text or describe(state, compiler, program) == known
    assert text or compiler.asked == 2


class OneFile(TwoFiles):
    """A compiler that is a single binary."""

    folders = "a binary"

    def locate(self, root: Path) -> Path:
        return root

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        return (program,)


def test_a_binary_inside_the_install_cache_is_used_by_its_path(tmp_path: Path) -> None:
    """Its toolchain is marked as used, although the path leads deeper than the toolchain's folder."""
    program = tmp_path / "home" / "toolchains" / "tiny-1.0" / "bin" / "tiny"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"1")
    registry = ToolchainRegistry(tmp_path / "home", {"tiny": OneFile()})  # type: ignore[dict-item]
    assert registry.obtain(registry.resolve(f"path:{program}", "tiny")).program == program
    assert prune(tmp_path / "home", keep=0) == []
