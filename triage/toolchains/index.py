"""The releases that a package index, or a page of links, offers for this platform."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.interpreters import version_of
from triage.model.errors import EnvironmentFailure
from triage.toolchains.addresses import unusable, without_password
from triage.toolchains.workspace import Workspace

# These packages, and those that read settings, are imported where they are used, because importing them takes long.
if TYPE_CHECKING:
    from packaging.tags import Tag
    from packaging.version import Version
    from pypi_simple import DistributionPackage

    from triage.toolchains.web import WebAnswer

PythonVersion = tuple[int, int]
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WHEEL = re.compile(r"[A-Za-z0-9_.+!-]{1,240}\.whl")  # a file name, and no path
_CPYTHON = re.compile(r"cp([23])(\d{1,3})", re.ASCII)
_LARGEST_SIZE = 1 << 45  # bytes; more is a mistake of the index
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
        self._answers: dict[tuple[str, tuple[PythonVersion, ...]], list[ListedWheel]] = {}

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
        return tuple(wheel.release for wheel in self._listed(distribution, tuple(pythons)))

    def address(self, distribution: str, release: Release) -> str:
        """The address of a release's wheel. EnvironmentFailure when the index no longer lists it."""
        answers = [listed for (name, _), listed in self._answers.items() if name == distribution]
        for listed in answers or [self._listed(distribution, (version_of(release.python),))]:
            for wheel in listed:
                if (wheel.release.wheel, wheel.release.sha256) == (release.wheel, release.sha256):
                    return wheel.url
        raise EnvironmentFailure(f"the package index no longer lists {release.wheel} ({without_password(self.url)})")

    def _listed(self, distribution: str, pythons: tuple[PythonVersion, ...]) -> list[ListedWheel]:
        key = (distribution, pythons)
        if key not in self._answers:
            from packaging.utils import canonicalize_name

            url, shown = f"{self.url.rstrip('/')}/{canonicalize_name(distribution)}/", without_password(self.url)
            page = WheelPage(self._workspace, url, distribution)
            try:
                listed = page.read(pythons)
            except PageNotFound as error:
                raise EnvironmentFailure(f"the package index has no {distribution} ({shown})") from error
            except EnvironmentFailure as error:
                if not (listed := page.stored()):
                    raise EnvironmentFailure(
                        f"cannot read the package index {shown}: {error}. Installed releases and `path:DIR` work without it; "
                        "set TRIAGE_INDEX_URL to another index"
                    ) from error
            self._answers[key] = listed
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
        from pypi_simple import ACCEPT_ANY

        from triage.toolchains.web import Web

        answer = Web(self._workspace, tries=2).get(self._url, accept=ACCEPT_ANY)
        if answer.status != 200:
            error = PageNotFound if answer.status in (404, 410) else EnvironmentFailure
            raise error(f"cannot read {without_password(self._url)}: {answer}")
        listed = wheels_of(answer, self._distribution, pythons)
        if listed:
            self._answers.put(self._key, [asdict(wheel) for wheel in listed])
        return listed

    def stored(self) -> list[ListedWheel]:
        """The last answer; empty when the page was never read, or another version of the program stored the answer."""
        with suppress(TypeError, KeyError):
            return [ListedWheel(Release(**entry["release"]), entry["url"]) for entry in self._answers.get(self._key) or ()]
        return []


def wheels_of(answer: WebAnswer, distribution: str, pythons: Sequence[PythonVersion] = ()) -> list[ListedWheel]:
    """The wheels for this platform on a page of the index. EnvironmentFailure when it is not a page of links."""
    try:
        ours = [package for package in _packages(answer, distribution) if belongs(package.project, distribution)]
        urls = {package.filename: package.url for package in ours}
        return [ListedWheel(release, urls[release.wheel]) for release in choose_wheels(ours, pythons)]
    except Exception as error:  # the parsers of HTML raise more than they document
        reason = " ".join((str(error).strip() or type(error).__name__).splitlines()[:3])
        raise unusable(answer.head.url, f"it is not a page of links: {reason[:300]}") from error


def _packages(answer: WebAnswer, distribution: str) -> list[DistributionPackage]:
    from email.message import Message

    from pydantic_core import from_json
    from pypi_simple import ProjectPage

    content = Message()
    content["Content-Type"] = answer.head.headers.get("Content-Type", "text/html")
    match content.get_content_type():
        case "application/vnd.pypi.simple.v1+json":
            return ProjectPage.from_json_data(from_json(answer.body), answer.head.url).packages
        case "application/vnd.pypi.simple.v1+html" | "text/html":
            charset = content.get_content_charset()
            return ProjectPage.from_html(distribution, answer.body, answer.head.url, charset).packages
        case other:
            raise ValueError(f"its content type is {other}")


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
        if package.package_type != "wheel" or not _WHEEL.fullmatch(package.filename):
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
            sha256=_digest_of(package),
            size=package.size if package.size and 0 < package.size < _LARGEST_SIZE else None,
            date=package.upload_time.date().isoformat() if package.upload_time else None,
            yanked=package.is_yanked,
        )
        rank = (-wanted.index(python) if python in wanted else -len(wanted), python)
        if version not in best or rank > best[version][0]:
            best[version] = (rank, release)
    return [best[version][1] for version in sorted(best)]


def _digest_of(package: DistributionPackage) -> str | None:
    """The announced sha256. ValueError when it is none: it becomes a part of a folder's name."""
    digest = (package.digests or {}).get("sha256")
    if digest is not None and not _SHA256.fullmatch(digest.lower()):
        raise ValueError(f"the sha256 of {package.filename} is {digest[:80]!r}")
    return digest and digest.lower()


def _python_of(tags: Iterable[Tag], platforms: set[str], wanted: Sequence[PythonVersion]) -> PythonVersion | None:
    """The Python to run a wheel with, as (3, 11): a wanted one where possible. None when the wheel is for another platform
    or not for CPython.
    """
    for tag in tags:
        if tag.platform not in platforms:
            continue
        if version := _CPYTHON.fullmatch(tag.interpreter):
            if tag.abi.endswith("t"):  # uv needs another request for free-threaded builds
                continue
            exact = (int(version[1]), int(version[2]))
            if tag.abi == "abi3":  # for that version and every later one
                return next((python for python in wanted if python >= exact), exact)
            return exact
        if tag.interpreter.startswith("py3"):
            return next(iter(wanted), None)
    return None
