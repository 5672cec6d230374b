"""Compilers of the commits between two releases, served on loopback as the artifacts of a workflow.

Each artifact is a wheel with the release's own compiler: before the planted culprit that of the older release, from it on that
of the newer one. Every third commit has a run that failed, and the artifact of every seventh has expired. Compilers of
different commits differ in a few bytes, so that no result is cached for another commit.
"""

from __future__ import annotations

import io
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.toolchains.sources.loopback_github import LoopbackGitHub, serve_github

PROJECT = """name: iree
compiler: iree
distribution: iree-base-compiler
releases: {tags: "v{version}"}
artifacts:
  workflow: pkgci.yml
  artifact: linux_x86_64_release_packages
  wheel: "iree_base_compiler-*.whl"
  branch: main
  repository: iree-org/iree
"""
_PROGRAM = "iree/compiler/_mlir_libs/iree-compile"
_BINDINGS = ("/_mlir/", "cpython")


@dataclass(frozen=True)
class ServedCommits:
    """line: shas, the oldest first and beginning with the commit before the range; culprit: index of the first that is like
    the newer release; with_artifact: indices of those with a compiler; served: commits whose compiler was downloaded.
    """

    github: LoopbackGitHub
    line: tuple[str, ...]
    culprit: int
    with_artifact: frozenset[int]
    served: set[str]


class _Archives(dict[int, bytes]):
    """The archives by artifact, made when they are asked for. A release's library is packed once."""

    def __init__(self) -> None:
        super().__init__()
        self.origins: dict[int, tuple[Path, str]] = {}
        self.served: set[str] = set()

    def __contains__(self, artifact: object) -> bool:
        return artifact in self.origins

    def __getitem__(self, artifact: int) -> bytes:
        root, sha = self.origins[artifact]
        self.served.add(sha)
        wheel, sink = io.BytesIO(_packed(root)), io.BytesIO()
        name = f"iree_base_compiler-9.9.9.dev0+{sha[:10]}"
        with zipfile.ZipFile(wheel, "a") as packed:
            packed.writestr(_entry(root, root / _PROGRAM), (root / _PROGRAM).read_bytes() + sha.encode())
            metadata = f"Metadata-Version: 2.1\nName: iree-base-compiler\nVersion: 9.9.9.dev0+{sha[:10]}\n"
            packed.writestr(f"{name}.dist-info/METADATA", metadata)
            packed.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            packed.writestr(f"{name}.dist-info/RECORD", "".join(f"{entry},,\n" for entry in packed.namelist()))
        with zipfile.ZipFile(sink, "w") as archive:
            archive.writestr(f"{name}-py3-none-any.whl", wheel.getbuffer())
        return sink.getvalue()


@cache
def _packed(root: Path) -> bytes:
    """Return a wheel of a release's compiler without its main program and without bindings."""
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as packed:
        for path in sorted(path for path in (root / "iree").rglob("*") if path.is_file()):
            entry = _entry(root, path)
            if entry.filename != _PROGRAM and not any(part in entry.filename for part in _BINDINGS):
                packed.writestr(entry, path.read_bytes())
    return wheel.getvalue()


def _entry(root: Path, path: Path) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(str(path.relative_to(root)))
    entry.external_attr = (0o100000 | path.stat().st_mode & 0o777) << 16
    return entry


def commits_between(clone: Path, old: str, new: str) -> tuple[tuple[str, str], ...]:
    """Return sha and time of the main line's commits between two tags, after the commit that they share."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True, text=True).stdout.strip()

    shared = git("merge-base", old, new)
    listed = git("log", "--first-parent", "--reverse", "--format=%H %cI", f"{shared}..{new}")
    first = git("log", "-1", "--format=%H %cI", shared)
    return tuple((sha, at) for sha, at in (line.split() for line in (first, *listed.splitlines())))


@contextmanager
def served_commits(clone: Path, releases: tuple[Path, Path], tags: tuple[str, str], culprit: str) -> Iterator[ServedCommits]:
    """Serve the commits between two tags. releases: the folders of the two compilers; culprit: the start of a sha."""
    commits = commits_between(clone, *tags)
    line = tuple(sha for sha, _ in commits)
    at = next(index for index, sha in enumerate(line) if sha.startswith(culprit))
    archives, with_artifact = _Archives(), set()
    with serve_github() as github:
        github.archives = archives
        for index, (sha, created) in enumerate(commits):
            is_near = index in (at - 1, at)
            if index % 3 == 0 and not is_near:
                github.run(sha, created, conclusion="failure")
                continue
            is_expired = index % 7 == 0 and not is_near
            number = github.run(sha, created, b"", expired=is_expired)
            if not is_expired:
                archives.origins[number + 1000] = releases[index >= at], sha
                with_artifact.add(index)
        yield ServedCommits(github, line, at, frozenset(with_artifact), archives.served)
