"""The toolchains of one machine: parse and resolve a revision (REV), and obtain its compiler."""

from __future__ import annotations

import re
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from triage.compilers.base import Compiler
from triage.compilers.interpreters import versions
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.progress import Progress, Silent
from triage.model.revision import Revision, Toolchain
from triage.toolchains.capability_cache import describe
from triage.toolchains.index import Index, Release
from triage.toolchains.install import install, install_companion
from triage.toolchains.install_cache import PLAIN_WHEEL, InUse, folder_of, installed, installed_release, is_intact, sweep
from triage.toolchains.workspace import Workspace

if TYPE_CHECKING:
    from packaging.version import Version


_FORMS = "`3.13.0`, `latest`, `previous`, `installed`, `nightly:2025-06-04`, or `path:DIR-OR-BINARY`"


@dataclass(frozen=True, slots=True)
class ParsedRev:
    """A REV in parts. `family`: its prefix, None without one; `value`: the version, the path, or the day of a nightly."""

    family: str | None
    kind: Literal["version", "latest", "previous", "installed", "path", "nightly"]
    value: str = ""


def parse_rev(text: str, families: tuple[str, ...]) -> ParsedRev:
    """Parse a REV such as `iree:3.4.0`. `families`: the names that may be prefixes. BadInput when the text is no REV."""
    # The longest prefix: the name of a family may contain a colon.
    family = max((name for name in families if text.startswith(f"{name}:")), key=len, default=None)
    if family is not None:
        text = text.removeprefix(f"{family}:")
    head, colon, rest = text.partition(":")
    match head if colon else text:
        case "latest":
            return ParsedRev(family, "latest")
        case "previous":
            return ParsedRev(family, "previous")
        case "installed":
            return ParsedRev(family, "installed")
        case "path" if rest:
            return ParsedRev(family, "path", rest)
        case "nightly" if rest:
            return ParsedRev(family, "nightly", rest)
        case "commit":
            raise BadInput(f"{text!r}: a commit needs a clone, which `bisect` and `suspects` take with --repo; use {_FORMS}")
    if re.match(r"v?\d", text):
        from packaging.version import InvalidVersion, Version

        try:
            return ParsedRev(family, "version", str(Version(text)))
        except InvalidVersion:
            pass
    hint = f" (for a folder write `path:{text}`)" if Path(text).exists() else ""
    raise BadInput(f"{text!r} is not a revision: write {_FORMS}{hint}")


@dataclass(frozen=True, slots=True)
class ToolchainRef:
    """A revision and where its compiler comes from: a release of the index, a folder or binary at `path`, or `bring`, which
    obtains it, may take long and raises EnvironmentFailure where there is none. With the name of a package, `bring` obtains
    that package of the same revision.
    """

    family: str
    revision: Revision
    release: Release | None = None
    path: Path | None = None
    bring: Callable[..., Path] | None = field(default=None, compare=False)


class ToolchainRegistry:
    """Resolves revisions and obtains their toolchains. Safe to use from several threads."""

    def __init__(
        self,
        home: Path,
        compilers: Mapping[str, Compiler],
        progress: Progress | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """`stop`: set by another thread, it ends running downloads and installs."""
        self.home = home
        self.workspace = Workspace(home, progress or Silent(), stop or threading.Event())
        self.folder = self.workspace.toolchains
        self.index = Index(self.workspace)
        self._compilers = compilers
        self._obtained: dict[tuple[str, str], Toolchain] = {}
        self._refs: dict[tuple[str, str], ToolchainRef] = {}
        self._companions: dict[tuple[str, str], Path] = {}
        self._in_use = InUse(self.workspace.stop)
        sweep(home)
        self._lock = threading.Lock()

    def releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """The family's stable releases that were not yanked, oldest first; without a network those that are installed."""
        releases = self._known(self._compiler(family))
        return tuple(_ref(family, release) for release in releases if not release.prerelease and not release.yanked)

    def nightlies(self, family: str) -> tuple[ToolchainRef, ...]:
        """The family's nightlies, oldest first.

        Raises:
            BadInput: the family has none.
            EnvironmentFailure: their page cannot be read and never was.
        """
        from triage.toolchains.sources.project import nightlies_of

        return tuple(ToolchainRef(family, revision, bring=bring) for revision, bring in nightlies_of(family, self.workspace))

    def installed_releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """The family's installed releases, oldest first. Uses no network."""
        return tuple(_ref(family, release) for release in self._installed(self._compiler(family)))

    def between(self, family: str, since: str | None, until: str | None) -> tuple[ToolchainRef, ...]:
        """The releases from `since` to `until`, both included (REVs of releases; None: no bound)."""
        from packaging.version import Version

        low = self.version_of(since, family) if since else None
        high = self.version_of(until, family) if until else None
        refs = ((ref, Version(ref.revision.name)) for ref in self.releases(family))
        chosen = [ref for ref, version in refs if (low is None or version >= low) and (high is None or version <= high)]
        if not chosen:
            raise BadInput(f"there is no release of {family} between {since or 'the first'} and {until or 'the newest'}")
        return tuple(chosen)

    def version_of(self, text: str, family: str) -> Version:
        """The version that a REV stands for. BadInput when it is not a release."""
        from packaging.version import Version

        ref = self.resolve(text, family)
        if ref.release is None:
            raise BadInput(f"{text!r} is not a release; both ends of a range of releases must be")
        return Version(ref.revision.name)

    def resolve(self, text: str, family: str) -> ToolchainRef:
        """The toolchain that a REV stands for.

        Raises:
            BadInput: the REV is spelled wrong, or of another family.
            EnvironmentFailure: the index has no such release, or there is no such nightly.
        """
        rev = parse_rev(text, tuple(self._compilers))
        if rev.family not in (None, family):
            raise BadInput(f"{text!r} is a revision of {rev.family}; name one of {family}")
        match rev.kind:
            case "installed":
                return self._beside_program(family)
            case "path":
                path = Path(rev.value).expanduser()
                return ToolchainRef(family, Revision(f"path:{path}"), path=path)
            case "latest" | "previous":
                back, releases = int(rev.kind == "previous"), self.releases(family)
                if len(releases) <= back:
                    raise EnvironmentFailure(f"the package index has only {len(releases)} releases of {family}")
                return releases[-1 - back]
            case "nightly":
                from triage.toolchains.sources.project import nightly_of

                revision, bring = nightly_of(family, rev.value, self.workspace)
                return ToolchainRef(family, revision, bring=bring)
            case "version":
                return self._at_version(family, rev.value)

    def _at_version(self, family: str, version: str) -> ToolchainRef:
        compiler = self._compiler(family)
        # Installs come first: they need no network, and asking the index takes longer than a small compile.
        release = installed_release(self.folder, compiler.distribution, version, compiler.packaging)
        release = release or _release_of(known := self._listed(compiler), version)
        if release is not None:
            return _ref(family, release)
        if (nightly := self._nightly_at(family, version)) is not None:
            return nightly
        near = neighbours([release.version for release in known if not release.prerelease], version)
        raise EnvironmentFailure(
            f"{compiler.distribution} has no release {version} for this platform; the nearest are {', '.join(near) or 'none'}"
        )

    def _nightly_at(self, family: str, version: str) -> ToolchainRef | None:
        """The nightly of a version, as reports name it; None where there is none or they cannot be listed."""
        from packaging.version import Version

        if not Version(version).is_prerelease:
            return None
        try:
            return next((ref for ref in self.nightlies(family) if ref.revision.name == version), None)
        except (BadInput, EnvironmentFailure):
            return None

    def _installed(self, compiler: Compiler) -> list[Release]:
        return installed(self.folder, compiler.distribution, compiler.packaging)

    def _listed(self, compiler: Compiler) -> Sequence[Release]:
        """The releases of the index. Where a compiler runs in Python, only wheels that an interpreter here can run."""
        if not compiler.distribution:
            raise BadInput(f"{compiler.name} has no releases: use the compiler of a folder, `path:DIR`")
        pythons = () if compiler.packaging == PLAIN_WHEEL else versions()
        return self.index.releases(compiler.distribution, pythons)

    def _known(self, compiler: Compiler) -> Sequence[Release]:
        try:
            return self._listed(compiler)
        except EnvironmentFailure as error:
            here = self._installed(compiler)
            if not here:
                raise
            self.workspace.progress.note(f"{error}\nusing only the {len(here)} installed releases")
            return here

    def _beside_program(self, family: str) -> ToolchainRef:
        package = self._compiler(family).distribution
        from importlib.metadata import PackageNotFoundError, distribution

        try:
            package_info = distribution(package)
        except (PackageNotFoundError, ValueError) as error:  # ValueError: the family has no releases, and no name for them
            missing = package or family
            raise EnvironmentFailure(f"{missing} is not installed beside this program; select another toolchain") from error
        return ToolchainRef(family, Revision(package_info.version), path=Path(str(package_info.locate_file(""))))

    def runtime(self, toolchain: Toolchain, package: str) -> Path:
        """The folder of another package that belongs to an obtained toolchain: of its release, of its nightly, or of its
        commit; else the toolchain's own folder.

        Raises:
            Unobtainable: there is no such package of this revision.
            EnvironmentFailure: it cannot be installed.
        """
        key = (package, toolchain.revision.name)
        ref = self.ref_of(toolchain)
        with self._lock:
            known = self._companions.get(key)
        if known is not None:
            return known
        if ref is not None and ref.release is not None:
            root = self._companion(ref.release, toolchain.family, package)
        else:
            root = ref.bring(package) if ref is not None and ref.bring else toolchain.root
        self._keep(root)
        with self._lock:
            return self._companions.setdefault(key, root)

    def _companion(self, release: Release, family: str, package: str) -> Path:
        try:
            return install_companion(self.workspace, package, release.version, self.index)
        except EnvironmentFailure:
            # An installed nightly looks like a pre-release of the index.
            nightly = self._nightly_at(family, release.version)
            if nightly is None or nightly.bring is None:
                raise
            return nightly.bring(package)

    def obtain(self, ref: ToolchainRef) -> Toolchain:
        """The toolchain, installed if it is missing. EnvironmentFailure when it cannot be obtained or does not run."""
        key = (ref.family, ref.revision.name)
        with self._lock:
            if key in self._obtained:
                return self._obtained[key]
        toolchain = self._obtain(ref)
        with self._lock:
            self._refs[key] = ref
            return self._obtained.setdefault(key, toolchain)

    def ref_of(self, toolchain: Toolchain) -> ToolchainRef | None:
        """The reference by which a toolchain was obtained."""
        with self._lock:
            return self._refs.get((toolchain.family, toolchain.revision.name))

    def obtain_all(self, refs: Sequence[ToolchainRef], jobs: int = 4) -> dict[str, Toolchain | EnvironmentFailure]:
        """Several toolchains at once, or their errors, by revision name."""
        answers: dict[str, Toolchain | EnvironmentFailure] = {}
        is_missing = any(not self.is_installed(ref) for ref in refs)
        task = self.workspace.progress.task("toolchains", total=len(refs)) if is_missing else Silent().task("")
        with self.workspace.threads(max(1, jobs)) as pool:
            waiting = {pool.submit(self.obtain, ref): ref for ref in refs}
            for done in as_completed(waiting):
                try:
                    answers[waiting[done].revision.name] = done.result()
                except EnvironmentFailure as error:
                    answers[waiting[done].revision.name] = error
                task.advance()
        task.finish()
        return answers

    def python_roots(self, family: str) -> list[Path]:
        """The folders of installed releases whose Python modules this interpreter can import, newest first."""
        own = ".".join(map(str, sys.version_info[:2]))
        compiler = self._compiler(family)
        releases = reversed(self._installed(compiler))
        return [folder_of(self.folder, compiler.distribution, release) for release in releases if release.python == own]

    def dialects(self, toolchain: Toolchain) -> frozenset[str]:
        """The dialects that a toolchain knows. Not cached."""
        return self._compiler(toolchain.family).dialects(toolchain.program)

    def revision(self, ref: ToolchainRef) -> Revision:
        """The revision, with the commit and date that its toolchain reports once it was obtained."""
        with self._lock:
            known = self._obtained.get((ref.family, ref.revision.name))
        return known.revision if known else ref.revision

    def reported_commit(self, family: str, root: Path) -> str | None:
        """The commit that the compiler in a folder reports; None where it reports none."""
        compiler = self._compiler(family)
        program = compiler.locate(root)
        return describe(self.workspace, compiler, program).description.commit if program else None

    def is_installed(self, ref: ToolchainRef) -> bool:
        """Whether obtaining needs no download."""
        if ref.bring is not None:
            return False
        compiler = self._compiler(ref.family)
        return ref.release is None or is_intact(folder_of(self.folder, compiler.distribution, ref.release, compiler.packaging))

    def _obtain(self, ref: ToolchainRef) -> Toolchain:
        compiler = self._compiler(ref.family)
        root = self._root(ref, compiler)
        self._keep(root)
        if not root.exists():
            raise EnvironmentFailure(f"{root} does not exist")
        program = compiler.locate(root)
        if program is None:
            raise EnvironmentFailure(f"there is no {ref.family} compiler in {root}: {compiler.folders}")
        known = describe(self.workspace, compiler, program)
        description = known.description
        commit = ref.revision.commit or description.commit  # a build may report another one
        # The day of the commit is the same on every index; the day of upload, which some indices omit, is not.
        revision = replace(ref.revision, commit=commit, date=description.date or ref.revision.date)
        return Toolchain(
            family=ref.family,
            revision=revision,
            identity=known.identity,
            root=root,
            program=program,
            capabilities=description.capabilities,
            version=ref.release.version if ref.release else description.version,
        )

    def _keep(self, root: Path) -> None:
        """Keep others from pruning an install that this process uses."""
        if root != self.folder and root.is_relative_to(self.folder):
            self._in_use.add(self.folder / root.relative_to(self.folder).parts[0])

    def _root(self, ref: ToolchainRef, compiler: Compiler) -> Path:
        if ref.release is not None:
            if (reason := compiler.unsupported(ref.release.version)) is not None:
                raise Unobtainable(reason)
            return install(self.workspace, compiler.distribution, ref.release, self.index.url, compiler.packaging)
        return ref.bring() if ref.bring else ref.path or Path()

    def _compiler(self, family: str) -> Compiler:
        if family not in self._compilers:
            raise BadInput(f"compiler {family!r} is not supported; supported are {', '.join(sorted(self._compilers))}")
        return self._compilers[family]


def _ref(family: str, release: Release) -> ToolchainRef:
    return ToolchainRef(family, Revision(release.version, date=release.date), release=release)


def _release_of(releases: Sequence[Release], version: str) -> Release | None:
    from packaging.version import Version

    wanted = Version(version)
    return next((release for release in releases if Version(release.version) == wanted), None)


def neighbours(listed: Sequence[str], wanted: str) -> list[str]:
    """Up to three versions around one that is not listed, oldest first: two before it and one after, where they exist."""
    from packaging.version import Version

    stable = sorted(listed, key=Version)
    index = bisect_left(stable, Version(wanted), key=Version)
    return stable[max(0, min(index - 2, len(stable) - 3)) :][:3]
