"""Install releases and wheel files into the install cache with uv."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import count
from pathlib import Path

from triage.compilers.base import VERSION, Environment, Packaging, Wheel
from triage.compilers.interpreters import interpreter, uv_program, version_of
from triage.execution.environment import Purpose
from triage.execution.process import run_logged
from triage.execution.streams import Log
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Ending
from triage.toolchains.addresses import host_of
from triage.toolchains.archives import check_wheel
from triage.toolchains.index import Index, Release
from triage.toolchains.install_cache import PLAIN_WHEEL, bytes_below, fill_folder, folder_of, installed_release
from triage.toolchains.workspace import Workspace

_UNPACKED_PER_WHEEL_BYTE = 4.6  # the largest ratio among released wheels, rounded up
_TYPICAL_WHEEL = 110 << 20  # bytes
_LARGEST_INSTALL = 32 << 30  # bytes of an install and the wheels that it is made of
_UV_TIMEOUT = 3600.0  # seconds; dependencies may come over a slow network
_TICKS = 4  # of a run between updates of the installed size
_SIBLINGS = timedelta(days=3)  # packages that are released together are uploaded one after another
# The package cannot be installed here, today or tomorrow; other errors of uv may be the network's.
_PERMANENT = re.compile(r"No solution found|requirements are unsatisfiable|has no usable wheels|no wheels are usable")


def install(
    workspace: Workspace, distribution: str, release: Release, index: Index, packaging: Packaging = PLAIN_WHEEL
) -> Path:
    """The folder of an installed release, which is installed if it is missing or damaged. Safe beside other processes.

    Raises:
        EnvironmentFailure: the wheel cannot be downloaded, or the disk is full.
        Unobtainable: no interpreter here runs it, or its dependencies conflict.
    """
    folder = folder_of(workspace.toolchains, distribution, release, packaging)
    name = f"{distribution} {release.version}"

    def fill(root: Path, scratch: Path) -> Release:
        if packaging != PLAIN_WHEEL and interpreter(version_of(release.python)) is None:
            raise Unobtainable(f"{name} needs Python {release.python}, which is not installed here")
        _require_space(int((release.size or _TYPICAL_WHEEL) * _UNPACKED_PER_WHEEL_BYTE), root, name)
        url = index.address(distribution, release)
        wheel = download(workspace, url, release, scratch, name)
        match packaging:
            case Wheel():
                unpack(wheel, host_of(url), release, root, scratch, workspace)
            case Environment(beside):
                check_wheel(wheel, f"{wheel.name} from {host_of(url)}")
                _fill_environment(workspace, wheel, release, beside, root, scratch, index.url)
        return release

    return fill_folder(workspace, folder.name, name, fill)


def install_companion(workspace: Workspace, package: str, version: str, index: Index) -> Path:
    """The folder of a package that is released beside a compiler: of the compiler's version or, where the package lacks a
    patch version, the newest one before it.

    Raises:
        Unobtainable: the index has none.
        EnvironmentFailure: as `install`.
    """
    from packaging.version import Version

    wanted = Version(version)
    release = installed_release(workspace.toolchains, package, version)
    if release is None:
        patches = (
            (parsed, release)
            for release in index.releases(package)
            if (parsed := Version(release.version)) <= wanted
            and parsed.release[:2] == wanted.release[:2]
            and not release.yanked
        )
        _, release = max(patches, key=lambda patch: patch[0], default=(None, None))
    if release is None:
        raise Unobtainable(f"the package index has no {package} {version}")
    return install(workspace, package, release, index)


def download(workspace: Workspace, url: str, release: Release, scratch: Path, name: str) -> Path:
    """Download a release's wheel into `scratch`. Raises what `Web.download` raises."""
    from triage.toolchains.web import Web  # slow to import

    wheel = scratch / release.wheel
    Web(workspace).download(url, wheel, name, release.sha256, release.size)
    return wheel


def unpack(wheel: Path, origin: str, release: Release, root: Path, scratch: Path, workspace: Workspace) -> None:
    """Install a wheel file into `root`. `origin`: the host it comes from, for messages.

    Raises:
        Unobtainable: the file is damaged or malicious.
        EnvironmentFailure: the disk is full.
    """
    name = f"{wheel.name} from {origin}"
    _require_space(check_wheel(wheel, name), root, name)
    command = [*pip_install(scratch), "--no-deps", "--target", str(root), "--python-version", release.python]
    command += ["--no-index", "--offline", "--no-config", str(wheel)]
    try:
        run_uv(command, name, root, scratch, workspace)
    except EnvironmentFailure as error:
        if "no space left" in str(error):
            raise
        raise Unobtainable(str(error)) from error


def _fill_environment(
    workspace: Workspace, wheel: Path, release: Release, beside: Sequence[str], root: Path, scratch: Path, index: str
) -> None:
    """Make a virtual environment of a wheel and its dependencies, which uv takes from the index."""
    from triage.toolchains.web import network_seconds  # slow to import

    _make_environment(root, release.python, scratch, workspace)
    requirements = scratch / "requirements.txt"
    requirements.write_text("\n".join((wheel.as_uri(), *(text.replace(VERSION, release.version) for text in beside))) + "\n")
    command = [*pip_install(scratch), "--python", str(root / "bin" / "python"), "--default-index", index]
    command += ["-r", str(requirements)]
    as_of: list[str] = []
    if release.date is not None:  # every install of the release gets the dependencies of its day
        until = date.fromisoformat(release.date) + _SIBLINGS
        as_of = ["--exclude-newer", f"{until.isoformat()}T00:00:00Z"]
    name, seconds = f"{wheel.name} with its dependencies from {host_of(index)}", network_seconds() or _UV_TIMEOUT
    try:
        run_uv([*command, *as_of], name, root, scratch, workspace, seconds)
    except Unobtainable:
        if not as_of:
            raise
        # The index has no dates for some files, so that uv excludes them. Today's dependencies are better than none.
        run_uv(command, name, root, scratch, workspace, seconds)


def _make_environment(root: Path, python: str, scratch: Path, workspace: Workspace) -> None:
    """A virtual environment that may be moved, because the install cache moves complete folders."""
    program = interpreter(version_of(python))
    command = [uv_program(), "venv", "--relocatable", "--no-project", "--no-config", "--clear"]
    run_uv([*command, "--python", str(program), str(root)], f"Python {python}", root, scratch, workspace)


def pip_install(scratch: Path) -> list[str]:
    """Return the start of a command that installs packages. scratch: a folder for uv's cache."""
    # The cache is removed with the scratch folder. Files from a shared cache would be hard links: damage to an install would
    # damage the copy it is restored from, and pruning would free nothing.
    command = [uv_program(), "pip", "install", "--only-binary", ":all:", "--cache-dir", str(scratch / "cache")]
    return [*command, "--no-progress", "--color", "never"]


def run_uv(
    command: list[str], name: str, root: Path, scratch: Path, workspace: Workspace, timeout: float = _UV_TIMEOUT
) -> None:
    """Run an install command of uv under a time limit and a size limit of the new folder `root`."""
    task = workspace.progress.task(f"install {name}", total=None)
    ticks = count()

    def watch_size() -> None:
        if next(ticks) % _TICKS == 0:
            size = bytes_below(root.parent)
            if size > _LARGEST_INSTALL:
                raise EnvironmentFailure(f"cannot install {name}: it has more than {_LARGEST_INSTALL >> 30} GiB")
            task.describe(f"install {name}  {size >> 20} MiB")

    try:
        with Log(scratch / "uv.log") as log:
            execution = run_logged(
                command, log, scratch, purpose=Purpose.INSTALL, stop=workspace.stop, timeout=timeout, on_tick=watch_size
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
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("No space left" in line for line in lines):
        return f"no space left on the disk of {staging.parent}"
    reasons = [line for line in lines if not line.lower().startswith(("warning", "using", "resolved"))]
    return " ".join(reasons[-6:])[:600] or "uv gave no reason"


def _require_space(need: int, root: Path, name: str) -> None:
    """EnvironmentFailure when the disk of `root` has no space for so many bytes."""
    free = shutil.disk_usage(root).free
    if free < need:
        raise EnvironmentFailure(
            f"cannot install {name}: about {need >> 20} MiB are needed in {root.parent.parent}, {free >> 20} MiB are free. "
            "`triage toolchains prune --keep 2GiB` frees some; TRIAGE_HOME selects another disk."
        )
