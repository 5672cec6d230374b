"""The toolchains of one machine: resolve a revision (REV), and obtain its compiler."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from triage.compilers.base import Compiler, Description, Needs
from triage.compilers.interpreters import installs_of
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.revision import FamilyRef, Revision, Toolchain, ToolchainKind
from triage.processes.sealing import Seal
from triage.recipes.document import schema_of
from triage.recipes.values import parse_version
from triage.toolchains.contents import (
    Contents,
    readable_paths,
    state_digest,
    with_link_targets,
)
from triage.toolchains.home import Workspace, is_intact

if TYPE_CHECKING:
    from triage.toolchains.index import Release
    from triage.toolchains.install import Package

_FORMS = (
    "`3.13.0`, `latest`, `previous`, `installed`, `2025-06-04`, "
    "`nightly:2025-06-04`, or `path:DIR-OR-BINARY`"
)
_UNKNOWN_DAY = "9999-12-31"


def is_day(text: str) -> bool:
    """Return whether a text is a day such as 2025-06-04, which names the last revision
    of that day.
    """
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False


def recorded_rev(name: str) -> str:
    """Return the REV of a revision that a file records. Somebody else may have written
    the file, so that it may name a release or a nightly, and no folder or program of
    this machine. Raises BadInput for another one.
    """
    day = name.removeprefix("nightly:")
    if parse_version(name) or is_day(day) or day in ("latest", "previous"):
        return name
    raise BadInput(f"{name!r} is not a release or a nightly")


@dataclass(frozen=True)
class ToolchainRef:
    """A revision, and how to obtain its compiler: by `release`, `path` or `obtain`."""

    family: str
    revision: Revision
    release: Release | None = None
    """The wheel of a release or nightly, which is installed."""
    path: Path | None = None
    """A compiler on this machine: a folder or a program."""
    obtain: Callable[..., Path] | None = field(default=None, compare=False)
    """Obtains the compiler of a commit, which may take long, and returns its folder.
    Called with the name of a package, it obtains the package of this commit instead.
    Raises EnvironmentFailure.
    """

    @property
    def kind(self) -> ToolchainKind:
        """A pre-release is a release. The index says what a nightly is, not the name,
        which looks like that of a pre-release.
        """
        if self.release is None:
            if self.obtain:
                return ToolchainKind.COMMIT
            return ToolchainKind.FOLDER
        if self.release.nightly:
            return ToolchainKind.NIGHTLY
        return ToolchainKind.RELEASE

    @property
    def version(self) -> Version:
        """That of a release or nightly."""
        return Version(self.revision.name)

    @property
    def day(self) -> str:
        """The day on which a release or nightly was published, as far as is known."""
        return (self.release and self.release.date) or _UNKNOWN_DAY

    @property
    def is_release(self) -> bool:
        return self.kind is ToolchainKind.RELEASE

    @property
    def is_stable(self) -> bool:
        """Whether it is a release that users are meant to use."""
        return self.release is not None and self.release.is_stable

    @property
    def is_nightly(self) -> bool:
        return self.kind is ToolchainKind.NIGHTLY


class ToolchainRegistry:
    """Resolves revisions and obtains their toolchains. Safe to use from several
    threads.
    """

    def __init__(self, workspace: Workspace, compilers: Mapping[str, Compiler]) -> None:
        self.workspace = workspace
        self.home = workspace.home
        self.contents = Contents(workspace.home)
        self.compilers = compilers
        self._obtained: dict[tuple[str, str], tuple[ToolchainRef, Toolchain]] = {}
        self._companions: dict[tuple[str, str], Path] = {}
        self._packages: dict[tuple[str, bool], Package] = {}

    # What there is

    def releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """Return the family's stable releases, oldest first. Without a network, return
        the installed ones.
        """
        try:
            return self.listed_releases(family)
        except EnvironmentFailure as error:
            releases = self.installed_releases(family)
            if not releases:
                raise
            self.workspace.progress.note(f"{error}\nusing only the installed releases")
        return tuple(ref for ref in releases if ref.is_stable)

    def listed_releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """Return all stable releases in the index, oldest first. Raises
        EnvironmentFailure if it cannot be read.
        """
        refs = _refs(family, self.package(family).listed)
        return tuple(ref for ref in refs if ref.is_stable)

    def installed_releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """Return the family's installed releases that can compile, oldest first,
        without a network.
        """
        why_unsupported = self._compiler(family).why_unsupported
        refs = _refs(family, self.package(family).installed())
        return tuple(ref for ref in refs if not why_unsupported(ref.revision.name))

    def nightlies(self, family: str) -> tuple[ToolchainRef, ...]:
        """Return the family's nightlies, oldest first.

        Raises:
            BadInput: the family has none.
            EnvironmentFailure: their page cannot be read.
        """
        return _refs(family, self.package(family, nightly=True).listed)

    def neighbours(self, ref: ToolchainRef) -> list[ToolchainRef]:
        """Return the release before a toolchain and the one after it, if there are
        any.
        """
        releases = self.releases(ref.family)
        older = [other for other in releases if other.version < ref.version]
        newer = [other for other in releases if other.version > ref.version]
        return [*older[-1:], *newer[:1]]

    def reported_toolchains(
        self, family: str, texts: Sequence[str]
    ) -> list[ToolchainRef]:
        """Return the toolchains that a report names, then the releases next to them.
        What is gone, such as an old nightly, is left out.
        """
        named: list[ToolchainRef] = []
        for text in texts:
            with suppress(BadInput, EnvironmentFailure):
                named.append(self.resolve(recorded_rev(text), family))
        neighbours = [neighbour for ref in named for neighbour in self.neighbours(ref)]
        return list({ref.revision.name: ref for ref in (*named, *neighbours)}.values())

    def between(
        self, family: str, since: str | None, until: str | None
    ) -> tuple[ToolchainRef, ...]:
        """Return the releases from one to another, both included."""
        refs = self.releases(family)
        names = [ref.revision.name for ref in refs] or ["latest"]
        oldest = self.resolve(since or names[0], family)
        newest = self.resolve(until or names[-1], family)
        if oldest.release and newest.release:
            refs = tuple(
                ref for ref in refs if oldest.version <= ref.version <= newest.version
            )
            if refs:
                return refs
        raise BadInput(
            f"there is no release of {family} from {oldest.revision.name} to "
            f"{newest.revision.name}"
        )

    def is_installed(self, ref: ToolchainRef) -> bool:
        """Return whether obtaining the toolchain needs no download and no build."""
        if ref.release is None:
            return ref.obtain is None
        return is_intact(self._package_of(ref).folder(ref.release))

    # From a text to a reference

    def resolve(self, text: str, family: str) -> ToolchainRef:
        """Return the toolchain that a REV such as `3.4.0` or `iree:3.4.0` stands for.

        Raises:
            BadInput: the REV is spelled wrong, or of another family.
            EnvironmentFailure: the index has no such release, or there is no such
                nightly.
        """
        rev = text
        for prefix in FamilyRef.parse(family).prefixes:
            rev = rev.removeprefix(prefix)
        kind, _, value = rev.partition(":")
        if kind == "path" and value:
            path = Path(value).expanduser()
            return ToolchainRef(family, Revision(f"path:{path}"), path=path)
        refs: Sequence[ToolchainRef]
        version = parse_version(rev)
        if rev == "installed":
            refs = (
                self._in_own_environment(family)
                or self.installed_releases(family)
                or self.releases(family)
            )
        elif rev == "latest":
            refs = self.releases(family)
        elif rev == "previous":
            refs = self.releases(family)[:-1]
        elif rev == "nightly:latest":
            refs = self.nightlies(family)
        elif kind == "nightly" and is_day(value):
            refs = [ref for ref in self.nightlies(family) if ref.day == value]
        elif is_day(rev):
            refs = [ref for ref in self.listed_releases(family) if ref.day <= rev]
        elif version:
            refs = self._at_version(family, version)
        else:
            raise BadInput(
                f"{text!r} is not a revision of {family}: write {_FORMS}; a commit "
                "needs a clone, which `bisect` and `suspects` take with --repo"
            )
        if not refs:
            raise EnvironmentFailure(
                f"there is no {family} {text} for this platform; `triage toolchains "
                f"list {family}` shows what there is"
            )
        return refs[-1]

    def _at_version(self, family: str, version: Version) -> list[ToolchainRef]:
        """Return the releases of a version; if there are none, the nightlies."""
        package = self.package(family)
        # Asking the index takes longer than a small compile, so installs come first.
        refs = _refs(family, package.installed(str(version)))
        if not refs:
            refs = _refs(family, package.listed)
            if version.is_prerelease:  # reports name nightlies by their versions
                with suppress(BadInput, EnvironmentFailure):
                    refs = (*self.nightlies(family), *refs)
        return [ref for ref in refs if ref.version == version]

    def _in_own_environment(self, family: str) -> Sequence[ToolchainRef]:
        """Return the compiler in this program's own Python environment, if any."""
        distribution = self._compiler(family).distribution
        return [
            ToolchainRef(family, Revision(version), path=folder)
            for version, folder in installs_of(distribution, sys.path)
            if distribution
        ]

    # From a reference to a compiler

    def obtain(self, ref: ToolchainRef) -> Toolchain:
        """Return the toolchain. Install it if it is missing. Raises EnvironmentFailure
        if it cannot be obtained, or does not run.
        """
        key = (ref.family, ref.revision.name)
        if key not in self._obtained:
            self._obtained.setdefault(key, (ref, self._obtain(ref)))
        return self._obtained[key][1]

    def ref_of(self, toolchain: Toolchain) -> ToolchainRef:
        """Return the reference by which a toolchain was obtained."""
        return self._obtained[toolchain.family, toolchain.revision.name][0]

    def revision(self, ref: ToolchainRef) -> Revision:
        """Return the revision. After its toolchain was obtained, it has the commit and
        the date that the toolchain reports.
        """
        key = (ref.family, ref.revision.name)
        if key in self._obtained:
            return self._obtained[key][1].revision
        return ref.revision

    def reported_commit(self, family: str, root: Path) -> str | None:
        """Return the commit that the compiler in a folder reports, if any."""
        with suppress(EnvironmentFailure):
            ref = ToolchainRef(family, Revision(str(root)), path=root)
            return self.obtain(ref).revision.commit
        return None

    def runtime(self, toolchain: Toolchain, package: str) -> Path:
        """Return the folder of a package that belongs to an obtained toolchain's
        release, nightly or commit. Install the package if it is missing.

        Returns the toolchain's own folder if `package` is empty, and for a toolchain in
        a folder.

        Raises:
            Unobtainable: There is no such package of this revision.
            EnvironmentFailure: It cannot be installed.
        """
        ref = self.ref_of(toolchain)
        key = (package, toolchain.revision.name)
        if key not in self._companions:
            root = toolchain.root
            if package and ref.release:
                root = self._package_of(ref).companion(package, ref.release.version)
            elif package and ref.obtain:
                root = ref.obtain(package)
            self._companions[key] = root
        return self._companions[key]

    def _obtain(self, ref: ToolchainRef) -> Toolchain:
        compiler = self._compiler(ref.family)
        root = self._obtain_root(ref, compiler)
        if not root.exists():
            raise EnvironmentFailure(f"{root} does not exist")
        program = compiler.locate(root)
        if program is None:
            raise EnvironmentFailure(
                f"there is no {ref.family} compiler in {root}: {compiler.folders}"
            )
        needs = with_link_targets(compiler.needs(root, program), self.home.toolchains)
        watched: tuple[Path, ...] = ()
        if not ref.release:
            watched = needs.files
        state = state_digest(watched)
        identity, description = self._identify(compiler, program, needs)
        # The day of the commit is better than that of the upload, which differs between
        # indexes and which some omit. A build may report another commit.
        revision = ref.revision
        version = description.version
        commit = revision.commit or description.commit
        day = revision.date or description.date
        if ref.release:
            day, version = day or ref.release.date, ref.release.version
        return Toolchain(
            ref.family,
            replace(revision, commit=commit, date=day),
            identity,
            root,
            program,
            description.capabilities,
            version,
            readable_paths(needs),
            watched,
            state,
        )

    def _obtain_root(self, ref: ToolchainRef, compiler: Compiler) -> Path:
        if ref.release is not None:
            reason = compiler.why_unsupported(ref.release.version)
            if reason is not None:
                raise Unobtainable(reason)
            return self._package_of(ref).install(ref.release)
        if ref.obtain:
            return ref.obtain()
        return ref.path or Path()

    def _identify(
        self, compiler: Compiler, program: Path, needs: Needs
    ) -> tuple[str, Description]:
        """Return a compiler's identity and its description of itself. It is asked once
        for each content. Raises EnvironmentFailure if it does not run.
        """
        identity = self.contents.identity(needs)
        key = f"{compiler.name} {identity}"
        stored = self.home.stored("capabilities", key)
        if stored is not None:
            with suppress(ValueError):  # of another version of triage
                return identity, schema_of(Description).validate_json(stored)
        description = compiler.describe(program, Seal(readable_paths(needs)))
        version = parse_version(description.version)
        description = replace(description, version=str(version) if version else None)
        text = json.dumps(asdict(description), default=list)
        self.home.store("capabilities", key, text.encode())
        return identity, description

    # How a family is installed

    def _compiler(self, family: str) -> Compiler:
        if family not in self.compilers:
            raise BadInput(
                f"compiler {family!r} is not supported; supported are "
                f"{', '.join(sorted(self.compilers))}"
            )
        return self.compilers[family]

    def _package_of(self, ref: ToolchainRef) -> Package:
        """Return the package of which a reference is a version."""
        return self.package(ref.family, nightly=ref.is_nightly)

    def package(self, family: str, *, nightly: bool = False) -> Package:
        """Return the releases of a family, or the nightlies that the project file in
        the current folder names, or else the project file that comes with triage.
        """
        key = (family, nightly)
        compiler = self._compiler(family)
        if key in self._packages:
            return self._packages[key]
        from triage.toolchains.install import Package  # slow to import

        package = Package(self.workspace, compiler.distribution, compiler.packaging)
        if nightly:
            # slow to import
            from triage.toolchains.project import FILE, find_project

            project = find_project(family, Path())
            if project.nightlies is None:
                raise BadInput(f"{project.name} has no nightlies: add them to {FILE}")
            package = replace(package, distribution=project.distribution or "")
            package = project.nightlies.package(package)
        return self._packages.setdefault(key, package)


def _refs(family: str, releases: Sequence[Release]) -> tuple[ToolchainRef, ...]:
    return tuple(
        ToolchainRef(family, release.revision, release) for release in releases
    )
