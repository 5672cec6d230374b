"""The toolchains of one machine: resolve a revision (REV), and obtain its compiler."""

from __future__ import annotations

import re
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import IO, TYPE_CHECKING

from packaging.version import Version

from triage.compilers.base import Compiler, Description, Environment, Packaging
from triage.compilers.interpreters import versions
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.progress import Progress
from triage.model.revision import Revision, Toolchain
from triage.recipes.values import parse_version
from triage.toolchains.home import Home, Workspace, disk_errors, stamp
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
from triage.toolchains.web import without_password

if TYPE_CHECKING:
    from triage.toolchains.sources.wheels import Wheels

_FORMS = (
    "`3.13.0`, `latest`, `previous`, `installed`, `2025-06-04`, "
    "`nightly:2025-06-04`, or `path:DIR-OR-BINARY`"
)
_DAY = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)")


def is_day(text: str) -> bool:
    """Return whether a text is a day such as 2025-06-04, which names the last revision
    of that day.
    """
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False


def parse_rev(text: str) -> tuple[str, str]:
    """Return the kind of a REV without its family (`version`, `latest`, `previous`,
    `installed`, `path`, `nightly` or `date`), and its value: the version, the path, or
    the day. BadInput when the text is not a REV.
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
    if Path(text).exists():
        hint = f" (for a folder write `path:{text}`)"
    else:
        hint = ""
    raise BadInput(f"{text!r} is not a revision: write {_FORMS}{hint}")


@dataclass(frozen=True, slots=True)
class ToolchainRef:
    """A revision and where its compiler comes from: a wheel, a path, or a function."""

    family: str
    revision: Revision
    release: Release | None = None
    """The release or nightly."""
    path: Path | None = None
    """An installed compiler: a folder, or the binary."""
    bring: Callable[..., Path] | None = field(default=None, compare=False)
    """Obtains the compiler of a commit, which may take long. With the name of a
    package, it obtains that package of the same revision. Raises EnvironmentFailure.
    """

    @property
    def is_release(self) -> bool:
        """Whether the package index has it, perhaps as a pre-release."""
        return self.release is not None and not self.release.nightly

    @property
    def is_stable(self) -> bool:
        """Whether it is a release that is not a pre-release."""
        return self.release is not None and self.release.is_stable

    @property
    def is_nightly(self) -> bool:
        return self.release is not None and self.release.nightly


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
    ) -> None:
        """Open the toolchains in a home. Another thread sets `stop` to end downloads
        and installs.
        """
        self.home = home
        self.workspace = Workspace(
            home, progress or Progress(), stop or threading.Event()
        )
        self.index = Index(self.workspace)
        self._compilers = compilers
        self._obtained: dict[tuple[str, str], tuple[ToolchainRef, Toolchain]] = {}
        self._companions: dict[tuple[str, str], Path] = {}
        self._nightlies: dict[str, Wheels] = {}
        self._in_use: dict[Path, IO[bytes]] = {}
        sweep(home)

    def releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """Return the family's stable releases, oldest first; without a network the
        installed ones.
        """
        compiler = self._compiler(family)
        try:
            releases = self._listed(compiler)
        except EnvironmentFailure as error:
            releases = self._installed(compiler)
            if not releases:
                raise
            self.workspace.progress.note(
                f"{error}\nusing only the {len(releases)} installed releases"
            )
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

    def installed_releases(self, family: str) -> tuple[ToolchainRef, ...]:
        """Return the family's installed releases, oldest first. Uses no network."""
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
        # The longest prefix: the name of a family may contain a colon.
        if ":" in text:  # asking for the families imports all of them
            named = [name for name in self._compilers if text.startswith(f"{name}:")]
        else:
            named = []
        prefix = max(named, key=len, default=None)
        if prefix not in (None, family):
            raise BadInput(f"{text!r} is a revision of {prefix}; name one of {family}")
        match parse_rev(text.removeprefix(f"{prefix}:")):
            case "installed", _:
                return self._next_to_program(family)
            case "path", value:
                path = Path(value).expanduser()
                return ToolchainRef(family, Revision(f"path:{path}"), path=path)
            case "latest" | "previous" as kind, _:
                back, releases = int(kind == "previous"), self.releases(family)
                if len(releases) <= back:
                    raise EnvironmentFailure(
                        f"the package index has only {len(releases)} releases of "
                        f"{family}"
                    )
                return releases[-1 - back]
            case "nightly", day:
                return self._nightly_of_day(family, day)
            case "date", day:
                return self._release_of_day(family, day)
            case _, version:
                return self._at_version(family, version)

    def _release_of_day(self, family: str, day: str) -> ToolchainRef:
        """Return the newest release that was published on a day or before it."""
        compiler = self._compiler(family)
        stable = [one for one in self._listed(compiler) if one.is_stable]
        published = [one for one in stable if one.date and one.date <= day]
        if published:
            return _ref(family, published[-1])
        dated = min((one.date for one in stable if one.date), default=None)
        if dated is None:
            why = "the package index has no dates"
        else:
            why = f"the oldest is of {dated}"
        raise EnvironmentFailure(
            f"no release of {compiler.distribution} is as old as {day}: {why}"
        )

    def _at_version(self, family: str, version: str) -> ToolchainRef:
        compiler, wanted = self._compiler(family), Version(version)
        # Installs come first: they need no network, and asking the index takes longer
        # than a small compile.
        # nightlies are plain wheels
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
        if wanted.is_prerelease:  # perhaps a nightly, as reports name it
            with suppress(BadInput, EnvironmentFailure, StopIteration):
                return next(
                    ref
                    for ref in self.nightlies(family)
                    if ref.revision.name == version
                )
        stable = [release.version for release in listed if not release.prerelease]
        after = bisect_left(stable, wanted, key=Version)
        near = stable[max(0, min(after - 2, len(stable) - 3)) :][:3]
        raise EnvironmentFailure(
            f"{compiler.distribution} has no release {version} for this platform; the "
            f"nearest are {', '.join(near) or 'none'}"
        )

    def _nightly_of_day(self, family: str, day: str) -> ToolchainRef:
        """Return the newest nightly of a day, `2025-06-04` or `20250604`, or of all
        days for `latest`.
        """
        parts = _DAY.fullmatch(day)
        if parts is None and day != "latest":
            raise BadInput(
                f"'nightly:{day}' names no day: write nightly:2025-06-04 or "
                "nightly:latest"
            )
        if parts:
            wanted = "-".join(parts.groups())
        else:
            wanted = "9999"
        older = [
            ref
            for ref in self.nightlies(family)
            if ref.revision.date and ref.revision.date <= wanted
        ]
        if not older or (parts and older[-1].revision.date != wanted):
            if older:
                near = f"; the newest before it is of {older[-1].revision.date}"
            else:
                near = ""
            raise EnvironmentFailure(
                f"{without_password(self._nightlies_of(family).index.url)} has no "
                f"nightly of {day}{near}"
            )
        return older[-1]

    def _nightlies_of(self, family: str) -> Wheels:
        """Return the nightlies of the project file in the current folder, or of the
        shipped one.
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
        """Return the releases of the index. If a compiler runs in Python, only wheels
        that an interpreter here can run.
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
        from importlib.metadata import distributions

        compiler = self._compiler(family)
        for found in (
            distributions(name=compiler.distribution) if compiler.distribution else ()
        ):
            return ToolchainRef(
                family, Revision(found.version), path=Path(str(found.locate_file("")))
            )
        stored = self.installed_releases(family)
        if stored:
            return stored[-1]
        missing = compiler.distribution or family
        raise EnvironmentFailure(
            f"{missing} is not installed; name a toolchain, such as -t {family}:latest"
        )

    def runtime(self, toolchain: Toolchain, package: str) -> Path:
        """Return the folder of another package of an obtained toolchain's release,
        nightly or commit, or the toolchain's own.

        Raises:
            Unobtainable: there is no such package of this revision.
            EnvironmentFailure: it cannot be installed.
        """
        if not package:  # the compiler's own
            return toolchain.root
        key = (package, toolchain.revision.name)
        if key not in self._companions:
            ref = self.ref_of(toolchain)
            if ref is not None and ref.release is not None:
                root = install_companion(
                    self.workspace, package, ref.release.version, self._index_of(ref)
                )
            else:
                if ref is not None and ref.bring:
                    root = ref.bring(package)
                else:
                    root = toolchain.root
            self._keep(root)
            self._companions[key] = root
        return self._companions[key]

    def obtain(self, ref: ToolchainRef) -> Toolchain:
        """Return the toolchain, installed if it is missing. EnvironmentFailure when it
        cannot be obtained or does not run.
        """
        key = (ref.family, ref.revision.name)
        if key not in self._obtained:
            self._obtained.setdefault(key, (ref, self._obtain(ref)))
        return self._obtained[key][1]

    def ref_of(self, toolchain: Toolchain) -> ToolchainRef | None:
        """Return the reference by which a toolchain was obtained."""
        known = self._obtained.get((toolchain.family, toolchain.revision.name))
        if known:
            return known[0]
        return None

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
        """Return the revision, with the commit and date that its toolchain reports once
        it was obtained.
        """
        known = self._obtained.get((ref.family, ref.revision.name))
        if known:
            return known[1].revision
        return ref.revision

    def reported_commit(self, family: str, root: Path) -> str | None:
        """Return the commit that the compiler in a folder reports, if it reports
        one.
        """
        compiler = self._compiler(family)
        program = compiler.locate(root)
        if program:
            return describe_once(self.workspace, compiler, program)[1].commit
        return None

    def is_installed(self, ref: ToolchainRef) -> bool:
        """Whether obtaining needs no download."""
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
        identity, description = describe_once(self.workspace, compiler, program)
        # a build may report another one
        commit = ref.revision.commit or description.commit
        # The day of the commit is the same on every index; the day of upload, which
        # some indices omit, is not.
        day = (
            ref.revision.date
            or description.date
            or (ref.release.date if ref.release else None)
        )
        revision = replace(ref.revision, commit=commit, date=day)
        version = description.version
        if ref.release:
            version = ref.release.version
        return Toolchain(
            ref.family,
            revision,
            identity,
            root,
            program,
            description.capabilities,
            version,
        )

    def _keep(self, root: Path) -> None:
        """Keep others from pruning an install that this process uses."""
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
        """Return how a wheel is installed: a nightly plain, unless the compiler needs
        its environment.
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
    # a release has the day of its commit, known once it is obtained
    if release.nightly:
        day = release.date
    else:
        day = None
    return ToolchainRef(family, Revision(release.version, date=day), release=release)


def describe_once(
    workspace: Workspace, compiler: Compiler, program: Path
) -> tuple[str, Description]:
    """Return the content address of an installed compiler and its own description,
    asked once for each content of its files.

    Raises:
        EnvironmentFailure: files of the compiler are missing; and what
            `Compiler.describe` raises.
    """
    from pydantic import TypeAdapter  # slow to import

    adapter = TypeAdapter(tuple[str, Description])
    section = workspace.state("capabilities")
    try:
        files = compiler.identity_files(program)
        key = stamp(files)
    except FileNotFoundError as error:
        raise EnvironmentFailure(
            f"{error.filename or program} of the compiler is missing; install it again"
        ) from error
    with suppress(ValueError):  # none, or of an earlier version of the program
        return adapter.validate_python(section.get(key))
    with disk_errors("read the files of a compiler"), ThreadPoolExecutor(1) as pool:
        # reading a large library takes as long as the queries
        identity = pool.submit(_identity, files)
        description = compiler.describe(program)
        known = identity.result(), description
    section.put(key, adapter.dump_python(known, mode="json"))
    return known


def _identity(files: tuple[Path, ...]) -> str:
    whole = blake2b(digest_size=20)
    for path in files:
        with path.open("rb") as source:
            whole.update(
                path.name.encode() + b"\0" + file_digest(source, "sha256").digest()
            )
    return whole.hexdigest()
