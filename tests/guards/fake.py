"""A compiler of a few lines: as releases on a loopback index, and in a git repository.

The words of a program decide: `breaks-N` fails from revision N on, `fixed-N` no longer from N on, `differs-N` fails in another
way from N on, `hangs` opens the pipe that the last word names and waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.toolchains.loopback import serve

_PEOPLE = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"), "x@example.org")


@cache
def _program() -> bytes:
    with TemporaryDirectory() as folder:
        made = Path(folder, "made")
        subprocess.run(["cc", "-w", "-o", made, Path(__file__).with_name("fake_compiler.c")], check=True)
        return made.read_bytes()


def compiler(number: int) -> bytes:
    """Return the program of one revision."""
    return _program().replace(b"REVISION=000", b"REVISION=%03d" % number)


@contextmanager
def releases(folder: Path, count: int) -> Iterator[str]:
    """Serve releases 1.0.0, 1.1.0 and on of IREE's compiler; yield the URL of the index."""
    folder.mkdir()
    for number in range(count):
        name = f"iree_base_compiler-1.{number}.0"
        program = zipfile.ZipInfo("iree/compiler/_mlir_libs/iree-compile")
        program.external_attr = 0o100755 << 16
        with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
            about = f"{name}.dist-info"
            wheel.writestr(program, compiler(number))
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: iree-base-compiler\nVersion: 1.{number}.0\n")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            names = (*wheel.namelist(), f"{about}/RECORD")
            wheel.writestr(f"{about}/RECORD", "".join(f"{path},,\n" for path in names))
    with serve(folder) as index:
        index.publish_dated("iree-base-compiler", {f"1.{number}.0": f"2025-01-{number + 1:02}" for number in range(count)})
        yield index.url


def install(folder: Path, number: int) -> Path:
    """Write the compiler of a revision into a folder as an installation has it."""
    program = folder / "tools" / "iree-compile"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_bytes(compiler(number))
    program.chmod(0o755)
    return folder


def repository(folder: Path, count: int, base: Path) -> str:
    """Make a repository with one commit for each revision, with the same hashes every time, and return its project file.

    base: an installation of revision 0, which a build copies and marks.
    """
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    for number in range(count):
        (folder / "REVISION").write_text(f"{number:03}")
        day = f"2025-02-{number + 1:02}T12:00:00+0000"
        env = os.environ | _PEOPLE | {"GIT_AUTHOR_DATE": day, "GIT_COMMITTER_DATE": day}
        subprocess.run(["git", "add", "."], cwd=folder, check=True)
        subprocess.run(["git", "commit", "-q", "-m", f"Change {number} (#{100 + number})"], cwd=folder, env=env, check=True)
    commands = [
        f'cp -r "{base}/tools" "$TRIAGE_OUT/"',
        'sed -i "s/REVISION=000/REVISION=$(cat "$TRIAGE_SOURCE/REVISION")/" "$TRIAGE_OUT/tools/iree-compile"',
    ]
    build = {"submodules": False, "configure": "true", "commands": commands}
    return f"name: mini\ncompiler: iree\nbuild: {json.dumps(build)}\n"


def recipe(folder: Path, name: str, program: str, more: str = "") -> Path:
    """Write a recipe whose program has these words. `more`: further lines of the recipe."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.mlir").write_text(f"// {program}\n")
    path = folder / f"{name}.yaml"
    path.write_text(f"name: {name}\ninput: {name}.mlir\ntarget: {{backend: llvm-cpu}}\n{more}\n")
    return path


def command_recipe(folder: Path, name: str, program: str) -> Path:
    """Write a recipe that calls the compiler in a folder by its command line."""
    (folder / f"{name}.txt").write_text(f"{program}\n")
    path = folder / f"{name}.yaml"
    command = '["{toolchain}/tools/iree-compile", "{input}", "-o", "{output}"]'
    path.write_text(f"name: {name}\ncompiler: command\ncommand: {command}\ninput: {name}.txt\n")
    return path
