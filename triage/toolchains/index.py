"""The releases that a package index, or a page of links, offers for this platform."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.errors import EnvironmentFailure
from triage.toolchains.workspace import Workspace

if (
    TYPE_CHECKING
):  # these packages, and those that read settings, are imported where they are used, because importing them takes long
    from packaging.tags import Tag
    from packaging.version import Version
    from pypi_simple import DistributionPackage

PythonVersion = tuple[int, int]
_PUBLIC_INDEX = "https://pypi.org/simple/"


@dataclass(frozen=True, slots=True)
class Release:
    """One version that has a wheel for this platform. size in bytes; python is the wheel's `3.11`; date ISO."""

    version: str
    wheel: str
    python: str
    sha256: str | None
    size: int | None
    date: str | None
    yanked: bool = False

    @property
    def prerelease(self) -> bool:
        """Whether the version is an alpha, beta, candidate or development version."""
        from packaging.version import Version

        return Version(self.version).is_prerelease


def index_url() -> str:
    """The index of TRIAGE_INDEX_URL, uv's settings or pip's settings, in this order; else the public one."""
    for name in ("TRIAGE_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if value := os.environ.get(name):
            return value
    return _uv_setting() or _pip_setting() or _PUBLIC_INDEX


def _uv_setting() -> str | None:
    import tomllib

    import platformdirs

    path = Path(os.environ.get("UV_CONFIG_FILE") or Path(platformdirs.user_config_dir("uv", appauthor=False)) / "uv.toml")
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    defaults = [entry.get("url") for entry in settings.get("index", []) if entry.get("default")]
    return next(iter(defaults), None) or settings.get("index-url")


def _pip_setting() -> str | None:
    import configparser

    import platformdirs

    named = os.environ.get("PIP_CONFIG_FILE")
    user = Path(platformdirs.user_config_dir("pip", appauthor=False)) / "pip.conf"
    for path in [Path(named)] if named else [user, Path.home() / ".pip" / "pip.conf", Path("/etc/pip.conf")]:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string(path.read_text("utf-8"))
        except (OSError, ValueError, configparser.Error):
            continue
        if url := parser.get("global", "index-url", fallback=None):
            return url
    return None


class Index:
    """A package index in the simple format. Its last answer is stored and used when the network fails."""

    def __init__(self, workspace: Workspace, url: str | None = None) -> None:
        """`url`: the index; None for the one that the user's settings name."""
        self._workspace = workspace
        self._url = url
        self._answers: dict[tuple[str, tuple[PythonVersion, ...]], tuple[Release, ...]] = {}

    @property
    def url(self) -> str:
        self._url = self._url or index_url()
        return self._url

    def releases(self, distribution: str, pythons: Sequence[PythonVersion] = ()) -> tuple[Release, ...]:
        """All versions with a wheel for this platform, oldest first, yanked and pre-releases included. `pythons`: the Python
        versions whose wheels are wanted, best first; of a release without any of them, another wheel is taken. Empty for the
        version of this program.

        EnvironmentFailure when the index does not have the distribution, or cannot be reached and never was.
        """
        key = (distribution, tuple(pythons))
        if key not in self._answers:
            from packaging.utils import canonicalize_name

            url = f"{self.url.rstrip('/')}/{canonicalize_name(distribution)}/"
            page = WheelPage(self._workspace, url, distribution)
            try:
                listed = page.read(pythons)
            except PageNotFound as error:
                raise EnvironmentFailure(f"the package index has no {distribution} ({self.url})") from error
            except EnvironmentFailure as error:
                if not (listed := page.stored()):
                    raise EnvironmentFailure(
                        f"cannot reach the package index {self.url}: {error}. "
                        "Set TRIAGE_INDEX_URL to another index, or use an installed compiler with `path:DIR`."
                    ) from error
            self._answers[key] = tuple(wheel.release for wheel in listed)
        return self._answers[key]


class PageNotFound(EnvironmentFailure):
    """The server has no such page."""


@dataclass(frozen=True, slots=True)
class ListedWheel:
    """A wheel on a page and the address of its file."""

    release: Release
    url: str


class WheelPage:
    """A page of a simple index, or any page of links to wheels."""

    def __init__(self, workspace: Workspace, url: str, distribution: str) -> None:
        self._workspace = workspace
        self._url = url
        self._distribution = distribution
        self._answers = workspace.state.section("listed wheels")
        self._key = f"{distribution} {url}"

    def read(self, pythons: Sequence[PythonVersion] = ()) -> list[ListedWheel]:
        """The wheels to take here, oldest version first. The answer is stored.

        Raises:
            PageNotFound: the server has no such page.
            EnvironmentFailure: the page cannot be read.
        """
        from pypi_simple import ACCEPT_ANY, ProjectPage, UnsupportedContentTypeError

        from triage.toolchains.web import Web

        answer = Web(self._workspace, tries=2).get(self._url, accept=ACCEPT_ANY)
        if answer.status_code != 200:
            error = PageNotFound if answer.status_code in (404, 410) else EnvironmentFailure
            raise error(f"cannot read {self._url}: {answer.status_code} {answer.reason}")
        try:
            packages = ProjectPage.from_response(answer, self._distribution).packages
        except (UnsupportedContentTypeError, ValueError) as error:
            raise EnvironmentFailure(f"{self._url} is no page of links: {error}") from error
        ours = [package for package in packages if belongs(package.project, self._distribution)]
        urls = {package.filename: package.url for package in ours}
        listed = [ListedWheel(release, urls[release.wheel]) for release in choose_wheels(ours, pythons)]
        self._answers.put(self._key, [asdict(wheel) for wheel in listed])
        return listed

    def stored(self) -> list[ListedWheel]:
        """The last answer; empty when the page was never read."""
        return [ListedWheel(Release(**entry["release"]), entry["url"]) for entry in self._answers.get(self._key) or ()]


def belongs(project: str | None, distribution: str) -> bool:
    """Whether a file of `project` belongs to the distribution; both names may be spelled in any way that pip accepts."""
    from packaging.utils import canonicalize_name

    return project is not None and canonicalize_name(project) == canonicalize_name(distribution)


def newest_wheel(names: Iterable[str], distribution: str) -> Release | None:
    """The newest wheel of `distribution` for this platform among file names; None without one."""
    from pypi_simple import DistributionPackage

    wheels = (DistributionPackage.from_json_data({"filename": name, "url": name, "hashes": {}}) for name in names)
    chosen = choose_wheels(wheel for wheel in wheels if belongs(wheel.project, distribution))
    return chosen[-1] if chosen else None


def choose_wheels(packages: Iterable[DistributionPackage], pythons: Sequence[PythonVersion] = ()) -> list[Release]:
    """For each version the wheel to take here, oldest version first. Without `pythons` our own Python's wheel is
    preferred because only there an importer written in Python can run; the native compiler in any of them is the same.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.tags import sys_tags
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    wanted = tuple(pythons) or (sys.version_info[:2],)
    platforms = {tag.platform for tag in sys_tags()} | {"any"}
    best: dict[Version, tuple[tuple[int, PythonVersion], Release]] = {}
    for package in packages:
        if package.package_type != "wheel":
            continue
        try:
            _, version, _, tags = parse_wheel_filename(package.filename)
        except (InvalidWheelFilename, ValueError):
            continue
        try:
            bounds = SpecifierSet(package.requires_python or "")
        except InvalidSpecifier:
            bounds = SpecifierSet()
        allowed = [python for python in wanted if bounds.contains("{}.{}".format(*python) + ".99")]
        python = _python_of(tags, platforms, allowed)
        if python is None:
            continue
        release = Release(
            version=str(version),
            wheel=package.filename,
            python=".".join(map(str, python)),
            sha256=(package.digests or {}).get("sha256"),
            size=package.size,
            date=package.upload_time.date().isoformat() if package.upload_time else None,
            yanked=package.is_yanked,
        )
        rank = (-wanted.index(python) if python in wanted else -len(wanted), python)
        if version not in best or rank > best[version][0]:
            best[version] = (rank, release)
    return [best[version][1] for version in sorted(best)]


def _python_of(tags: Iterable[Tag], platforms: set[str], wanted: Sequence[PythonVersion]) -> PythonVersion | None:
    """The Python to run a wheel with, as (3, 11): a wanted one where possible. None when the wheel is for another platform
    or not for CPython.
    """
    for tag in tags:
        if tag.platform not in platforms:
            continue
        digits = tag.interpreter.removeprefix("cp").removeprefix("py")
        if tag.interpreter.startswith("cp") and digits.isdigit() and len(digits) > 1:
            if tag.abi.endswith("t"):  # uv needs another request for free-threaded builds
                continue
            exact = (int(digits[0]), int(digits[1:]))
            if tag.abi == "abi3":  # for that version and every later one
                return next((python for python in wanted if python >= exact), exact)
            return exact
        if tag.interpreter.startswith("py3"):
            return next(iter(wanted), None)
    return None
