"""List the wheels for this platform in a package index or on a page of links."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from packaging.version import Version

from triage.model.address import Address
from triage.model.errors import EnvironmentFailure
from triage.processes.containment import Purpose
from triage.processes.process import capture
from triage.toolchains.home import Workspace, read_json, save_file
from triage.toolchains.web import Web, answer_status, network_seconds, unusable

# These packages are imported where they are used, because importing them takes long.
if TYPE_CHECKING:
    from packaging.tags import Tag
    from pypi_simple import DistributionPackage

PythonVersion = tuple[int, int]
_SHA256 = re.compile(r"[0-9a-f]{64}")
# A file name, not a path. pypi-simple takes minutes for a name of 40 kB.
_WHEEL = re.compile(r"[A-Za-z0-9_.+!-]{1,240}\.whl")
# no spaces: it becomes a word of a requirement
_ADDRESS = re.compile(r"https?://[!-~]+")
_CPYTHON = re.compile(r"cp([23])(\d{1,3})", re.ASCII)
_SECONDS = 30.0  # to read a page
_PART = 1 << 12  # characters that are parsed between two looks at the clock
_PUBLIC_INDEX = "https://pypi.org/simple/"
_ADVICE = (
    "Installed releases and `path:DIR` work without it; set TRIAGE_INDEX_URL to "
    "another index"
)


@dataclass(frozen=True, slots=True)
class Release:
    """One version that has a wheel for this platform: a release, or a nightly."""

    distribution: str
    version: str
    wheel: str
    """The file name."""
    python: str
    """The Python version that the wheel needs, such as `3.11`."""
    sha256: str | None
    date: str | None
    """The day of the upload, or the day in the version of a nightly: `YYYY-MM-DD`."""
    yanked: bool = False
    url: Address = field(default_factory=lambda: Address(""))
    """The address of the file."""
    nightly: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", Address(self.url))  # a text where it was stored

    @property
    def prerelease(self) -> bool:
        """Whether the version is an alpha, beta, candidate or development version."""
        return Version(self.version).is_prerelease

    @property
    def is_stable(self) -> bool:
        """Whether users are meant to use it: a release that was not withdrawn."""
        return not (self.nightly or self.yanked or self.prerelease)


def index_url() -> Address:
    """Return the index that the user's settings name: a variable, then pip's. If they
    name none, return the public index.
    """
    names = ("TRIAGE_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    named = next(filter(None, map(os.environ.get, names)), None)
    return Address(named or _index_of_pip() or _PUBLIC_INDEX)


def _index_of_pip() -> str:
    """Return the index that pip's settings files name; nothing without pip."""
    asking = [sys.executable, "-m", "pip", "config", "list"]
    answer = capture(asking, _SECONDS, seal=None, purpose=Purpose.INSTALL)
    named = re.search("^global.index-url='(.*)'$", answer.stdout.text, re.MULTILINE)
    return named[1] if named else ""


@dataclass(frozen=True)
class Index:
    """A package index in the simple format, or a page of links. Its last answer is
    stored and used when the network fails.
    """

    workspace: Workspace
    address: Address | None = None
    """That of the index (default: see `index_url`) or the page."""
    is_page: bool = False
    """Whether it is a page of links to wheels, instead of an index."""
    nightly: bool = False
    """Whether it lists nightlies."""
    _answers: dict[tuple[str, Sequence[PythonVersion]], tuple[Release, ...]] = field(
        default_factory=dict, repr=False
    )

    @cached_property
    def url(self) -> Address:
        return self.address or index_url()

    def releases(
        self, distribution: str, pythons: Sequence[PythonVersion] = ()
    ) -> tuple[Release, ...]:
        """Return all versions with a wheel for this platform, the oldest first. Yanked
        versions and pre-releases are included.

        Args:
            distribution: The name of the package.
            pythons: The Python versions whose wheels are preferred, the best first
                (default: this program's).

        Raises:
            EnvironmentFailure: The index does not have the package, or it cannot be
                read and never was.
        """
        key = (distribution, tuple(pythons))
        if key not in self._answers:
            self._answers[key] = tuple(self._listed(distribution, pythons))
        return self._answers[key]

    def _listed(
        self, distribution: str, pythons: Sequence[PythonVersion]
    ) -> list[Release]:
        """Return the releases that the index lists and store them, or return those that
        were stored the last time.
        """
        from packaging.utils import canonicalize_name

        page = self.url
        if not self.is_page:
            index = self.url.full.rstrip("/")
            page = Address(f"{index}/{canonicalize_name(distribution)}/")
        state = self.workspace.home.state("wheels", f"{distribution} {page}")
        try:
            listed = self._read(page, distribution, pythons)
        except EnvironmentFailure as error:
            with suppress(TypeError):  # none are stored
                stored = [Release(**entry) for entry in read_json(state)]
                note = f"{error}; using the list from the last time"
                self.workspace.progress.note(note)
                return stored
            advice = "" if self.is_page else f". {_ADVICE}"
            raise EnvironmentFailure(f"{error}{advice}") from error
        if listed:
            entries = json.dumps([asdict(release) for release in listed])
            save_file(state, entries, "store the list of wheels")
        return listed

    def _read(
        self, page: Address, distribution: str, pythons: Sequence[PythonVersion]
    ) -> list[Release]:
        from pypi_simple import ACCEPT_JSON_PREFERRED

        shown = page if self.is_page else f"the package index {self.url}"
        try:
            answer = Web(self.workspace, tries=2).get(
                page, accept=ACCEPT_JSON_PREFERRED
            )
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"cannot read {shown}: {error}") from error
        if answer.status_code == 404:
            raise EnvironmentFailure(f"{shown} has no {distribution}")
        if answer.status_code != 200:
            raise EnvironmentFailure(f"cannot read {shown}: {answer_status(answer)}")
        try:
            kind = answer.headers.get("Content-Type", "html")
            wheels = _wheels(answer.url, kind, answer.content, distribution)
            return _choose_wheels(wheels, distribution, pythons, nightly=self.nightly)
        except Exception as error:  # the parsers of HTML raise more than they document
            reason = str(error).strip() or type(error).__name__
            raise unusable(
                answer.url, f"it is not a page of links: {reason[:300]}"
            ) from error


def _wheels(
    url: str, kind: str, content: bytes, distribution: str
) -> Iterable[DistributionPackage]:
    """Return the wheels that a page in JSON or HTML lists. `kind` is its content
    type.
    """
    from pypi_simple import DistributionPackage, ProjectPage
    from pypi_simple.html_stream import parse_links_stream

    if "html" in kind:
        parts = _in_time(content.decode("utf-8", "replace"))
        links = parse_links_stream(parts, url)
        named = (link for link in links if _WHEEL.fullmatch(link.text))
        return (DistributionPackage.from_link(link, distribution) for link in named)
    page = json.loads(content)
    files = [file for file in page["files"] if _WHEEL.fullmatch(file["filename"])]
    return ProjectPage.from_json_data({**page, "files": files}, url).packages


def _in_time(text: str) -> Iterator[str]:
    """Yield the parts of a text. Raises ValueError if reading them takes too long, such
    as for unclosed tags, for which the parser takes quadratic time.
    """
    until = time.monotonic() + (network_seconds() or _SECONDS)
    for begin in range(0, len(text), _PART):
        if time.monotonic() > until:
            raise ValueError(
                "reading it takes too long; TRIAGE_NETWORK_TIMEOUT=5m allows more time"
            )
        yield text[begin : begin + _PART]


def newest_wheel(names: Iterable[str], distribution: str) -> Release | None:
    """Return the newest wheel of `distribution` for this platform among file names."""
    from pypi_simple import DistributionPackage

    entries = (
        {"filename": name, "url": f"https://localhost/{name}", "hashes": {}}
        for name in names
        if _WHEEL.fullmatch(name)
    )
    packages = map(DistributionPackage.from_json_data, entries)
    chosen = _choose_wheels(packages, distribution)
    return chosen[-1] if chosen else None


def _choose_wheels(
    packages: Iterable[DistributionPackage],
    distribution: str,
    pythons: Sequence[PythonVersion] = (),
    *,
    nightly: bool = False,
) -> list[Release]:
    """Return one wheel of each version for this platform, the oldest version first.

    By default, the wheel for this program's Python is preferred: a native compiler is
    the same in all wheels, but an importer written in Python runs only there.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.tags import sys_tags
    from packaging.utils import canonicalize_name, parse_wheel_filename

    from triage.git_history.repository import day_in

    wanted = tuple(pythons) or (sys.version_info[:2],)
    platforms = {tag.platform for tag in sys_tags()} | {"any"}
    best: dict[Version, tuple[tuple[int, PythonVersion], Release]] = {}
    for package in packages:
        try:
            name, version, _, tags = parse_wheel_filename(package.filename)
            bounds = SpecifierSet(package.requires_python or "")
        except ValueError:  # of both parsers
            continue
        if name != canonicalize_name(distribution) or not _ADDRESS.fullmatch(
            package.url
        ):
            continue
        allowed = [
            python for python in wanted if bounds.contains("{}.{}.99".format(*python))
        ]
        python = _python_of(tags, platforms, allowed)
        if python is None:
            continue
        rank = (-wanted.index(python) if python in wanted else -len(wanted), python)
        if version in best and rank <= best[version][0]:
            continue
        day = day_in(str(version)) if nightly else None
        if day is None and package.upload_time:
            day = package.upload_time.date().isoformat()
        release = Release(
            distribution,
            version=str(version),
            wheel=package.filename,
            python=".".join(map(str, python)),
            sha256=_digest_of(package),
            date=day,
            yanked=package.is_yanked,
            url=Address(package.url),
            nightly=nightly,
        )
        best[version] = (rank, release)
    return [best[version][1] for version in sorted(best)]


def _digest_of(package: DistributionPackage) -> str | None:
    """Return the announced SHA-256, if there is one. Raises ValueError if it is not
    one, because it becomes a part of a folder's name.
    """
    digest = (package.digests or {}).get("sha256")
    if digest is not None and not _SHA256.fullmatch(digest.lower()):
        raise ValueError(f"the sha256 of {package.filename} is {digest[:80]!r}")
    return digest and digest.lower()


def _python_of(
    tags: Iterable[Tag], platforms: set[str], wanted: Sequence[PythonVersion]
) -> PythonVersion | None:
    """Return the Python version to run a wheel with, a wanted one if possible. Returns
    None if the wheel is not for this platform.
    """
    for tag in tags:
        # uv needs another request for free-threaded builds
        if tag.platform not in platforms or tag.abi.endswith("t"):
            continue
        version = _CPYTHON.fullmatch(tag.interpreter)
        if version:
            exact = (int(version[1]), int(version[2]))
            later = (
                python for python in wanted if python >= exact and tag.abi == "abi3"
            )
            return next(later, exact)
        if tag.interpreter.startswith("py3"):
            return next(iter(wanted), None)
    return None
