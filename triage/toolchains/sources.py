"""Sources of toolchains: each lists its builds of commits. Published wheels are two of
them, the releases of the package index and the nightlies.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, BinaryIO

from triage.git_history.repository import Checkout, Repository, tagged_commits
from triage.git_history.timeline import Timeline
from triage.model.content import Address
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.fields import REQUIRED, Duration, file_key, fits
from triage.model.revision import Revision
from triage.processes.containment import Purpose
from triage.processes.process import run, unlimited
from triage.recipes.document import OneOrMore, Text, Texts, Variables
from triage.toolchains.home import (
    KeptKind,
    Workspace,
    disk_errors,
    fill_folder,
    is_intact,
    lock_file,
    remove_tree,
    save_file,
)
from triage.toolchains.index import Release, index_url
from triage.toolchains.install import Package

_SECONDS = 15.0  # of a download and an install


@dataclass(frozen=True)
class Build:
    """A toolchain of a commit that a source can provide."""

    source: str
    """The name of the source."""
    revision: Revision
    index: int
    """The index of its commit on the timeline."""
    seconds: float
    """The estimated time to obtain it; 0 if it is installed."""
    obtain: Callable[[str | None], Path]
    """Returns the folder of the toolchain, or of the package of this name that was
    published with it. Installs it if it is missing.

    Raises:
        Unobtainable: There is no such toolchain or package.
        EnvironmentFailure: It cannot be obtained now.
    """


Source = Callable[[Timeline, range], Sequence[Build]]
"""Lists the builds of the commits with these indices. A commit may have several. Raises
EnvironmentFailure if they cannot be listed.
"""
Url = Annotated[
    Text,
    fits(
        "https?://.+",
        "this is not an address: write one that begins with https://.",
    ),
]
Tag = Annotated[
    Text,
    fits(
        r"[^{}]*\{version\}[^{}]*",
        'this is not a pattern for tags: write {version} once, such as "v{version}".',
    ),
]
Tags = Annotated[tuple[Tag, ...], OneOrMore]


@dataclass(frozen=True)
class ReleasesSection:
    """Releases of the package index."""

    tags: Tags = file_key(REQUIRED, "Which tags mark a release's commit.", "v{version}")


@dataclass(frozen=True)
class NightliesSection:
    """Nightly wheels."""

    find_links: Url | None = file_key(
        None, "A page of links to wheels.", alias="find-links"
    )
    index: Url | None = file_key(
        None, "A simple index that holds the wheels (default: that of the releases)."
    )
    tags: Tags = file_key((), "Which tags mark a nightly's commit.", "v{version}")

    def package(self, releases: Package) -> Package:
        """Return the nightlies of a project with these releases."""
        return replace(
            releases,
            address=Address(self.find_links or self.index or index_url().full),
            is_page=self.find_links is not None,
            nightly=True,
        )


def wheel_builds(
    package: Package, tags: Sequence[str], timeline: Timeline, indices: range
) -> list[Build]:
    """Return the releases or nightlies of a package whose commit is in the range, by
    their tags, such as `v{version}`.
    """
    by_sha = {timeline.commits[index].sha: index for index in indices}
    source = "nightlies" if package.nightly else "releases"
    builds = []
    for release in package.listed:
        shas = tagged_commits(release.version, tags, timeline.tags)
        is_wanted = release.nightly or release.is_stable
        if is_wanted and len(shas) == 1 and shas <= by_sha.keys():
            index = by_sha[shas.pop()]
            revision = timeline.commits[index].revision
            day = release.date or revision.date
            revision = replace(revision, name=release.version, date=day)
            is_installed = is_intact(package.folder(release))
            seconds = 0.0 if is_installed else _SECONDS
            obtain = partial(_install, package, release)
            builds.append(Build(source, revision, index, seconds, obtain))
    return builds


def _install(package: Package, release: Release, name: str | None) -> Path:
    """Return the folder of a release, or of the package `name` of the same version."""
    if name is not None:
        return package.companion(name, release.version)
    return package.install(release)


_BUILD_SECONDS = 3600.0  # that a build counts for


@dataclass(frozen=True, kw_only=True)
class BuildSection:
    """Builds from source by shell commands."""

    commands: Texts = file_key(
        REQUIRED,
        "Build and put the toolchain into $TRIAGE_OUT.",
        'cp -r my_compiler "$TRIAGE_OUT"',
    )
    submodules: bool = file_key(
        False, "Whether the build needs the submodules, which may be fetched."
    )
    timeout: Duration = file_key(4 * 3600.0, "For all commands of one commit together.")
    env: Variables = file_key(
        (), "Further variables: names to pass on, or names with values."
    )


@dataclass(frozen=True)
class SourceBuilds:
    """Builds any commit, one at a time.

    The commands run in the checked-out sources, with these variables: TRIAGE_SOURCE
    (the folder of the sources), TRIAGE_BUILD (a folder that is kept for the next
    commit), TRIAGE_OUT (the folder for the toolchain), TRIAGE_COMMIT and TRIAGE_JOBS.
    The toolchain must not refer to TRIAGE_BUILD, which changes.
    """

    workspace: Workspace
    repository: Repository
    project: str
    steps: BuildSection

    def builds(self, timeline: Timeline, indices: range) -> list[Build]:
        """Return one build for each commit."""
        builds = []
        for index in indices:
            commit = timeline.commits[index]
            seconds = _BUILD_SECONDS
            folder = self._folder_name(commit.sha)
            if is_intact(self.workspace.home.toolchains / folder):
                seconds = 0.0
            revision = replace(commit.revision, name=commit.sha)
            obtain = partial(self._obtain, commit.sha)
            builds.append(Build("builds", revision, index, seconds, obtain))
        return builds

    def _obtain(self, sha: str, _: str | None) -> Path:
        """Return the folder of a commit's build. Build the commit if it is not
        installed. It has all packages. A failure is stored, and the same steps are not
        tried again.
        """
        name = self._folder_name(sha)
        log = self.workspace.home.folder(KeptKind.LOGS) / f"{name}.log"
        failed = log.with_suffix(".failed")
        if failed.exists():
            raise Unobtainable(failed.read_text("utf-8"), log)

        def fill(root: Path, _: Path) -> None:
            with disk_errors("write a log"):
                log.parent.mkdir(parents=True, exist_ok=True)
            with (
                log.open("wb", buffering=0) as output,
                self._locked_builder() as folder,
            ):
                log.chmod(0o600)  # what programs print may have a password in it
                self._run_steps(sha, root, folder, output)

        try:
            return fill_folder(self.workspace, name, f"build {sha[:10]}", fill)
        except Unobtainable as error:
            save_file(failed, error.reason, "write a log")
            raise

    def _folder_name(self, sha: str) -> str:
        """Return the name of the folder of a commit's build. Two builds with different
        steps are two toolchains.
        """
        steps = repr(replace(self.steps, timeout=0.0))
        return f"build-{self.project}-{sha[:16]}-{_digest(steps)}"

    def _run_steps(self, sha: str, root: Path, folder: Path, log: BinaryIO) -> None:
        """Check out a commit and run the commands. Raises Unobtainable if one fails,
        and EnvironmentFailure if a command takes too long or is killed, because that
        may be the machine's fault, as a full disk is.
        """
        source = folder / "source"
        path = Path(log.name)
        checkout = Checkout(source, self.repository, log, self.workspace.stop)
        checkout.check_out(sha, submodules=self.steps.submodules)
        env = {
            "LC_ALL": "C.UTF-8",
            "GIT_TERMINAL_PROMPT": "0",
            **dict(self.steps.env),
            "TRIAGE_SOURCE": str(source),
            "TRIAGE_BUILD": str(folder / "build"),
            # compilers that are killed leave files there
            "TMPDIR": str(folder / "tmp"),
            "TRIAGE_OUT": str(root),
            "TRIAGE_COMMIT": sha,
            "TRIAGE_JOBS": str(len(os.sched_getaffinity(0))),
        }
        deadline = time.monotonic() + self.steps.timeout
        for command in self.steps.commands:
            log.write(f"\n$ {command}\n".encode())
            limits = unlimited(max(deadline - time.monotonic(), 0.0))
            execution = run(
                ["sh", "-c", command],
                limits,
                source,
                seal=None,
                purpose=Purpose.BUILD,
                env=env,
                stop=self.workspace.stop,
                on_stdout=log.write,
                on_stderr=log.write,
            )
            if not execution.ok:
                what = f"`{command.strip().splitlines()[0][:80]}`: "
                what += execution.ending_text(limits)
                output = execution.stdout.text + execution.stderr.text
                is_full = "No space left on device" in output
                if is_full or execution.exit_code in (None, 137):
                    raise EnvironmentFailure(f"{what} (log: {path})")
                raise Unobtainable(f"{sha[:10]} does not build: {what}", path)
        if not any(root.iterdir()):
            raise Unobtainable("the commands put nothing into TRIAGE_OUT", path)

    @contextmanager
    def _locked_builder(self) -> Iterator[Path]:
        """Lock the folder with the private clone and the build folder. If the last
        process that used it was killed, it begins anew.
        """
        mark = _digest(str(self.repository.common_dir))
        folder = self.workspace.home.builders / mark
        temporary = folder / "tmp"
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f".{mark}.lock")
        with lock_file(lock, fcntl.LOCK_EX, self.workspace.stop):
            if temporary.exists():
                remove_tree(folder)
            for path in (folder / "build", temporary):
                path.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
            try:
                yield folder
            finally:
                remove_tree(temporary)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
