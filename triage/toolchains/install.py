"""Install wheels into the install cache. uv downloads, checks and unpacks them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import count
from pathlib import Path

from triage.compilers.base import VERSION, Environment, Packaging
from triage.compilers.interpreters import interpreter, uv_program, version_of
from triage.execution.environment import Purpose
from triage.execution.process import run_logged
from triage.execution.streams import Log
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Ending
from triage.toolchains.index import Index, Release
from triage.toolchains.install_cache import PLAIN_WHEEL, bytes_below, fill_folder, folder_of, installed_release
from triage.toolchains.web import host_of, network_seconds, without_password
from triage.toolchains.workspace import Workspace

_UNPACKED_PER_WHEEL_BYTE = 4.6  # the largest ratio among released wheels, rounded up
_TYPICAL_WHEEL = 110 << 20  # bytes
_LARGEST_INSTALL = 32 << 30  # bytes of an install and uv's cache
_UV_TIMEOUT = 3600.0  # seconds; a slow network may need them
_TICKS = 4  # of a run between updates of the installed size
_SIBLINGS = timedelta(days=3)  # packages that are released together are uploaded one after another
# The package cannot be installed here, today or tomorrow; other errors of uv may be the network's.
_PERMANENT = re.compile(
    r"No solution found|are unsatisfiable|no usable wheels|no wheels|client error \(4(04|10) |Hash mismatch|"
    r"\bzip\b|\barchive\b|dist-info|`?METADATA|`?WHEEL|wheel filename|does not match|larger than",
    re.IGNORECASE,
)


def install(workspace: Workspace, distribution: str, release: Release, index: str, packaging: Packaging = PLAIN_WHEEL) -> Path:
    """Return the folder of an installed release. Install it if it is missing or damaged. Safe next to other processes.

    `index` is the address of the index, with the user and password for its files.

    Raises:
        EnvironmentFailure: the wheel cannot be downloaded, or the disk is full.
        Unobtainable: the wheel is gone, damaged or not the announced one, no interpreter here runs it, or its dependencies
            conflict.
    """
    name = f"{distribution} {release.version}"

    def fill(root: Path, scratch: Path) -> Release:
        _require_space(int((release.size or _TYPICAL_WHEEL) * _UNPACKED_PER_WHEEL_BYTE), root, name)
        digest = f" --hash=sha256:{release.sha256}" if release.sha256 else ""
        requirement = f"{distribution} @ {release.url}{digest}"
        if isinstance(packaging, Environment):
            _fill_environment(workspace, [requirement], release, packaging, root, scratch, index)
        else:
            if packaging.interpreted:
                _interpreter_for(release, name)
            install_wheel(workspace, requirement, release, root, scratch, f"{name} from {host_of(release.url)}", index)
        return release

    return fill_folder(workspace, folder_of(workspace.toolchains, distribution, release, packaging).name, name, fill)


def install_companion(workspace: Workspace, package: str, version: str, index: Index) -> Path:
    """Return the folder of a package that is released with a compiler.

    It has the compiler's version or, if the package lacks a patch release, the newest one before it.

    Raises:
        Unobtainable: the index has none.
        EnvironmentFailure: as `install`.
    """
    from packaging.version import Version

    wanted = Version(version)
    release = installed_release(workspace.toolchains, package, version)
    if release is None:
        patches = [
            release
            for release in index.releases(package)
            if not release.yanked
            and ((patch := Version(release.version)) == wanted or not wanted.is_prerelease)
            and patch <= wanted
            and patch.release[:2] == wanted.release[:2]
        ]
        if not patches:
            raise Unobtainable(f"there is no {package} {version} at {without_password(index.url)}")
        release = max(patches, key=lambda patch: Version(patch.version))
    return install(workspace, package, release, index.url)


def install_wheel(
    workspace: Workspace, requirement: str, release: Release, root: Path, scratch: Path, name: str, index: str = ""
) -> None:
    """Install one wheel without its dependencies into `root`. It need not be for this program's Python.

    `requirement` is a line of a requirements file, `name` stands for the wheel in messages, and `index` has the user and
    password for the wheel's server.
    """
    command = [*pip_install(scratch), "--no-deps", "--target", str(root), "--python-version", release.python]
    _run_requirements(command, [requirement], name, root, scratch, workspace, index)


def _fill_environment(
    workspace: Workspace,
    requirements: Sequence[str],
    release: Release,
    packaging: Environment,
    root: Path,
    scratch: Path,
    index: str,
) -> None:
    """Make a virtual environment of a wheel and its dependencies, which uv takes from the index."""
    program = _interpreter_for(release, release.wheel)
    # The environment may be moved, because the install cache moves complete folders.
    make = [uv_program(), "venv", "--relocatable", "--no-project", "--no-config", "--clear", "--python", str(program)]
    run_uv([*make, str(root)], f"Python {release.python}", root, scratch, workspace)
    command = [*pip_install(scratch), "--python", str(root / "bin" / "python")]
    lines = [*requirements, *(text.replace(VERSION, release.version) for text in packaging.beside)]
    name = f"{release.wheel} with its dependencies from {host_of(index)}"
    if release.date is not None:  # every install of the release gets the dependencies of its day
        until = date.fromisoformat(release.date) + _SIBLINGS
        dated = [*command, "--exclude-newer", f"{until.isoformat()}T00:00:00Z"]
        try:
            return _run_requirements(dated, lines, name, root, scratch, workspace, index)
        except Unobtainable:
            # The index has no dates for some files, so that uv excludes them. Today's dependencies are better than none.
            pass
    return _run_requirements(command, lines, name, root, scratch, workspace, index)


def _interpreter_for(release: Release, name: str) -> Path:
    program = interpreter(version_of(release.python))
    if program is None:
        raise Unobtainable(f"{name} needs Python {release.python}, which is not installed here")
    return program


def pip_install(scratch: Path) -> list[str]:
    """Return the start of a command that installs packages. scratch: a folder for uv's cache."""
    # uv links files from its cache. The cache is removed with the scratch folder, so that damage to an install damages no copy
    # that others are made from, and pruning frees the space.
    command = [uv_program(), "pip", "install", "--only-binary", ":all:", "--cache-dir", str(scratch / "cache")]
    return [*command, "--no-progress", "--color", "never"]


def _run_requirements(
    command: list[str], lines: Sequence[str], name: str, root: Path, scratch: Path, workspace: Workspace, index: str
) -> None:
    (scratch / "requirements.txt").write_text("".join(f"{line}\n" for line in lines))
    run_uv([*command, "-r", str(scratch / "requirements.txt")], name, root, scratch, workspace, index)


def run_uv(command: list[str], name: str, root: Path, scratch: Path, workspace: Workspace, index: str = "") -> None:
    """Run an install command of uv under a time limit and a size limit of the new folder `root`.

    `index` is the default index (empty: that of uv's settings). Other users cannot read a password in it.
    """
    task = workspace.progress.task(f"install {name}", total=None)
    ticks, timeout = count(), network_seconds() or _UV_TIMEOUT

    def watch_size() -> None:
        if next(ticks) % _TICKS == 0:
            size = bytes_below(root.parent)
            if size > _LARGEST_INSTALL:
                raise EnvironmentFailure(f"cannot install {name}: it has more than {_LARGEST_INSTALL >> 30} GiB")
            task.describe(f"install {name}  {size >> 20} MiB")

    try:
        with Log(scratch / "uv.log") as log:
            env = {"UV_DEFAULT_INDEX": index} if index else {}
            execution = run_logged(
                command,
                log,
                scratch,
                purpose=Purpose.INSTALL,
                env=env,
                stop=workspace.stop,
                timeout=timeout,
                on_tick=watch_size,
            )
    finally:
        task.finish()
    if execution.ending is Ending.TIMED_OUT:
        raise EnvironmentFailure(f"cannot install {name}: it takes more than {timeout:.0f} s")
    if not execution.ok:
        reason = _reason(log.path, root.parent)
        error = Unobtainable if _PERMANENT.search(reason) else EnvironmentFailure
        raise error(f"cannot install {name}: {reason}")


def _reason(log: Path, staging: Path) -> str:
    text = log.read_text("utf-8", "replace").replace(str(staging), "…")
    text = re.sub(r"(: | @ | for url )\(?https?://[^\s`)]+\)?", "", text)  # the caller names the server
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("No space left" in line for line in lines):
        return f"no space left on the disk of {staging.parent}"
    reasons = [line for line in lines if not line.lower().startswith(("warning", "using", "resolved", "downloading"))]
    return "; ".join(re.sub("^(error|cause): ", "", line) for line in reasons[-6:])[:600] or "uv gave no reason"


def _require_space(need: int, root: Path, name: str) -> None:
    """EnvironmentFailure when the disk of `root` has no space for so many bytes."""
    free = shutil.disk_usage(root).free
    if free < need:
        raise EnvironmentFailure(
            f"cannot install {name}: about {need >> 20} MiB are needed in {root.parent.parent}, {free >> 20} MiB are free. "
            "`triage toolchains prune --keep 2GiB` frees some; TRIAGE_HOME selects another disk."
        )
