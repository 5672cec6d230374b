"""Install toolchains with uv, each once into a folder of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from packaging.version import Version

from triage.compilers.base import Environment, Packaging, Wheel
from triage.compilers.interpreters import (
    interpreter,
    major_minor,
    python_versions,
    uv_program,
)
from triage.model.content import Address, without_secrets
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.model.execution import Ending
from triage.processes.containment import Purpose
from triage.processes.process import run, unlimited
from triage.toolchains.home import (
    MANIFEST,
    Workspace,
    fill_folder,
    is_intact,
    manifest_of,
)
from triage.toolchains.index import Release, host_of, index_url, listed_releases

PLAIN_WHEEL = Wheel()
_TIMEOUT = 3600.0  # seconds of one run of uv; a slow network may need them
# Packages that are released together are uploaded within this time.
_UPLOADED_WITHIN = timedelta(days=3)
# Errors of uv that will not go away. Others may be the network's.
_PERMANENT = re.compile(
    r"No solution found|are unsatisfiable|no usable wheels|no wheels|client error "
    r"\(4(04|10) |Hash mismatch|"
    r"\bzip\b|\barchive\b|dist-info|`?METADATA|`?WHEEL|wheel filename|does not "
    r"match|larger than",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Package:
    """The wheels of a package in an index or on a page, and how they are installed."""

    workspace: Workspace
    distribution: str
    packaging: Packaging = PLAIN_WHEEL
    address: Address | None = None
    """That of the index (default: see `index_url`) or the page."""
    is_page: bool = False
    """Whether it is a page of links to wheels, instead of an index."""
    nightly: bool = False
    """Whether they are nightlies."""

    @cached_property
    def url(self) -> Address:
        return self.address or index_url()

    @cached_property
    def listed(self) -> Sequence[Release]:
        """All versions with a wheel for this platform, the oldest first, as
        `listed_releases` reads them. For a compiler that runs in Python, wheels that an
        interpreter on this machine can run are preferred.
        """
        from packaging.utils import canonicalize_name

        if not self.distribution:
            raise BadInput(
                "no package to install this compiler from is known; pass -t path:DIR "
                "with a folder that holds it"
            )
        page = self.url
        if not self.is_page:
            index = self.url.full.rstrip("/")
            page = Address(f"{index}/{canonicalize_name(self.distribution)}/")
        pythons: Sequence[tuple[int, int]] = ()
        if self.packaging != PLAIN_WHEEL:
            pythons = python_versions()
        return listed_releases(
            self.workspace, page, self.distribution, pythons, nightly=self.nightly
        )

    def folder(self, release: Release) -> Path:
        """Return the folder of a release. Its name has the version and the beginning of
        the wheel's hash.
        """
        mark = release.sha256[:12] if release.sha256 else "unhashed"
        name = f"{self._folder_prefix}-{release.version}-{mark}"
        return self.workspace.home.toolchains / name

    @property
    def _folder_prefix(self) -> str:
        if not isinstance(self.packaging, Environment):
            return self.distribution
        prefix = f"venv-{self.distribution}"
        companions = self.packaging.companions
        if companions:
            digest = blake2b(" ".join(companions).encode(), digest_size=4)
            prefix += f"-with-{digest.hexdigest()}"
        return prefix

    def installed(self, version: str | None = None) -> list[Release]:
        """Return the installed releases, the oldest version first. With `version`,
        return only releases of this version.
        """
        releases = []
        for marker in self.workspace.home.toolchains.glob(
            f"{self._folder_prefix}-{version or '[0-9]'}*/{MANIFEST}"
        ):
            folder = marker.parent
            with suppress(OSError, ValueError, TypeError, LookupError):  # damaged
                release = Release(**manifest_of(folder)["release"])
                is_wanted = not version or Version(release.version) == Version(version)
                if is_wanted and self.folder(release) == folder and is_intact(folder):
                    releases.append(release)
        return sorted(releases, key=lambda release: Version(release.version))

    def install(self, release: Release) -> Path:
        """Return the folder of a release. Install the release if it is missing.

        Raises:
            EnvironmentFailure: The wheel cannot be downloaded, or the disk is full.
            Unobtainable: The wheel is gone, damaged or not the announced one, no
                interpreter here runs it, or its dependencies conflict.
        """
        action = f"install {release.distribution} {release.version}"
        folder = self.folder(release).name
        return fill_folder(self.workspace, folder, action, partial(self._fill, release))

    def _fill(self, release: Release, folder: Path, scratch: Path) -> dict[str, Any]:
        """Put a release into a folder. Return what its manifest says of it."""
        name = f"{release.distribution} {release.version}"
        python = interpreter(major_minor(release.python))
        if python is None and self.packaging != PLAIN_WHEEL:
            raise Unobtainable(
                f"{name} needs Python {release.python}, which is not installed here"
            )
        wheels = [f"{release.distribution} @ {Address(release.url).full}"]
        if release.sha256:
            wheels[0] += f" --hash=sha256:{release.sha256}"
        uv = partial(
            self._run_uv, scratch, f"install {name} from {host_of(release.url)}"
        )
        # of any version of Python, perhaps: a native program is the same in all
        options = ["--no-deps", "--python-version", release.python]
        options += ["--target", str(folder)]
        until = None
        if python and isinstance(self.packaging, Environment):
            options = ["--relocatable", "--no-project", "--no-config", "--clear"]
            uv("venv", *options, f"--python={python}", str(folder))
            wheels += self.packaging.companions_of(release.version)
            options = ["--python", str(folder / "bin" / "python")]
            until = release.date
        # uv links files from its cache. It goes with the scratch folder, so that damage
        # to an install damages no other one, and pruning frees the space.
        words = ["--only-binary=:all:", f"--cache-dir={scratch / 'cache'}"]
        # Other users can read the words of a process; addresses may have a password.
        data = "\n".join(wheels)
        install = partial(uv, "pip", "install", *words, *options, "-r-", data=data)
        if until:
            # Its dependencies are as old. uv leaves out files for which an index has no
            # date; then today's dependencies are better than none.
            last = date.fromisoformat(until) + _UPLOADED_WITHIN
            with suppress(Unobtainable):
                install(f"--exclude-newer={last.isoformat()}T00:00:00Z")
                return asdict(release)
        install()
        return asdict(release)

    def companion(self, name: str, version: str) -> Path:
        """Return the folder of a package of the same version that is released with this
        one, or of the newest patch release before it. Install it if it is missing.

        Raises:
            Unobtainable: The index has no such package.
            EnvironmentFailure: As in `install`.
        """
        package = replace(self, distribution=name, packaging=PLAIN_WHEEL)
        wanted = Version(version)

        def fits(release: Release) -> bool:
            other = Version(release.version)
            is_patch = other < wanted and other.release[:2] == wanted.release[:2]
            return other == wanted or (is_patch and not wanted.is_prerelease)

        releases = package.installed(version) or list(filter(fits, package.listed))
        if not releases:
            raise Unobtainable(f"there is no {name} {version} at {self.url}")
        return package.install(releases[-1])

    def _run_uv(self, scratch: Path, action: str, *words: str, data: str = "") -> None:
        """Run uv. Raises Unobtainable if it fails for a reason that will not go away,
        and EnvironmentFailure if it fails for another one.
        """
        # The index of nightlies does not have their dependencies.
        indexes = {"UV_DEFAULT_INDEX": index_url().full, "UV_INDEX": self.url.full}
        execution = run(
            [uv_program(), *words, "--no-progress", "--color=never"],
            unlimited(_TIMEOUT),
            scratch,
            seal=None,
            purpose=Purpose.INSTALL,
            env=indexes,
            data=data.encode(),
            stop=self.workspace.stop,
        )
        if execution.ok:
            return
        reason = " ".join(without_secrets(execution.stderr.text).split())[-600:]
        if execution.ending is Ending.TIMED_OUT:
            reason = f"it takes more than {_TIMEOUT:.0f} s"
        kind = Unobtainable if _PERMANENT.search(reason) else EnvironmentFailure
        raise kind(f"cannot {action}: {reason}")
