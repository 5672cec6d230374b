"""Install toolchains into the install cache, with uv. An install that is damaged is
made again.
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
import re
import shlex
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
from typing import IO, Any

from packaging.version import Version

from triage.compilers.base import Environment, Packaging, Wheel
from triage.compilers.interpreters import interpreter, uv_program, version_of
from triage.model.address import Address
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
from triage.toolchains.web import host_of, network_seconds

MANIFEST = "toolchain.json"
# A file in each toolchain. It was changed when the toolchain was last used, and a lock
# on it means that a process uses the toolchain now.
USE = ".used"
PLAIN_WHEEL = Wheel()
_COMPILED = "__pycache__"
# errors from reading a damaged manifest
_DAMAGED = (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError)


def folder_of(
    toolchains: Path, release: Release, packaging: Packaging = PLAIN_WHEEL
) -> Path:
    """Return the folder of a release. Its name has the version and the beginning of the
    wheel's hash.
    """
    prefix = _prefix(release.distribution, packaging)
    return toolchains / f"{prefix}-{release.version}-{_mark(release.sha256)}"


def installed(
    toolchains: Path,
    distribution: str,
    packaging: Packaging = PLAIN_WHEEL,
    version: str | None = None,
) -> list[Release]:
    """Return the releases with an intact install, the oldest version first. With
    `version`, return only releases of this version.
    """
    found = []
    for folder in toolchains.glob(f"{_prefix(distribution, packaging)}-[0-9]*"):
        with suppress(*_DAMAGED):
            stored = json.loads((folder / MANIFEST).read_text())["release"]
            stored["distribution"] = distribution
            known = {name: stored[name] for name in Release.__slots__ if name in stored}
            release = Release(**known)
            is_wanted = not version or Version(release.version) == Version(version)
            if is_wanted and is_intact(folder):
                found.append(release)
    return sorted(found, key=lambda release: Version(release.version))


def _prefix(distribution: str, packaging: Packaging) -> str:
    """Return the beginning of the folder names of a package's releases."""
    match packaging:
        case Wheel():
            return distribution
        case Environment(()):
            return f"venv-{distribution}"
        case Environment(companions):
            digest = blake2b(" ".join(companions).encode(), digest_size=4)
            return f"venv-{distribution}-with-{digest.hexdigest()}"


def is_intact(folder: Path) -> bool:
    """Return whether an install is complete: it has the manifest of this folder, and
    every file has the size that it was installed with.

    Python's compiled modules do not count, because programs write them.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        sizes = manifest["files"]
        if not _is_manifest_of(manifest, folder.name):
            return False
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


def _is_manifest_of(manifest: dict[str, Any], name: str) -> bool:
    """Return whether a manifest is of the folder of this name."""
    release = manifest.get("release")
    if release is None:
        return bool(manifest["folder"] == name)
    rest = f"-{release['version']}-{_mark(release['sha256'])}"
    # between them stand the packages that are installed with it
    return name.endswith(rest) and release["distribution"] in name


def _mark(sha256: str | None) -> str:
    return sha256[:12] if sha256 else "unhashed"


def _sizes_of_files(root: Path) -> dict[str, int]:
    """Return the size of each file of a complete install. If wheels are installed, only
    the files that they list count.
    """
    paths = [
        path
        for path in root.rglob("*")
        if _COMPILED not in path.parts and path.is_file()
    ]
    listed: set[str] = set()
    for path in paths:
        if path.match("*.dist-info/RECORD"):
            rows = csv.reader(path.read_text("utf-8", "replace").splitlines())
            packages = path.parent.parent
            listed |= {os.path.normpath(packages / row[0]) for row in rows if row}
    if listed:
        listed.add(str(root / "bin" / "python"))
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
    """Return the folder `name` of the cache. Fill it first if it is missing or damaged.
    Other processes that need the same folder wait.

    Args:
        workspace: Has the cache.
        name: The name of the folder.
        what: What messages call the toolchain.
        fill: Called as fill(root, scratch). It puts the files into `root`, which is
            moved afterwards, and may use `scratch`, which is removed. It returns the
            release that it installs, if it is one. If it raises, no files are left.
    """
    toolchains = workspace.home.toolchains
    folder, staging = toolchains / name, toolchains / f".{name}.staging"
    if is_intact(folder):
        return folder
    workspace.refuse_if_dry(what)
    with disk_errors(f"install {what}"):
        toolchains.mkdir(parents=True, exist_ok=True)
        with workspace.locked(toolchains / f".{name}.lock", f"install {what}"):
            if is_intact(folder):  # another process did it while this one waited
                return folder
            if folder.exists():
                workspace.progress.note(f"{what} is damaged and is installed again")
                remove_tree(folder) if folder.is_dir() else folder.unlink()
            remove_tree(staging)  # left by a process that was killed
            root, scratch = staging / "root", staging / "scratch"
            try:
                root.mkdir(parents=True)
                scratch.mkdir()
                release = fill(root, scratch)
                manifest: dict[str, object] = {"files": _sizes_of_files(root)}
                if release is not None:
                    manifest["release"] = asdict(release)
                else:
                    manifest["folder"] = name
                with (root / MANIFEST).open("w") as sink:
                    json.dump(manifest, sink)
                    sink.flush()
                    os.fsync(sink.fileno())
                root.rename(folder)
            finally:
                remove_tree(staging)
    return folder


def mark_used(folder: Path, stop: threading.Event) -> IO[bytes]:
    """Note that a toolchain is used now. No other process prunes it until the returned
    file is closed, or this process ends.
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
_TICKS = 4  # the installed size is measured at every fourth tick of a run
# Packages that are released together are uploaded within this time.
_UPLOADED_WITHIN = timedelta(days=3)
_ONNX = ("onnx>=1.17,<2", "protobuf>=4.25")
# Errors of uv that will not go away. Others may be the network's.
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
    index: Address,
    packaging: Packaging = PLAIN_WHEEL,
) -> Path:
    """Return the folder of a release. Install the release if it is missing or damaged.
    Other processes may do the same.

    Raises:
        EnvironmentFailure: The wheel cannot be downloaded, or the disk is full.
        Unobtainable: The wheel is gone, damaged or not the announced one, no
            interpreter here runs it, or its dependencies conflict.
    """
    name = f"{release.distribution} {release.version}"
    wheel = f"{release.distribution} @ {release.url.full}"
    if release.sha256:
        wheel += f" --hash=sha256:{release.sha256}"

    def fill(root: Path, scratch: Path) -> Release:
        uv = Uv(workspace, root, scratch, index)
        if packaging != PLAIN_WHEEL:
            python = interpreter(version_of(release.python))
            if python is None:
                raise Unobtainable(
                    f"{name} needs Python {release.python}, which is not installed here"
                )
        if not isinstance(packaging, Environment):
            uv.unpack(f"{name} from {host_of(release.url)}", wheel, release.python)
            return release
        uv.environment(f"Python for {name}", str(python))
        requirements = [wheel, *packaging.companions_of(release.version)]
        uv.pip_of_day(
            f"{name} with its dependencies from {host_of(index)}",
            requirements,
            release.date,
        )
        return release

    folder = folder_of(workspace.home.toolchains, release, packaging)
    return fill_folder(workspace, folder.name, name, fill)


def install_companion(
    workspace: Workspace, package: str, version: str, index: Index
) -> Path:
    """Return the folder of a package that is released with a compiler. Install it if it
    is missing.

    The package has the compiler's version. If it lacks a patch release, the newest
    patch release before it is used.

    Raises:
        Unobtainable: The index has no such package.
        EnvironmentFailure: As in `install`.
    """

    def fits(release: Release) -> bool:
        wanted, found = Version(version), Version(release.version)
        if wanted.is_prerelease or found == wanted:
            return found == wanted
        return found <= wanted and found.release[:2] == wanted.release[:2]

    found = installed(workspace.home.toolchains, package, version=version)
    if not found:
        releases = index.releases(package)
        found = [each for each in releases if not each.yanked and fits(each)]
    if not found:
        raise Unobtainable(f"there is no {package} {version} at {index.url}")
    newest = max(found, key=lambda release: Version(release.version))
    return install(workspace, newest, index.url)


def provide_onnx(workspace: Workspace) -> Path | None:
    """Make the package `onnx` importable in this process, and install it if it is
    missing: only ONNX models need it.

    Returns the folder that other processes need in PYTHONPATH, or None if the package
    is installed next to this program. Raises EnvironmentFailure if it cannot be
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
            workspace.refuse_if_dry("onnx")
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
    """The new folder."""
    scratch: Path
    """A folder for files that are not needed later."""
    index: Address | None = None
    """The default index (None: that of uv's settings)."""

    def unpack(self, name: str, requirement: str, python: str) -> None:
        """Install one wheel without its dependencies. `python` is the version of Python
        that the wheel is for.
        """
        target = ("--no-deps", "--target", str(self.root))
        self.pip(name, [requirement], *target, "--python-version", python)

    def environment(self, name: str, python: str) -> None:
        """Make the folder a virtual environment, which can be moved."""
        options = ("--relocatable", "--no-project", "--no-config", "--clear")
        self.run(name, "venv", *options, "--python", python, str(self.root))

    def pip_of_day(
        self, name: str, requirements: Sequence[str], day: str | None
    ) -> None:
        """Install packages into the virtual environment, with the dependencies that
        were current on a day, if it is known.
        """
        into = ("--python", str(self.root / "bin" / "python"))
        if day is not None:
            until = date.fromisoformat(day) + _UPLOADED_WITHIN
            # uv leaves out files for which an index has no date. Then today's
            # dependencies are better than none.
            newest = ("--exclude-newer", f"{until.isoformat()}T00:00:00Z")
            with suppress(Unobtainable):
                self.pip(name, requirements, *into, *newest)
                return
        self.pip(name, requirements, *into)

    def pip(self, name: str, requirements: Sequence[str], *target: str) -> None:
        """Install packages. The options `target` say where."""
        listed = self.scratch / "requirements.txt"
        listed.touch(0o600)  # addresses may have a password
        listed.write_text("".join(f"{line}\n" for line in requirements))
        # uv links files from its cache. The cache is removed with the scratch folder,
        # so that damage to an install damages no copy that others are made from, and
        # pruning frees the space.
        cache = ("--cache-dir", str(self.scratch / "cache"))
        options = shlex.split("--only-binary :all: --no-progress --color never")
        self.run(name, "pip", "install", *options, *cache, *target, "-r", str(listed))

    def run(self, name: str, *words: str) -> None:
        """Run uv. `name` is what messages say that it installs.

        Raises:
            Unobtainable: uv fails for a reason that will not go away.
            EnvironmentFailure: It fails for another reason.
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
                seal=None,
                purpose=Purpose.INSTALL,
                env=self._indexes(),  # other users cannot see a password in it
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
        """Return variables that set uv's indexes. An index of nightlies does not have
        their dependencies, which come from the usual index.
        """
        usual = index_url()
        if not self.index:
            return {}
        if self.index.full == usual.full:
            return {"UV_DEFAULT_INDEX": usual.full}
        return {"UV_DEFAULT_INDEX": usual.full, "UV_INDEX": self.index.full}


def _reason(log: Path) -> str:
    """Return the last lines of uv's log that may say why it failed."""
    text = log.read_text("utf-8", "replace")
    # the caller names the server
    text = re.sub(r"(: | @ | for url )\(?https?://[^\s`)]+\)?", "", text)
    reasons = [
        re.sub("^(error|cause): ", "", line)
        for line in map(str.strip, text.splitlines())
        if line and not re.match("(?i)warning|using|resolved|downloading", line)
    ]
    return "; ".join(reasons[-6:])[:600] or "uv gave no reason"
