"""A compiler of a few lines: as releases on a loopback index, and in a git repository.

The words of a program decide: `breaks-N` fails from revision N on, `fixed-N` no longer
from N on, `differs-N` fails in another way from N on, `unreadable` is a syntax error,
`unreadable-N` one from N on, `read-from-N` one before N, `crashes-N` crashes and `sleeps-N` sleeps from N on, `silent-N` writes nothing from N on, `flips FILE`
fails each second time, `hangs` opens the pipe that the next word may name and sleeps until it is killed, `stubborn` ignores SIGTERM.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.toolchains.loopback import NAME, make_wheel, serve

_PEOPLE = {
    f"GIT_{name}": "x@example.org"
    for name in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
}


@cache
def _program() -> bytes:
    with TemporaryDirectory() as folder:
        made = Path(folder, "made")
        subprocess.run(
            ["cc", "-w", "-o", made, Path(__file__).with_name("fake_compiler.c")],
            check=True,
        )
        return made.read_bytes()


def compiler(
    number: int, version: str = "", log: str = "", *, paced: bool = False
) -> bytes:
    """Return the program of one revision. Paced, it takes 50 to 150 ms for a compile."""
    data = _program().replace(b"REVISION=000", b"REVISION=%03d" % number)
    for mark, text in ((b"VERSION=", version.encode()), (b"LOG=", log.encode())):
        data = data.replace(mark + bytes(len(text)), mark + text)
    return data.replace(b"PACE=0", b"PACE=%d" % paced)


@dataclass(frozen=True)
class FakeReleases:
    """Releases that are served. `versions` begins with the oldest; the compilers write
    `log`.
    """

    url: str
    log: Path
    versions: tuple[str, ...]

    def events(self, event: str) -> list[tuple[str, str]]:
        """Return version and hash of the input of each such event of a compile, in
        order.
        """
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        words = map(str.split, lines)
        return [
            (version, digest)
            for kind, version, digest, kind_of_run, _ in words
            if (kind, kind_of_run) == (event, "main")
        ]


@contextmanager
def fake_releases(
    folder: Path,
    count: int = 8,
    nightlies: int = 0,
    *,
    then_released: bool = False,
    logged: bool = True,
    paced: bool = False,
) -> Iterator[FakeReleases]:
    """Serve `count` releases of IREE's compiler, 1.0.0 and on, until the block ends.

    nightlies: number of those of January 2026 that lead to the next release; in inputs,
    their numbers go on. then_released: make that release, too. paced: for tests that
    stop or kill what compiles.
    """
    log, index = folder / "compiles.log", folder / "index"
    versions = [f"1.{minor}.0" for minor in range(count)]
    versions += [f"1.{count}.0rc202601{day:02}" for day in range(1, nightlies + 1)]
    versions += [f"1.{count}.0"] if then_released else []
    index.mkdir(parents=True)
    for number, version in enumerate(versions):
        payload = compiler(number, version, str(log) if logged else "", paced=paced)
        make_wheel(index, version, payload=payload)
    days = {name: f"2025-01-{day:02}" for day, name in enumerate(versions, 1)}
    # nightlies are on a page of their own
    released = {name: day for name, day in days.items() if "rc" not in name}
    with serve(index) as served:
        served.publish_dated(NAME, released)
        served.publish_links(pattern="*rc*.whl")
        yield FakeReleases(served.url, log, tuple(versions))


def install(folder: Path, number: int, version: str = "") -> Path:
    """Write the compiler of a revision into a folder as an installation has it."""
    program = folder / "tools" / "iree-compile"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_bytes(compiler(number, version))
    program.chmod(0o755)
    return folder


def repository(folder: Path, count: int, base: Path) -> str:
    """Make a repository with one commit for each revision, with the same hashes every
    time, and return its project file.

    base: an installation of revision 0, which a build copies and marks.
    """
    folder.mkdir()
    for number in range(count):
        (folder / "REVISION").write_text(f"{number:03}")
        day = f"2025-02-{number + 1:02}T12:00:00+0000"
        env = os.environ | _PEOPLE | {"GIT_AUTHOR_DATE": day, "GIT_COMMITTER_DATE": day}
        commit = f"git init -q -b main; git add .; git commit -qm 'Change {number} (#{100 + number})'"
        subprocess.run(["sh", "-ec", commit], cwd=folder, env=env, check=True)
    commands = [
        f'cp -r "{base}/tools" "$TRIAGE_OUT/"',
        'sed -i "s/REVISION=000/REVISION=$(cat "$TRIAGE_SOURCE/REVISION")/" "$TRIAGE_OUT/tools/iree-compile"',
    ]
    build = {"submodules": False, "commands": commands}
    return f"name: mini\ncompiler: iree\nbuild: {json.dumps(build)}\n"


def recipe(folder: Path, name: str, program: str, more: str = "") -> Path:
    """Write a recipe whose program has these words. `more`: further lines of the
    recipe.
    """
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.mlir").write_text(f"// {program}\n")
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\ninput: {name}.mlir\ntarget: {{backend: llvm-cpu}}\n{more}\n"
    )
    return path


def command_recipe(folder: Path, name: str, program: str) -> Path:
    """Write a recipe that calls the compiler in a folder by its command line."""
    (folder / f"{name}.txt").write_text(f"{program}\n")
    path = folder / f"{name}.yaml"
    command = '["{toolchain}/tools/iree-compile", "{input}", "-o", "{output}"]'
    path.write_text(
        f"name: {name}\ncompiler: command\ncommand: {command}\ninput: {name}.txt\n"
    )
    return path


def write_case(folder: Path, name: str, *words: str) -> Path:
    """Write a recipe whose input has these words, a function each, and return its path."""
    more = "phase: executable-targets\nlimits: {timeout: 60s, memory: 1GiB}"
    path = recipe(folder, name, "", more)
    body = "".join(
        f"func.func @f{number}() {{ // {word}\n  return\n}}\n"
        for number, word in enumerate((name, *words))
    )
    path.with_suffix(".mlir").write_text(body)
    return path


def write_project(folder: Path, releases: FakeReleases) -> None:
    """Write a project file into a folder that names the page of nightlies."""
    page = releases.url.replace("/simple/", "/links.html")
    text = f"name: fake\ncompiler: iree\ndistribution: iree-base-compiler\nnightlies: {{find-links: '{page}'}}\n"
    (folder / "triage.yaml").write_text(text)


def environment(releases: FakeReleases, home: Path) -> dict[str, str]:
    """Return the environment for triage: the index, a home, and the program `triage` on
    the PATH.
    """
    given = {
        "TRIAGE_HOME": str(home),
        "TRIAGE_INDEX_URL": releases.url,
        "PYTHONPATH": str(Path(__file__).with_name("unsealed_logs")),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    # outside of tests, nothing has set it
    return {"TRIAGE_TEST_LOGS": str(releases.log.parent), **os.environ, **given}
