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
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from packaging.version import Version

from triage.model.address import Address
from triage.model.errors import EnvironmentFailure
from triage.toolchains.home import Workspace
from triage.toolchains.web import (
    Web,
    answer_status,
    network_seconds,
    unusable,
)

# These packages, and those that read settings, are imported where they are used,
# because importing them takes long.
if TYPE_CHECKING:
    from packaging.tags import Tag
    from pypi_simple import DistributionPackage
    from pypi_simple.html import Link

T = TypeVar("T")
PythonVersion = tuple[int, int]
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WHEEL = re.compile(r"[A-Za-z0-9_.+!-]{1,240}\.whl")  # a file name, not a path
# no spaces: it becomes a word of a requirement
_ADDRESS = re.compile(r"https?://[!-~]+")
_CPYTHON = re.compile(r"cp([23])(\d{1,3})", re.ASCII)
_SECONDS = 30.0  # to read a page
_LARGEST_HTML = 32 << 20  # bytes
_PART = 1 << 10  # characters that are parsed between two looks at the clock
_LONGEST_TAG = 1 << 16  # characters
_MOST_OPEN = 100  # links inside each other
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
    """Return the index that the user's settings name: a variable, then uv's settings,
    then pip's. If they name none, return the public index.
    """
    names = ("TRIAGE_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    urls = (*map(os.environ.get, names), _uv_index_url(), *_pip_index_urls())
    return Address(next(filter(None, urls), _PUBLIC_INDEX))


def _uv_index_url() -> str | None:
    path = Path(os.environ.get("UV_CONFIG_FILE") or _user_settings() / "uv" / "uv.toml")
    try:
        text = path.read_text("utf-8")
        import tomllib  # slow to import, and most users have no such file

        settings = tomllib.loads(text)
    except (OSError, ValueError):
        return None
    defaults = [
        entry.get("url") for entry in settings.get("index", []) if entry.get("default")
    ]
    return next(iter(defaults), None) or settings.get("index-url")


def _pip_index_urls() -> Iterator[str | None]:
    """Yield the index that each of pip's settings files names. Files that are missing
    or damaged are left out.
    """
    paths = [
        _user_settings() / "pip" / "pip.conf",
        Path.home() / ".pip" / "pip.conf",
        Path("/etc/pip.conf"),
    ]
    named = os.environ.get("PIP_CONFIG_FILE")
    for path in [Path(named)] if named else paths:
        try:
            text = path.read_text("utf-8")
        except (OSError, ValueError):
            continue
        import configparser  # slow to import, and most users have no such file

        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string(text)
        except configparser.Error:
            continue
        yield parser.get("global", "index-url", fallback=None)


def _user_settings() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


@dataclass(frozen=True)
class Index:
    """A package index in the simple format, or a page of links. Its last answer is
    stored and used when the network fails.
    """

    workspace: Workspace
    url: Address = field(default_factory=index_url)
    """The address of the index (default: that of the user's settings) or the page."""
    is_page: bool = False
    """Whether `url` is a page of links to wheels, instead of an index."""
    nightly: bool = False
    """Whether it lists nightlies."""
    _answers: dict[tuple[str, Sequence[PythonVersion]], tuple[Release, ...]] = field(
        default_factory=dict, repr=False
    )

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
        state = self.workspace.state("listed wheels")
        key = f"{distribution} {page}"
        try:
            listed = self._read(page, distribution, pythons)
            if listed:
                state.put(key, [asdict(release) for release in listed])
        except EnvironmentFailure as error:
            stored: list[Release] = []
            with suppress(TypeError):  # stored by another version of triage
                stored = [Release(**entry) for entry in state.get(key) or ()]
            if stored:
                note = f"{error}; using the list from the last time"
                self.workspace.progress.note(note)
                return stored
            advice = "releases need no list of nightlies" if self.is_page else _ADVICE
            raise EnvironmentFailure(f"{error}. {advice}") from error
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
        kind = answer.headers.get("Content-Type", "html")
        try:
            wheels = _in_time(_wheels(answer.url, kind, answer.content, distribution))
            return _choose_wheels(wheels, distribution, pythons, nightly=self.nightly)
        except Exception as error:  # the parsers of HTML raise more than they document
            reason = " ".join(
                (str(error).strip() or type(error).__name__).splitlines()[:3]
            )
            raise unusable(
                answer.url, f"it is not a page of links: {reason[:300]}"
            ) from error


def _wheels(
    url: str, kind: str, content: bytes, distribution: str
) -> Iterable[DistributionPackage]:
    """Return the wheels that a page in JSON or HTML lists. `kind` is its content type.

    Files whose names cannot be wheels are left out first, because pypi-simple takes
    minutes for a name of 40 kB.
    """
    from pypi_simple import DistributionPackage, ProjectPage

    if "html" in kind:
        links = (link for link in _links(url, content) if _WHEEL.fullmatch(link.text))
        return (DistributionPackage.from_link(link, distribution) for link in links)
    page = json.loads(content)
    files = [file for file in page["files"] if _WHEEL.fullmatch(file["filename"])]
    return ProjectPage.from_json_data({**page, "files": files}, url).packages


def _links(url: str, content: bytes) -> Iterator[Link]:
    """Yield the links of a page. The parser gets the page in parts, so that unclosed
    tags and nested links, for which it takes quadratic time, are seen early.
    """
    from pypi_simple.html_stream import LinkParser

    text, parser = content.decode("utf-8", "replace"), LinkParser(url)
    if len(text) > _LARGEST_HTML:
        raise ValueError(f"it has more than {_LARGEST_HTML >> 20} MiB")
    for begin in _in_time(range(0, len(text), _PART)):
        parser.feed(text[begin : begin + _PART])
        if (
            len(parser.rawdata) > _LONGEST_TAG
            or len(parser.link_tag_stack) > _MOST_OPEN
        ):
            raise ValueError("it has a tag without an end")
        yield from parser.fetch_links()


def _in_time(items: Iterable[T]) -> Iterator[T]:
    """Yield items. Raises ValueError if that takes too long."""
    until = time.monotonic() + (network_seconds() or _SECONDS)
    for item in items:
        if time.monotonic() > until:
            raise ValueError(
                "reading it takes too long; TRIAGE_NETWORK_TIMEOUT=5m allows more time"
            )
        yield item


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
