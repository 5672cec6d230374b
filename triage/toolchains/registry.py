"""The toolchains of one machine: resolve a revision (REV), and obtain its compiler."""

from __future__ import annotations

import re
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import IO, TYPE_CHECKING

from packaging.version import Version

from triage.compilers.base import (
    Compiler,
    Description,
    Environment,
    Needs,
    Packaging,
)
from triage.compilers.interpreters import versions
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.progress import Progress
from triage.model.revision import FamilyRef, Revision, Toolchain, ToolchainKind
from triage.processes.sealing import Seal
from triage.recipes.values import parse_version
from triage.toolchains.contents import Contents, file_state, readable, with_targets
from triage.toolchains.home import Home, Workspace
from triage.toolchains.index import Index, Release
from triage.toolchains.install import (
    PLAIN_WHEEL,
    folder_of,
    install,
    install_companion,
    installed,
    is_intact,
    mark_used,
)
from triage.toolchains.pruning import sweep

if TYPE_CHECKING:
    from triage.toolchains.sources.wheels import Wheels

_FORMS = (
    "`3.13.0`, `latest`, `previous`, `installed`, `2025-06-04`, "
    "`nightly:2025-06-04`, or `path:DIR-OR-BINARY`"
)
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_DAY = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)")


def is_day(text: str) -> bool:
    """Return whether a text is a day such as 2025-06-04, which names the last revision
    of that day.
    """
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False


def parse_rev(text: str) -> tuple[str, str]:
    """Split a revision (REV) without a family into its kind and its value.

    >>> parse_rev("nightly:2025-06-04")
    ('nightly', '2025-06-04')

    Returns:
        The kind: `version`, `latest`, `previous`, `installed`, `path`, `nightly` or
            `date`. The value: a version, a path, a day, or "".

    Raises:
        BadInput: The text is not a revision.
    """
    if is_day(text):
        return "date", text
    kind, _, value = text.partition(":")
    if kind in ("path", "nightly") and value:
        return kind, value
    if text in ("latest", "previous", "installed"):
        return text, ""
    if kind == "commit":
        raise BadInput(
            f"{text!r}: a commit needs a clone, which `bisect` and `suspects` take "
            f"with --repo; use {_FORMS}"
        )
    if re.match(r"v?\d", text):
        version = parse_version(text)
        if version:
            return "version", str(version)
    hint = f" (for a folder write `path:{text}`)" if Path(text).exists() else ""
    raise BadInput(f"{text!r} is not a revision: write {_FORMS}{hint}")


def recorded_rev(name: str, commit: str | None = None) -> str:
    """Return the REV of a revision that a file records. Somebody else may have written
    the file, so that it may name a release, a nightly or a commit, and no folder or
    program of this machine. A commit needs the clone that the user names.

    Raises BadInput for another one.
    """
    if commit and commit.startswith(name) and _COMMIT.fullmatch(commit):
        return f"commit:{commit}"
    if parse_rev(name)[0] in ("path", "installed"):
        raise BadInput(f"{name!r} is not a release, a nightly or a commit")
    return name


@dataclass(frozen=True, slots=True)
class ToolchainRef:
    """A revision, and how to obtain its compiler: by `release`, `path` or `bring`."""

    family: str
    revision: Revision
    release: Release | None = None
    """The wheel of a release or nightly, which is installed."""
    path: Path | None = None
    """A compiler on this machine: a folder or a program."""
    bring: Callable[..., Path] | None = field(default=None, compare=False)
    """Obtains the compiler of a commit, which may take long, and returns its folder.
    Called with the name of a package, it obtains the package of this commit instead.
    Raises EnvironmentFailure.
    """

    @property
    def kind(self) -> ToolchainKind:
        """A pre-release is a release. The index says what a nightly is, not the name,
        which looks like that of a pre-release.
        """
        if self.release is not None and self.release.nightly:
            return ToolchainKind.NIGHTLY
        if self.release is not None:
            return ToolchainKind.RELEASE
        return ToolchainKind.COMMIT if self.bring else ToolchainKind.FOLDER

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

    def __init__(
        self,
        home: Home,
        compilers: Mapping[str, Compiler],
        progress: Progress | None = None,
        stop: threading.Event | None = None,
        *,
        is_dry: bool = False,
    ) -> None:
        """Open the toolchains in a home. Setting `stop` ends downloads and installs.
        is_dry: install nothing.
        """
        self.home = home
        self.workspace = Workspace(
            home, progress or Progress(), stop or threading.Event(), is_dry
        )
        self.index = Index(self.workspace)
        self.contents = Contents(self.workspace)
        self._compilers = compilers
        self._obtained: dict[tuple[str, str], tuple[ToolchainRef, Toolchain]] = {}
        self._companions: dict[tuple[str, str], Path] = {}
        self._nightlies: dict[str, Wheels] = {}
        self._in_use: dict[Path, IO[bytes]] = {}
        sweep(home)

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
            self.workspace.progress.note(
                f"{error}\nusing only the {len(releases)} installed releases"
            )
        return tuple(ref for ref in releases if ref.is_stable)

    def listed_releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """Return all stable releases in the index, oldest first. Raises
        EnvironmentFailure if it cannot be read and never was.
        """
        releases = self._listed(self._compiler(family))
        return tuple(_ref(family, release) for release in releases if release.is_stable)

    def nightlies(self, family: str) -> tuple[ToolchainRef, ...]:
        """Return the family's nightlies, oldest first.

        Raises:
            BadInput: the family has none.
            EnvironmentFailure: their page cannot be read, and no earlier answer is
                stored.
        """
        releases = self._nightlies_of(family).listed().values()
        return tuple(_ref(family, release) for release in releases)

    def neighbours(self, ref: ToolchainRef) -> list[ToolchainRef]:
        """Return the release before a toolchain and the one after it, if there are
        any.
        """
        version = Version(ref.revision.name)
        releases = self.releases(ref.family)
        older = [other for other in releases if Version(other.revision.name) < version]
        newer = [other for other in releases if Version(other.revision.name) > version]
        return [*older[-1:], *newer[:1]]

    def reported(self, family: str, texts: Sequence[str]) -> list[ToolchainRef]:
        """Return the toolchains that a report names, then the releases next to them.
        One that is gone, such as a nightly, is replaced by the last release before it.
        """
        named: list[ToolchainRef] = []
        for text in texts:
            for rev in dict.fromkeys((text, text.removeprefix("nightly:"))):
                try:
                    named.append(self.resolve(recorded_rev(rev), family))
                    break
                except (BadInput, EnvironmentFailure) as error:
                    self.workspace.progress.note(f"{rev} is reported: {error}")
        around = [near for ref in named for near in self.neighbours(ref)]
        return list({ref.revision.name: ref for ref in (*named, *around)}.values())

    def installed_releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """Return the family's installed releases, oldest first, without a network."""
        return tuple(
            _ref(family, release) for release in self._installed(self._compiler(family))
        )

    def between(
        self, family: str, since: str | None, until: str | None
    ) -> tuple[ToolchainRef, ...]:
        """Return the releases from one to another, both included."""
        releases = self.releases(family)
        names = [ref.revision.name for ref in releases]
        first, last = 0, len(names) - 1
        if since:
            first = self._place(since, family, names)
        if until:
            last = self._place(until, family, names)
        if first > last:
            raise BadInput(
                f"there is no release of {family} between {since or 'the first'} and "
                f"{until or 'the newest'}"
            )
        return releases[first : last + 1]

    def _place(self, text: str, family: str, names: Sequence[str]) -> int:
        name = self.resolve(text, family).revision.name
        if name not in names:
            raise BadInput(
                f"{text!r} is not a release; both ends of a range of releases must be"
            )
        return names.index(name)

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
        if ":" in rev:  # iterating over the families imports all of them
            # The name of a family may contain a colon, so the longest prefix counts.
            named = [name for name in self._compilers if rev.startswith(f"{name}:")]
            if named:
                other = max(named, key=len)
                raise BadInput(
                    f"{text!r} is a revision of {other}; name one of {family}"
                )
        match parse_rev(rev):
            case "installed", _:
                return self._next_to_program(family)
            case "path", value:
                path = Path(value).expanduser()
                return ToolchainRef(family, Revision(f"path:{path}"), path=path)
            case "latest" | "previous" as kind, _:
                releases = self.releases(family)
                from_end = 1 if kind == "latest" else 2
                if len(releases) < from_end:
                    raise EnvironmentFailure(
                        f"the package index has only {len(releases)} releases of "
                        f"{family}"
                    )
                return releases[-from_end]
            case "nightly", day:
                return self._nightly_of_day(family, day)
            case "date", day:
                return self._release_of_day(family, day)
            case _, version:
                return self._at_version(family, version)

    def _release_of_day(self, family: str, day: str) -> ToolchainRef:
        """Return the newest release that was published on a day or earlier."""
        compiler = self._compiler(family)
        stable = [one for one in self._listed(compiler) if one.is_stable]
        published = [one for one in stable if one.date and one.date <= day]
        if published:
            return _ref(family, published[-1])
        oldest = min((one.date for one in stable if one.date), default=None)
        why = (
            f"the oldest is of {oldest}" if oldest else "the package index has no dates"
        )
        raise EnvironmentFailure(
            f"no release of {compiler.distribution} is as old as {day}: {why}"
        )

    def _at_version(self, family: str, version: str) -> ToolchainRef:
        compiler, wanted = self._compiler(family), Version(version)
        # Asking the index takes longer than a small compile, so installs come first.
        # Nightlies are plain wheels.
        for packaging in dict.fromkeys((compiler.packaging, PLAIN_WHEEL)):
            found = installed(
                self.home.toolchains, compiler.distribution, packaging, version
            )
            if found:
                return _ref(family, found[0])
        listed = self._listed(compiler)
        found = [release for release in listed if Version(release.version) == wanted]
        if found:
            return _ref(family, found[0])
        if wanted.is_prerelease:  # reports name nightlies by their versions
            with suppress(BadInput, EnvironmentFailure):
                for ref in self.nightlies(family):
                    if ref.revision.name == version:
                        return ref
        stable = [release.version for release in listed if not release.prerelease]
        after = bisect_left(stable, wanted, key=Version)
        near = stable[max(0, min(after - 2, len(stable) - 3)) :][:3]
        raise EnvironmentFailure(
            f"{compiler.distribution} has no release {version} for this platform; the "
            f"nearest are {', '.join(near) or 'none'}"
        )

    def _nightly_of_day(self, family: str, day: str) -> ToolchainRef:
        """Return the newest nightly of a day, `2025-06-04` or `20250604`; for `latest`,
        return the newest of all.
        """
        parts = _DAY.fullmatch(day)
        if parts:
            wanted = "-".join(parts.groups())
        elif day == "latest":
            wanted = "9999"  # every day is before it
        else:
            raise BadInput(
                f"'nightly:{day}' names no day: write nightly:2025-06-04 or "
                "nightly:latest"
            )
        until_day = [
            ref
            for ref in self.nightlies(family)
            if ref.revision.date and ref.revision.date <= wanted
        ]
        newest = until_day[-1] if until_day else None
        if newest and (not parts or newest.revision.date == wanted):
            return newest
        near = f"; the newest before it is of {newest.revision.date}" if newest else ""
        raise EnvironmentFailure(
            f"{self._nightlies_of(family).index.url} has no nightly of {day}{near}"
        )

    def _nightlies_of(self, family: str) -> Wheels:
        """Return the nightlies that the project file in the current folder names, or
        else the project file that comes with triage.
        """
        if family not in self._nightlies:
            # slow to import
            from triage.toolchains.sources.project import FILE, find_project

            project = find_project(family, Path())
            if project.nightlies is None:
                raise BadInput(f"{project.name} has no nightlies: add them to {FILE}")
            self._nightlies[family] = project.nightlies.of(
                self.workspace, project.distribution
            )
        return self._nightlies[family]

    def _installed(self, compiler: Compiler) -> Sequence[Release]:
        return installed(
            self.home.toolchains, compiler.distribution, compiler.packaging
        )

    def _listed(self, compiler: Compiler) -> Sequence[Release]:
        """Return the releases in the index. For a compiler that runs in Python, prefer
        wheels that an interpreter on this machine can run.
        """
        if not compiler.distribution:
            raise BadInput(
                "no package to install this compiler from is known; pass -t path:DIR "
                "with a folder that holds it"
            )
        pythons: tuple[tuple[int, int], ...] = ()
        if compiler.packaging != PLAIN_WHEEL:
            pythons = versions()
        return self.index.releases(compiler.distribution, pythons)

    def _next_to_program(self, family: str) -> ToolchainRef:
        """Return the compiler in this program's own Python environment, or else the
        newest installed release.
        """
        from importlib.metadata import distributions

        compiler = self._compiler(family)
        if compiler.distribution:
            for found in distributions(name=compiler.distribution):
                path = Path(str(found.locate_file("")))
                return ToolchainRef(family, Revision(found.version), path=path)
        stored = self.installed_releases(family)
        if stored:
            return stored[-1]
        missing = compiler.distribution or family
        raise EnvironmentFailure(
            f"{missing} is not installed; name a toolchain, such as -t {family}:latest"
        )

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
        if not package or ref is None or not (ref.release or ref.bring):
            return toolchain.root
        key = (package, toolchain.revision.name)
        if key not in self._companions:
            if ref.release:
                version = ref.release.version
                index = self._index_of(ref)
                root = install_companion(self.workspace, package, version, index)
            elif ref.bring:
                root = ref.bring(package)
            self._keep(root)
            self._companions[key] = root
        return self._companions[key]

    def obtain(self, ref: ToolchainRef) -> Toolchain:
        """Return the toolchain. Install it if it is missing. Raises EnvironmentFailure
        if it cannot be obtained, or does not run.
        """
        key = (ref.family, ref.revision.name)
        if key not in self._obtained:
            self._obtained.setdefault(key, (ref, self._obtain(ref)))
        return self._obtained[key][1]

    def ref_of(self, toolchain: Toolchain) -> ToolchainRef | None:
        """Return the reference by which a toolchain was obtained."""
        known = self._obtained.get((toolchain.family, toolchain.revision.name))
        return known[0] if known else None

    def python_roots(self, family: str) -> list[Path]:
        """Return the folders of installed releases whose Python modules this
        interpreter can import, newest first.
        """
        own = ".".join(map(str, sys.version_info[:2]))
        releases = [
            release
            for release in reversed(self._installed(self._compiler(family)))
            if release.python == own
        ]
        return [folder_of(self.home.toolchains, release) for release in releases]

    def revision(self, ref: ToolchainRef) -> Revision:
        """Return the revision. After its toolchain was obtained, it has the commit and
        the date that the toolchain reports.
        """
        known = self._obtained.get((ref.family, ref.revision.name))
        return known[1].revision if known else ref.revision

    def reported_commit(self, family: str, root: Path) -> str | None:
        """Return the commit that the compiler in a folder reports, if any."""
        compiler = self._compiler(family)
        program = compiler.locate(root)
        if program is None:
            return None
        needs = self._needs(compiler, root, program)
        identity, seal = self.contents.identity(needs), Seal(readable(needs))
        return _describe_once(self.workspace, compiler, program, identity, seal).commit

    def is_installed(self, ref: ToolchainRef) -> bool:
        """Return whether obtaining the toolchain needs no download and no build."""
        if ref.release is None:
            return ref.bring is None
        return is_intact(
            folder_of(self.home.toolchains, ref.release, self._packaging_of(ref))
        )

    def _obtain(self, ref: ToolchainRef) -> Toolchain:
        compiler = self._compiler(ref.family)
        root = self._root(ref, compiler)
        self._keep(root)
        if not root.exists():
            raise EnvironmentFailure(f"{root} does not exist")
        program = compiler.locate(root)
        if program is None:
            raise EnvironmentFailure(
                f"there is no {ref.family} compiler in {root}: {compiler.folders}"
            )
        needs = self._needs(compiler, root, program)
        watched = () if ref.release else needs.files
        state = file_state(watched)
        identity, reads = self.contents.identity(needs), readable(needs)
        description = _describe_once(
            self.workspace, compiler, program, identity, Seal(reads)
        )
        # a build may report another one
        commit = ref.revision.commit or description.commit
        # The day of the commit is better than that of the upload, which differs between
        # indexes and which some omit.
        day = ref.revision.date or description.date
        version = description.version
        if ref.release:
            day = day or ref.release.date
            version = ref.release.version
        revision = replace(ref.revision, commit=commit, date=day)
        return Toolchain(
            ref.family,
            revision,
            identity,
            root,
            program,
            description.capabilities,
            version,
            reads,
            watched,
            state,
        )

    def _needs(self, compiler: Compiler, root: Path, program: Path) -> Needs:
        return with_targets(compiler.needs(root, program), self.home.toolchains)

    def _keep(self, root: Path) -> None:
        """Lock an install, so that no other process prunes it."""
        toolchains = self.home.toolchains
        if root != toolchains and root.is_relative_to(toolchains):
            folder = toolchains / root.relative_to(toolchains).parts[0]
            if folder not in self._in_use:
                self._in_use[folder] = mark_used(folder, self.workspace.stop)

    def _root(self, ref: ToolchainRef, compiler: Compiler) -> Path:
        if ref.release is not None:
            reason = compiler.unsupported(ref.release.version)
            if reason is not None:
                raise Unobtainable(reason)
            return install(
                self.workspace,
                ref.release,
                self._index_of(ref).url,
                self._packaging_of(ref),
            )
        if ref.bring:
            return ref.bring()
        return ref.path or Path()

    def _index_of(self, ref: ToolchainRef) -> Index:
        if ref.is_nightly:
            return self._nightlies_of(ref.family).index
        return self.index

    def packaging(self, family: str) -> Packaging:
        """Return how a family's releases are installed."""
        return self._compiler(family).packaging

    def _packaging_of(self, ref: ToolchainRef) -> Packaging:
        """Return how a wheel is installed. A nightly is unpacked, unless the compiler
        needs a virtual environment.
        """
        packaging = self.packaging(ref.family)
        if ref.is_nightly and not isinstance(packaging, Environment):
            return PLAIN_WHEEL
        return packaging

    def _compiler(self, family: str) -> Compiler:
        if family not in self._compilers:
            raise BadInput(
                f"compiler {family!r} is not supported; supported are "
                f"{', '.join(sorted(self._compilers))}"
            )
        return self._compilers[family]


def _ref(family: str, release: Release) -> ToolchainRef:
    # The day of a release is that of its commit, which is not known before it is
    # installed.
    day = release.date if release.nightly else None
    return ToolchainRef(family, Revision(release.version, date=day), release=release)


def _describe_once(
    workspace: Workspace, compiler: Compiler, program: Path, identity: str, seal: Seal
) -> Description:
    """Return a compiler's description of itself. It is asked once for each content.
    Raises EnvironmentFailure if it does not run.
    """
    from pydantic import TypeAdapter  # slow to import

    adapter = TypeAdapter(Description)
    section = workspace.state("capabilities")
    key = f"{compiler.name} {identity}"
    with suppress(ValueError):  # none, or one of an earlier version of triage
        return adapter.validate_python(section.get(key))
    description = compiler.describe(program, seal)
    section.put(key, adapter.dump_python(description, mode="json"))
    return description
