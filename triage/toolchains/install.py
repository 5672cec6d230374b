"""Install one release into the cache: staged, checked, renamed; a broken install is found out and redone."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import date, timedelta
from hashlib import blake2b
from itertools import count
from pathlib import Path

from filelock import FileLock
from packaging.version import Version
from uv import find_uv_bin

from triage.compilers.base import Environment, Packaging, Wheel
from triage.compilers.interpreters import interpreter, version_of
from triage.execution.process import capture, run_logged
from triage.execution.streams import Log
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.progress import Progress
from triage.toolchains.home import disk_errors
from triage.toolchains.index import Release

UNPACKED_PER_WHEEL_BYTE = 4.6  # the largest ratio among released wheels, rounded up
_TYPICAL_WHEEL = 110 << 20
_ALONE = Wheel()
_VENV_PATIENCE = 120.0  # seconds to make a virtual environment
_TICKS = 4  # of a run between updates of the installed size
_SIBLINGS = timedelta(days=3)  # packages that are released together appear one after another


def folder_of(toolchains: Path, distribution: str, release: Release, packaging: Packaging = _ALONE) -> Path:
    """Where a release lives; readable, and different for different content of one version."""
    mark = release.sha256[:12] if release.sha256 else "unhashed"
    return toolchains / f"{_kind(distribution, packaging)}-{release.version}-{mark}"


def installed(toolchains: Path, distribution: str, packaging: Packaging = _ALONE) -> list[Release]:
    """The releases that are here whole, oldest version first: what there is without a network."""
    found: list[Release] = []
    kind = _kind(distribution, packaging)
    for folder in toolchains.glob(f"{kind}-[0-9]*"):
        if is_whole(folder):
            with suppress(OSError, ValueError, KeyError, TypeError):
                found.append(Release(**json.loads((folder / MANIFEST).read_text())["release"]))
    return sorted(found, key=lambda release: Version(release.version))


def install(
    toolchains: Path,
    distribution: str,
    release: Release,
    index_url: str,
    progress: Progress,
    stop: threading.Event,
    packaging: Packaging = _ALONE,
) -> Path:
    """The folder of an installed release, installing it if it is missing or broken. Safe beside other processes.

    EnvironmentFailure when the wheel cannot be had or the disk is full, Unobtainable where no interpreter here runs it or
    what it depends on does not go together; then nothing half-done is left behind.
    """
    folder, what = folder_of(toolchains, distribution, release, packaging), f"{distribution} {release.version}"
    if packaging != _ALONE and not is_whole(folder) and interpreter(version_of(release.python)) is None:
        raise Unobtainable(f"{what} needs Python {release.python}, and none is installed here")

    def fill(root: Path, scratch: Path) -> Release:
        need = int((release.size or _TYPICAL_WHEEL) * UNPACKED_PER_WHEEL_BYTE)
        require_room(need, root, f"install {what}")
        wanted = f"{distribution}=={release.version}"
        requirements = scratch / "requirements.txt"
        of_its_day: list[str] = []
        match packaging:
            case Wheel():
                if release.sha256:
                    wanted += f" --hash=sha256:{release.sha256}"
                command = uv_install(root, scratch, release.python)
                command += ["--require-hashes" if release.sha256 else "--no-verify-hashes"]
            case Environment(beside):
                wanted = "\n".join((wanted, *beside))
                _make_environment(root, release.python, what)
                command = [*_uv_pip(scratch), "--python", str(root / "bin" / "python")]
                of_its_day = _as_of(release)
        requirements.write_text(wanted + "\n")
        command += ["--default-index", index_url, "-r", str(requirements)]
        try:
            _run([*command, *of_its_day], f"install {what}", root, scratch, progress, stop)
        except Unobtainable:
            if not of_its_day:
                raise
            # An index that does not date all its files offers too few of them; today's are better than none.
            _run(command, f"install {what}", root, scratch, progress, stop)
        return release

    return kept(toolchains, folder.name, what, progress, fill)


def _kind(distribution: str, packaging: Packaging) -> str:
    """How the folders of one distribution, installed in one way, begin."""
    match packaging:
        case Wheel():
            return distribution
        case Environment(()):
            return f"venv-{distribution}"
        case Environment(beside):
            return f"venv-{distribution}-with-{blake2b(' '.join(beside).encode(), digest_size=4).hexdigest()}"


def _as_of(release: Release) -> list[str]:
    """What the release depends on as it was in its day, so that it does not change from one install to the next."""
    if release.date is None:
        return []
    until = date.fromisoformat(release.date) + _SIBLINGS
    return ["--exclude-newer", f"{until.isoformat()}T00:00:00Z"]


def _make_environment(root: Path, python: str, what: str) -> None:
    """A virtual environment that may be moved, as it is when it is whole."""
    program = interpreter(version_of(python))
    command = [find_uv_bin(), "venv", "--relocatable", "--no-project", "--no-config", "--clear"]
    command += ["--python", str(program), str(root)]
    answer = capture(command, _VENV_PATIENCE)
    if not answer.ok:
        said = answer.stderr.text.strip()[-300:]
        raise EnvironmentFailure(f"cannot install {what}: no virtual environment of Python {python}: {said}")


def _run(command: list[str], what: str, root: Path, scratch: Path, progress: Progress, stop: threading.Event) -> None:
    task = progress.task(what, total=None)
    ticks = count()

    def describe() -> None:
        if next(ticks) % _TICKS == 0:
            task.describe(f"{what}  {_size(root.parent) >> 20} MiB")

    try:
        with Log(scratch / "uv.log") as log:
            execution = run_logged(command, log, Path(), env=os.environ, stop=stop, on_tick=describe)
    finally:
        task.finish()
    if not execution.ok:
        why = _why(log.path, root.parent)
        # Said of the package, not of the network: it will be so tomorrow.
        forever = re.search(r"No solution found|requirements are unsatisfiable|has no usable wheels|no wheels are usable", why)
        raise (Unobtainable if forever else EnvironmentFailure)(f"cannot {what}: {why}")


def _uv_pip(scratch: Path) -> list[str]:
    # A cache of its own, thrown away with the scratch folder: with a shared one the files would be hard links, so that
    # damage to an install would damage the copy it is mended from, and pruning would free nothing.
    command = [find_uv_bin(), "pip", "install", "--only-binary", ":all:", "--cache-dir", str(scratch / "cache")]
    return [*command, "--no-progress", "--color", "never"]


def uv_install(root: Path, scratch: Path, python: str) -> list[str]:
    """The uv command that unpacks a wheel for that Python into `root`; what to install follows."""
    return [*_uv_pip(scratch), "--no-deps", "--target", str(root), "--python-version", python]


def require_room(need: int, place: Path, what: str) -> None:
    """EnvironmentFailure when the disk of `place` has fewer than `need` bytes free; `what` says what they are for."""
    free = shutil.disk_usage(place).free
    if free < need:
        raise EnvironmentFailure(
            f"cannot {what}: about {need >> 20} MiB are needed in {place.parent.parent}, {free >> 20} MiB are free. "
            "`triage toolchains prune --keep 2GiB` frees some; TRIAGE_HOME names another disk."
        )


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(place, name).stat().st_size
            except OSError:  # uv moves files while we look
                continue
    return total


def _why(log: Path, staging: Path) -> str:
    text = log.read_text("utf-8", "replace").replace(str(staging), "…")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("No space left" in line for line in lines):
        return f"no space left on the disk of {staging.parent}"
    told = [line for line in lines if not line.lower().startswith(("warning", "using", "resolved"))]
    return " ".join(told[-6:])[:600] or "uv gave no reason"


MANIFEST = "toolchain.json"


def is_whole(folder: Path) -> bool:
    """Whether an install is complete: its manifest is there and every file has the size it had when installed."""
    try:
        sizes = json.loads((folder / MANIFEST).read_text())["files"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, AttributeError):
        return False


def kept(toolchains: Path, name: str, what: str, progress: Progress, fill: Callable[[Path, Path], Release | None]) -> Path:
    """The folder `name` of the cache, filled if it is missing or broken. Safe beside other processes.

    fill(root, scratch) puts the files into `root`, which is moved afterwards, and may use `scratch`, which is thrown
    away; a release it returns is written down, so that the folder counts as an install of it. What it raises leaves
    nothing behind. `what` names the toolchain in messages.
    """
    folder = toolchains / name
    if is_whole(folder):
        return folder
    with disk_errors(f"keep {what}"):
        toolchains.mkdir(parents=True, exist_ok=True)
        with FileLock(toolchains / f".{name}.lock"):
            if is_whole(folder):  # another process did it while this one waited
                return folder
            if folder.exists():
                progress.note(f"{what} is damaged and is obtained again")
                shutil.rmtree(folder)
            staging = toolchains / f".{name}.staging"
            shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed: the lock is ours
            root, scratch = staging / "root", staging / "scratch"
            try:
                root.mkdir(parents=True)
                scratch.mkdir()
                _list(root, fill(root, scratch))
                root.rename(folder)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return folder


def _list(root: Path, release: Release | None) -> None:
    files = {str(path.relative_to(root)): path.stat().st_size for path in sorted(root.rglob("*")) if path.is_file()}
    told = {"files": files} if release is None else {"release": asdict(release), "files": files}
    with (root / MANIFEST).open("w") as sink:
        json.dump(told, sink)
        sink.flush()
        os.fsync(sink.fileno())
