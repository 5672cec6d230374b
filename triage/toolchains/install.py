"""The install cache: the folder of installed toolchains, each complete or installed
again.
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from hashlib import blake2b
from importlib import invalidate_caches
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from packaging.version import Version

from triage.compilers.base import Environment, Packaging, Wheel
from triage.compilers.interpreters import interpreter, uv_program, version_of
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Ending
from triage.processes.containment import Purpose
from triage.processes.process import Log, run, unlimited
from triage.toolchains.home import (
    KeptKind,
    Workspace,
    disk_errors,
    lock_file,
    remove_tree,
)
from triage.toolchains.index import Index, Release, index_url
from triage.toolchains.web import host_of, network_seconds, without_password

MANIFEST = "toolchain.json"
# its time of change is the last use; a lock on it means that a process uses the
# toolchain
USE = ".used"
PLAIN_WHEEL = Wheel()
_COMPILED = "__pycache__"
# reading a manifest raises
_DAMAGED = (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError)


def folder_of(
    toolchains: Path, release: Release, packaging: Packaging = PLAIN_WHEEL
) -> Path:
    """Return the folder of a release: readable, and different for each content of one
    version.
    """
    if release.sha256:
        mark = release.sha256[:12]
    else:
        mark = "unhashed"
    return (
        toolchains
        / f"{_prefix(release.distribution, packaging)}-{release.version}-{mark}"
    )


def installed(
    toolchains: Path,
    distribution: str,
    packaging: Packaging = PLAIN_WHEEL,
    version: str | None = None,
) -> list[Release]:
    """Return the releases with an intact install, oldest version first; `version`: only
    those of one.
    """
    found = []
    for folder in toolchains.glob(f"{_prefix(distribution, packaging)}-[0-9]*"):
        with suppress(*_DAMAGED):
            stored = json.loads((folder / MANIFEST).read_text())["release"] | {
                "distribution": distribution
            }
            release = Release(
                **{name: stored[name] for name in Release.__slots__ if name in stored}
            )
            parsed = Version(release.version)
            if (version is None or parsed == Version(version)) and is_intact(folder):
                found.append((parsed, release))
    return [release for _, release in sorted(found, key=lambda one: one[0])]


def _prefix(distribution: str, packaging: Packaging) -> str:
    """Return how the folder names of one distribution begin, installed in one way."""
    match packaging:
        case Wheel():
            return distribution
        case Environment(()):
            return f"venv-{distribution}"
        case Environment(companions):
            return (
                f"venv-{distribution}-with-"
                f"{blake2b(' '.join(companions).encode(), digest_size=4).hexdigest()}"
            )


def is_intact(folder: Path) -> bool:
    """Whether an install is complete: it has a manifest, and every file has the size
    that it was installed with.

    Python's cache of compiled modules does not count, because programs write it.
    """
    try:
        sizes = json.loads((folder / MANIFEST).read_text())["files"]
        kept = [name for name in sizes if _COMPILED not in name.split("/")]
        place = os.open(folder, os.O_RDONLY)
        try:
            return bool(kept) and all(
                os.stat(name, dir_fd=place).st_size == sizes[name] for name in kept
            )
        finally:
            os.close(place)
    except _DAMAGED:
        return False


def _sizes(root: Path) -> dict[str, int]:
    """Return the files that make an install complete: those that its wheels list, or
    all files of another toolchain.
    """
    paths = [
        path
        for path in root.rglob("*")
        if _COMPILED not in path.parts and path.is_file()
    ]
    listed = {
        os.path.normpath(path.parent.parent / row[0])
        for path in paths
        if path.match("*.dist-info/RECORD")
        for row in csv.reader(path.read_text("utf-8", "replace").splitlines())
        if row
    }
    if listed:
        listed |= {str(root / "bin" / "python")}
    return {
        str(path.relative_to(root)): path.stat().st_size
        for path in paths
        if not listed or str(path) in listed
    }


def fill_folder(
    workspace: Workspace,
    name: str,
    what: str,
    fill: Callable[[Path, Path], Release | None],
) -> Path:
    """Return the intact folder `name` of the cache, filled if it is missing or damaged.
    `what` is the toolchain in messages.

    `fill` is called as fill(root, scratch). It puts the files into `root`, which is
    moved afterwards, and may use `scratch`, which is removed. Where it returns a
    release, the folder counts as an install of it. Its errors leave no files. Other
    processes that need the same folder wait.
    """
    toolchains = workspace.home.toolchains
    folder, staging = toolchains / name, toolchains / f".{name}.staging"
    if is_intact(folder):
        return folder
    with disk_errors(f"install {what}"):
        toolchains.mkdir(parents=True, exist_ok=True)
        with workspace.locked(toolchains / f".{name}.lock", f"install {what}"):
            if is_intact(folder):  # another process did it while this one waited
                return folder
            if folder.exists():
                workspace.progress.note(f"{what} is damaged and is installed again")
                remove_tree(folder) if folder.is_dir() else folder.unlink()
            remove_tree(staging)  # of a process that was killed: this one has the lock
            root, scratch = staging / "root", staging / "scratch"
            try:
                root.mkdir(parents=True)
                scratch.mkdir()
                release = fill(root, scratch)
                files = _sizes(root)
                if release is None:
                    manifest = {"files": files}
                else:
                    manifest = {"release": asdict(release), "files": files}
                with (root / MANIFEST).open("w") as sink:
                    json.dump(manifest, sink)
                    sink.flush()
                    os.fsync(sink.fileno())
                root.rename(folder)
            finally:
                remove_tree(staging)
    return folder


def mark_used(folder: Path, stop: threading.Event) -> IO[bytes]:
    """Mark a toolchain as used now; no other process prunes it until the returned file
    is closed, or this process ends.
    """
    with disk_errors(f"use {folder}"):
        lock = lock_file(folder / USE, fcntl.LOCK_SH, stop)
        os.utime(folder / USE)
    return lock


def bytes_below(folder: Path) -> int:
    """Return the bytes of all files in a folder, which others may change meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                total += (Path(parent) / name).lstat().st_size
    return total


_LARGEST_INSTALL = 32 << 30  # bytes of an install and uv's cache
_UV_TIMEOUT = 3600.0  # seconds; a slow network may need them
_TICKS = 4  # of a run between updates of the installed size
# packages that are released together are uploaded one after another
_SIBLINGS = timedelta(days=3)
_ONNX = ("onnx>=1.17,<2", "protobuf>=4.25")
# The package cannot be installed here, today or tomorrow; other errors of uv may be the
# network's.
_PERMANENT = re.compile(
    r"No solution found|are unsatisfiable|no usable wheels|no wheels|client error "
    r"\(4(04|10) |Hash mismatch|"
    r"\bzip\b|\barchive\b|dist-info|`?METADATA|`?WHEEL|wheel filename|does not "
    r"match|larger than",
    re.IGNORECASE,
)


def install(
    workspace: Workspace,
    release: Release,
    index: str,
    packaging: Packaging = PLAIN_WHEEL,
) -> Path:
    """Return the folder of an installed release. Install it if it is missing or
    damaged. Safe next to other processes.

    `index` is the address of the index, with the user and password for its files.

    Raises:
        EnvironmentFailure: the wheel cannot be downloaded, or the disk is full.
        Unobtainable: the wheel is gone, damaged or not the announced one, no
            interpreter here runs it, or its dependencies conflict.
    """
    name = f"{release.distribution} {release.version}"

    def fill(root: Path, scratch: Path) -> Release:
        wheel = f"{release.distribution} @ {release.url}"
        if release.sha256:
            wheel += f" --hash=sha256:{release.sha256}"
        uv = Uv(workspace, root, scratch, index)
        if packaging != PLAIN_WHEEL:
            program = interpreter(version_of(release.python))
            if program is None:
                raise Unobtainable(
                    f"{name} needs Python {release.python}, which is not installed here"
                )
        if not isinstance(packaging, Environment):
            uv.unpack(f"{name} from {host_of(release.url)}", wheel, release.python)
            return release
        # The environment may be moved, because the install cache moves complete
        # folders.
        words = ("--relocatable", "--no-project", "--no-config", "--clear")
        uv.run(
            f"Python for {name}", "venv", *words, "--python", str(program), str(root)
        )
        lines = [wheel, *packaging.companions_of(release.version)]
        into = ("--python", str(root / "bin" / "python"))
        what = f"{name} with its dependencies from {host_of(index)}"
        # every install of the release gets the dependencies of its day
        if release.date is not None:
            until = date.fromisoformat(release.date) + _SIBLINGS
            # An index may have no dates for some files, which uv excludes then. Today's
            # dependencies are better than none.
            newest = ("--exclude-newer", f"{until.isoformat()}T00:00:00Z")
            with suppress(Unobtainable):
                uv.pip(what, lines, *into, *newest)
                return release
        uv.pip(what, lines, *into)
        return release

    folder = folder_of(workspace.home.toolchains, release, packaging)
    return fill_folder(workspace, folder.name, name, fill)


def install_companion(
    workspace: Workspace, package: str, version: str, index: Index
) -> Path:
    """Return the folder of a package that is released with a compiler.

    It has the compiler's version or, if the package lacks a patch release, the newest
    one before it.

    Raises:
        Unobtainable: the index has none.
        EnvironmentFailure: as `install`.
    """
    wanted = Version(version)
    patches = installed(workspace.home.toolchains, package, version=version)
    if not patches:
        patches = [
            release
            for release in index.releases(package)
            if not release.yanked
            and (
                (patch := Version(release.version)) == wanted
                or not wanted.is_prerelease
            )
            and patch <= wanted
            and patch.release[:2] == wanted.release[:2]
        ]
        if not patches:
            raise Unobtainable(
                f"there is no {package} {version} at {without_password(index.url)}"
            )
    return install(
        workspace, max(patches, key=lambda patch: Version(patch.version)), index.url
    )


def provide_onnx(workspace: Workspace) -> Path | None:
    """Make the package `onnx` importable in this process; return the folder that other
    processes need in PYTHONPATH.

    Only ONNX models need it, so that it is installed at the first one. None means that
    it is installed next to this program. Raises EnvironmentFailure if it cannot be
    installed.
    """
    packages = workspace.home.kept(KeptKind.PACKAGES)
    folder = packages / f"onnx-{sys.implementation.cache_tag}"
    if str(folder) in sys.path:
        return folder
    if find_spec("onnx") is not None:
        return None
    packages.mkdir(parents=True, exist_ok=True)
    with workspace.locked(folder.with_suffix(".lock"), "installing onnx"):
        if not folder.is_dir():
            with TemporaryDirectory(dir=packages, prefix=".making-") as scratch:
                made = Path(scratch) / "packages"
                uv = Uv(workspace, made, Path(scratch), index_url())
                uv.pip("onnx", _ONNX, "--python", sys.executable, "--target", str(made))
                made.rename(folder)
    with suppress(OSError):  # the home cannot be written
        os.utime(folder)  # `triage toolchains prune` removes what nobody uses
    sys.path.append(str(folder))
    invalidate_caches()
    return folder


@dataclass(frozen=True)
class Uv:
    """Runs uv to install into a new folder."""

    workspace: Workspace
    root: Path
    """The folder."""
    scratch: Path
    """For files that are not needed later."""
    index: str = ""
    """The default index (empty: that of uv's settings)."""

    def unpack(self, name: str, requirement: str, python: str) -> None:
        """Install one wheel without its dependencies. It need not be for this program's
        Python.
        """
        self.pip(
            name,
            [requirement],
            "--no-deps",
            "--target",
            str(self.root),
            "--python-version",
            python,
        )

    def pip(self, name: str, requirements: Sequence[str], *words: str) -> None:
        """Install packages; `words` say where."""
        (self.scratch / "requirements.txt").write_text(
            "".join(f"{line}\n" for line in requirements)
        )
        # uv links files from its cache. The cache is removed with the scratch folder,
        # so that damage to an install damages no copy that others are made from, and
        # pruning frees the space.
        options = [
            "--only-binary",
            ":all:",
            "--cache-dir",
            str(self.scratch / "cache"),
            "--no-progress",
            "--color",
            "never",
        ]
        self.run(
            name,
            "pip",
            "install",
            *options,
            *words,
            "-r",
            str(self.scratch / "requirements.txt"),
        )

    def run(self, name: str, *words: str) -> None:
        """Run uv. `name` is what it installs, in messages; uv's reason decides between
        EnvironmentFailure and Unobtainable.
        """
        ticks, timeout = count(), network_seconds() or _UV_TIMEOUT

        def watch_size() -> None:
            if next(ticks) % _TICKS == 0:
                size = bytes_below(self.root.parent)
                if size > _LARGEST_INSTALL:
                    raise EnvironmentFailure(
                        f"cannot install {name}: it has more than "
                        f"{_LARGEST_INSTALL >> 30} GiB"
                    )
                if size >= 1 << 20:
                    task.describe(f"install {name}  {size >> 20} MiB")

        with (
            self.workspace.progress.task(f"install {name}") as task,
            Log(self.scratch / "uv.log") as log,
        ):
            execution = run(
                [uv_program(), *words],
                unlimited(timeout),
                self.scratch,
                purpose=Purpose.INSTALL,
                env=self._indexes(),  # other users see no password in it
                log=log,
                stop=self.workspace.stop,
                on_tick=watch_size,
            )
        if execution.ok:
            return
        if execution.ending is Ending.TIMED_OUT:
            raise EnvironmentFailure(
                f"cannot install {name}: it takes more than {timeout:.0f} s"
            )
        reason = _reason(log.path)
        if "No space left" in reason:
            raise EnvironmentFailure(
                f"cannot install {name}: no space left on the disk of "
                f"{self.workspace.home.toolchains}. `triage toolchains prune "
                "--keep 2GiB` frees some; TRIAGE_HOME selects another disk."
            )
        if _PERMANENT.search(reason):
            raise Unobtainable(f"cannot install {name}: {reason}")
        raise EnvironmentFailure(f"cannot install {name}: {reason}")

    def _indexes(self) -> dict[str, str]:
        """Return uv's settings: an index of nightlies lacks their dependencies, which
        come from the usual one.
        """
        usual = index_url()
        if not self.index or self.index == usual:
            if self.index:
                return {"UV_DEFAULT_INDEX": self.index}
            return {}
        return {"UV_DEFAULT_INDEX": usual, "UV_INDEX": self.index}


def _reason(log: Path) -> str:
    text = log.read_text("utf-8", "replace")
    # the caller names the server
    text = re.sub(r"(: | @ | for url )\(?https?://[^\s`)]+\)?", "", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [
        line
        for line in lines
        if not line.lower().startswith(("warning", "using", "resolved", "downloading"))
    ]
    return (
        "; ".join(re.sub("^(error|cause): ", "", line) for line in reasons[-6:])[:600]
        or "uv gave no reason"
    )
