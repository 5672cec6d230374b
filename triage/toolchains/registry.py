"""All toolchains of one machine: what a REV means and the compiler it stands for."""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.version import Version

from triage.compilers.base import Compiler, Wheel
from triage.compilers.interpreters import versions
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.progress import Progress, Silent
from triage.model.revision import Revision, Toolchain
from triage.toolchains.capability_cache import describe
from triage.toolchains.index import Index, Release
from triage.toolchains.install import folder_of, install, installed, is_whole
from triage.toolchains.prune import hold
from triage.toolchains.revision_syntax import AtPath, AtVersion, Installed, Newest, OfDay, parse_rev


@dataclass(frozen=True, slots=True)
class ToolchainRef:
    """A revision and where its compiler comes from: a release of the index, a folder or binary at `path`, or whatever
    `bring` returns, which may take long and raises EnvironmentFailure where there is none.
    """

    family: str
    revision: Revision
    release: Release | None = None
    path: Path | None = None
    bring: Callable[[], Path] | None = field(default=None, compare=False)


class ToolchainRegistry:
    """Resolves revisions and obtains their toolchains; remembers what it obtained. Safe to use from several threads."""

    def __init__(
        self,
        home: Path,
        compilers: Mapping[str, Compiler],
        progress: Progress | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """`stop`: thrown by another thread, it ends the installs under way."""
        self.home = home
        self.folder = home / "toolchains"
        self.index = Index(home / "index")
        self._compilers = compilers
        self._progress = progress or Silent()
        self._stop = stop or threading.Event()
        self._obtained: dict[tuple[str, str], Toolchain] = {}
        self._lock = threading.Lock()

    def releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """The family's stable, not yanked releases, oldest first; without a network those that are installed."""
        found = self._known(self._compiler(family))
        return tuple(_place(family, one) for one in found if not one.prerelease and not one.yanked)

    def at_hand(self, family: str) -> tuple[ToolchainRef, ...]:
        """The family's installed releases, oldest first; asks no network."""
        return tuple(_place(family, one) for one in self._here(self._compiler(family)))

    def between(self, family: str, since: str | None, until: str | None) -> tuple[ToolchainRef, ...]:
        """The releases from `since` to `until`, both included (REV spellings of releases; None: no bound)."""
        low = self.version_of(since, family) if since else None
        high = self.version_of(until, family) if until else None
        chosen = [
            place
            for place in self.releases(family)
            if (low is None or Version(place.revision.name) >= low) and (high is None or Version(place.revision.name) <= high)
        ]
        if not chosen:
            raise BadInput(f"no release of {family} lies between {since or 'the first'} and {until or 'the newest'}")
        return tuple(chosen)

    def version_of(self, text: str, family: str) -> Version:
        """The version a REV stands for. BadInput when it is not a release."""
        place = self.place(text, family)
        if place.release is None:
            raise BadInput(f"{text!r} is no release; a range of releases needs two of them")
        return Version(place.revision.name)

    def place(self, text: str, family: str) -> ToolchainRef:
        """What a REV means for this family. BadInput for a wrong spelling or another family's prefix,
        EnvironmentFailure when the index has no such release.
        """
        named, rev = parse_rev(text, tuple(self._compilers))
        if named not in (None, family):
            raise BadInput(f"{text!r} is a {named} revision, but a {family} compiler is asked for")
        match rev:
            case Installed():
                return self._installed(family)
            case AtPath(path):
                return ToolchainRef(family, Revision(f"path:{path}"), path=path)
            case Newest(back):
                releases = self.releases(family)
                if len(releases) <= back:
                    raise EnvironmentFailure(f"the package index has only {len(releases)} releases of {family}")
                return releases[-1 - back]
            case OfDay(day):
                from triage.toolchains.sources.base import Workplace
                from triage.toolchains.sources.days import nightly_of

                revision, bring = nightly_of(family, day, Workplace(self.home, self._progress, self._stop))
                return ToolchainRef(family, revision, bring=bring)
            case AtVersion(version):
                return self._at_version(family, version)

    def _at_version(self, family: str, version: str) -> ToolchainRef:
        compiler, wanted = self._compiler(family), Version(version)
        package = compiler.distribution
        here = self._here(compiler)  # needs no network, and asking takes longer than a small compile
        known = here if any(Version(one.version) == wanted for one in here) else self._asked(compiler)
        for release in known:
            if Version(release.version) == wanted:
                return _place(family, release)
        near = neighbours([release.version for release in known if not release.prerelease], wanted)
        told = ", ".join(near) or "none at all"
        raise EnvironmentFailure(f"no release {version} of {package} for this platform (near it: {told})")

    def _here(self, compiler: Compiler) -> list[Release]:
        return installed(self.folder, compiler.distribution, compiler.packaging)

    def _asked(self, compiler: Compiler) -> Sequence[Release]:
        """What the index has, of wheels that an interpreter of this machine can run where it takes one."""
        if not compiler.distribution:
            raise BadInput(f"{compiler.name} has no releases: name a folder, `path:DIR`")
        alone = compiler.packaging == Wheel()
        return self.index.releases(compiler.distribution, () if alone else versions())

    def _known(self, compiler: Compiler) -> Sequence[Release]:
        try:
            return self._asked(compiler)
        except EnvironmentFailure as error:
            here = self._here(compiler)
            if not here:
                raise
            self._progress.note(f"{error}\nonly the {len(here)} installed releases are considered")
            return here

    def _installed(self, family: str) -> ToolchainRef:
        package = self._compiler(family).distribution
        try:
            found = distribution(package)
        except PackageNotFoundError as error:
            raise EnvironmentFailure(f"{package} is not installed beside this program; name a toolchain") from error
        root = Path(str(found.locate_file("")))
        return ToolchainRef(family, Revision(found.version), path=root)

    def beside(self, place: ToolchainRef, distribution: str) -> Path:
        """Where another package of a release's version is installed, installing it if need be. EnvironmentFailure where the
        place is no release, or there is no such package for it.
        """
        if place.release is None:
            raise EnvironmentFailure(f"{place.revision.name} is no release: there is no {distribution} for it")
        wanted = Version(place.release.version)
        here = installed(self.folder, distribution)
        known = here if any(Version(one.version) == wanted for one in here) else self.index.releases(distribution)
        found = next((one for one in known if Version(one.version) == wanted), None)
        if found is None:
            raise EnvironmentFailure(f"the package index has no {distribution} {wanted}")
        root = install(self.folder, distribution, found, self.index.url, self._progress, self._stop)
        hold(root)
        return root

    def comes_along(self, family: str) -> bool:
        """Whether a compiler of the family is installed beside this program, `installed` as a REV."""
        try:
            distribution(self._compiler(family).distribution)
        except (PackageNotFoundError, ValueError):
            return False
        return True

    def obtain(self, place: ToolchainRef) -> Toolchain:
        """The toolchain of a place, installed if need be. EnvironmentFailure when it cannot be had or does not run."""
        key = (place.family, place.revision.name)
        with self._lock:
            if key in self._obtained:
                return self._obtained[key]
        toolchain = self._obtain(place)
        with self._lock:
            return self._obtained.setdefault(key, toolchain)

    def obtain_all(self, places: Sequence[ToolchainRef], jobs: int = 4) -> dict[str, Toolchain | EnvironmentFailure]:
        """Many at once, by revision name; a failure stands in the place of its toolchain."""
        answers: dict[str, Toolchain | EnvironmentFailure] = {}
        missing = [place for place in places if not self.is_installed(place)]
        task = self._progress.task("toolchains", total=len(places)) if missing else Silent().task("")
        with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
            waiting = {pool.submit(self.obtain, place): place for place in places}
            try:
                for done in as_completed(waiting):
                    try:
                        answers[waiting[done].revision.name] = done.result()
                    except EnvironmentFailure as error:
                        answers[waiting[done].revision.name] = error
                    task.advance()
            except BaseException:
                self._stop.set()  # the pool waits for its threads: they must not wait for their downloads
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        task.finish()
        return answers

    def python_roots(self, family: str) -> list[Path]:
        """The installed releases whose Python modules this interpreter can import, newest first."""
        ours = ".".join(map(str, sys.version_info[:2]))
        compiler = self._compiler(family)
        here = reversed(self._here(compiler))
        return [folder_of(self.folder, compiler.distribution, release) for release in here if release.python == ours]

    def dialects(self, toolchain: Toolchain) -> frozenset[str]:
        """The dialects that a toolchain knows, asked each time."""
        return self._compiler(toolchain.family).dialects(toolchain.program)

    def revision(self, place: ToolchainRef) -> Revision:
        """A place's revision, with what its toolchain told of commit and date once that was obtained."""
        with self._lock:
            known = self._obtained.get((place.family, place.revision.name))
        return known.revision if known else place.revision

    def is_installed(self, place: ToolchainRef) -> bool:
        """Whether obtaining needs no download."""
        if place.bring is not None:
            return False
        return place.release is None or is_whole(self._folder(place, place.release))

    def _folder(self, place: ToolchainRef, release: Release) -> Path:
        compiler = self._compiler(place.family)
        return folder_of(self.folder, compiler.distribution, release, compiler.packaging)

    def _obtain(self, place: ToolchainRef) -> Toolchain:
        compiler = self._compiler(place.family)
        if place.release is not None:
            if (why := compiler.unsupported(place.release.version)) is not None:
                raise Unobtainable(why)
            package, url = compiler.distribution, self.index.url
            root = install(self.folder, package, place.release, url, self._progress, self._stop, compiler.packaging)
            hold(root)
        else:
            root = place.bring() if place.bring else place.path or Path()
            if root.is_relative_to(self.folder):
                hold(root)
            if not root.exists():
                raise EnvironmentFailure(f"there is no {root}")
        program = compiler.locate(root)
        if program is None:
            raise EnvironmentFailure(f"no {place.family} compiler below {root}: {compiler.folders}")
        known = describe(self.home / "described", compiler, program)
        told = known.description
        commit = place.revision.commit or told.commit  # what was asked for, whatever a build calls itself
        # Beside a commit stands the day it was built from, which every index agrees on; few tell the day of upload.
        revision = replace(place.revision, commit=commit, date=told.date or place.revision.date)
        return Toolchain(
            family=place.family,
            revision=revision,
            identity=known.identity,
            root=root,
            program=program,
            capabilities=told.capabilities,
            version=place.release.version if place.release else told.version,
        )

    def _compiler(self, family: str) -> Compiler:
        if family not in self._compilers:
            raise BadInput(f"compiler {family!r} is not supported yet; there is: {', '.join(sorted(self._compilers))}")
        return self._compilers[family]


def _place(family: str, release: Release) -> ToolchainRef:
    return ToolchainRef(family, Revision(release.version, date=release.date), release=release)


def neighbours(listed: Sequence[str], wanted: Version) -> list[str]:
    """Up to three versions around one that is not among them, oldest first: two before it and one after, where there are."""
    stable = sorted(listed, key=Version)
    at = bisect_left(stable, wanted, key=Version)
    return stable[max(0, min(at - 2, len(stable) - 3)) :][:3]
