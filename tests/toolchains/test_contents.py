"""The identity of a compiler is the content of all that it needs."""

from __future__ import annotations

import os
from pathlib import Path

from triage.compilers.base import Needs
from triage.compilers.registry import Families
from triage.toolchains.contents import Contents, with_targets
from triage.toolchains.home import Home, Workspace

LIBRARY = b"x" * 1000


def identity(folder: Path, home: Path) -> str:
    """Return the identity of a compiler, as another process computes it."""
    place = Home(home)
    return Contents(Workspace(place)).identity(
        with_targets(Needs((folder,)), place.toolchains)
    )


def make(folder: Path, program: bytes, library: bytes | Path) -> Path:
    folder.mkdir()
    (folder / "compile").write_bytes(program)
    if isinstance(library, Path):
        (folder / "lib.so").symlink_to(library)
    else:
        (folder / "lib.so").write_bytes(library)
    return folder


def test_a_copy_is_the_same_compiler_and_another_program_is_not(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = identity(make(tmp_path / "first", b"1", LIBRARY), home)
    assert identity(make(tmp_path / "copied", b"1", LIBRARY), home) == first
    assert identity(make(tmp_path / "other", b"2", LIBRARY), home) != first


def test_a_file_is_read_again_whatever_says_that_it_is_the_same(tmp_path: Path) -> None:
    """Its size and its time are."""
    home, library = tmp_path / "home", tmp_path / "objects"
    library.write_bytes(LIBRARY)
    folder = make(tmp_path / "one", b"1", library)
    old = 10**9
    for path in (library, folder / "compile"):
        os.utime(path, (old, old))
    before = identity(folder, home)
    assert identity(folder, home) == before
    library.write_bytes(LIBRARY[:-1] + b"y")
    os.utime(library, (old, old))
    assert identity(folder, home) != before


def test_a_program_that_cannot_be_started_any_more_is_another(tmp_path: Path) -> None:
    folder, home = make(tmp_path / "one", b"1", LIBRARY), tmp_path / "home"
    (folder / "compile").chmod(0o755)
    before = identity(folder, home)
    (folder / "compile").chmod(0o644)
    assert identity(folder, home) != before


def test_an_iree_compiler_in_an_environment_needs_no_other_package(
    tmp_path: Path,
) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    program = packages / "iree" / "compiler" / "_mlir_libs" / "iree-compile"
    program.parent.mkdir(parents=True)
    program.touch()
    needs = Families()["iree"].needs(packages, program)
    assert needs.files == (packages / "iree" / "compiler",)
    wheel = tmp_path / "iree-base-compiler-3.3.0-0"
    packages.rename(wheel)
    assert Families()["iree"].needs(wheel, wheel / program.relative_to(packages)) == (
        Needs((wheel,))
    )
