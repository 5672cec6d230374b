"""The releases that a package index, or a page of links, offers for this platform."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.errors import EnvironmentFailure
from triage.toolchains.web import Web, status_of, unusable, without_password
from triage.toolchains.workspace import Workspace

# These packages, and those that read settings, are imported where they are used, because importing them takes long.
if TYPE_CHECKING:
    from packaging.tags import Tag
    from packaging.version import Version
    from pypi_simple import DistributionPackage

PythonVersion = tuple[int, int]
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WHEEL = re.compile(r"[A-Za-z0-9_.+!-]{1,240}\.whl")  # a file name, and no path
_ADDRESS = re.compile(r"https?://[!-~]+")  # no spaces: it becomes a word of a requirement
_CPYTHON = re.compile(r"cp([23])(\d{1,3})", re.ASCII)
_LARGEST_SIZE = 1 << 45  # bytes; more is a mistake of the index
_PUBLIC_INDEX = "https://pypi.org/simple/"
_ADVICE = "Installed releases and `path:DIR` work without it; set TRIAGE_INDEX_URL to another index"


@dataclass(frozen=True, slots=True)
class Release:
    """One version that has a wheel for this platform."""

    version: str
    wheel: str
    """The file name."""
    python: str
    """The Python version that the wheel is for, such as `3.11`."""
    sha256: str | None
    size: int | None
    """Bytes."""
    date: str | None
    """The day of the upload, `YYYY-MM-DD`."""
    yanked: bool = False
    url: str = ""
    """The address of the file, without the user and password that the index needs."""

    @property
    def prerelease(self) -> bool:
        """Whether the version is an alpha, beta, candidate or development version."""
        from packaging.version import Version

        return Version(self.version).is_prerelease


def index_url() -> str:
    """Return the index of TRIAGE_INDEX_URL, uv's settings or pip's settings, in this order; else the public one."""
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
    """A package index in the simple format, or a page of links. Its last answer is stored and used when the network fails."""

    def __init__(self, workspace: Workspace, url: str | None = None, *, is_page: bool = False) -> None:
        """`url`: the index (default: the one that the user's settings name), or the page."""
        self._workspace = workspace
        self._url = url
        self._is_page = is_page
        self._answers: dict[tuple[str, tuple[PythonVersion, ...]], tuple[Release, ...]] = {}

    @property
    def url(self) -> str:
        self._url = self._url or index_url()
        return self._url

    def releases(self, distribution: str, pythons: Sequence[PythonVersion] = ()) -> tuple[Release, ...]:
        """Return all versions with a wheel for this platform, oldest first, yanked and pre-releases included.

        `pythons` are the Python versions whose wheels are wanted, best first (default: this program's). For a release that has
        none of them, another wheel is chosen.

        EnvironmentFailure when the index does not have the distribution, or cannot be reached and never was.
        """
        key = (distribution, tuple(pythons))
        if key not in self._answers:
            from packaging.utils import canonicalize_name

            page = self.url if self._is_page else f"{self.url.rstrip('/')}/{canonicalize_name(distribution)}/"
            state, kept = self._workspace.state("listed wheels"), f"{distribution} {without_password(page)}"
            try:
                listed = self._read(page, distribution, pythons)
                if listed:
                    state.put(kept, [asdict(release) for release in listed])
            except EnvironmentFailure as error:
                try:
                    listed = [Release(**entry) for entry in state.get(kept) or ()]
                except TypeError:  # stored by another version of the program
                    listed = []
                if not listed:
                    advice = "releases need no list of nightlies" if self._is_page else _ADVICE
                    raise EnvironmentFailure(f"{error}. {advice}") from error
                self._workspace.progress.note(f"{error}; using the list from the last time")
            self._answers[key] = tuple(listed)
        return self._answers[key]

    def _read(self, page: str, distribution: str, pythons: Sequence[PythonVersion]) -> list[Release]:
        from pypi_simple import ACCEPT_ANY, ProjectPage

        shown = without_password(page) if self._is_page else f"the package index {without_password(self.url)}"
        try:
            answer = Web(self._workspace, tries=2).get(page, accept=ACCEPT_ANY)
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"cannot read {shown}: {error}") from error
        if answer.status_code == 404:
            raise EnvironmentFailure(f"{shown} has no {distribution}")
        if answer.status_code != 200:
            raise EnvironmentFailure(f"cannot read {shown}: {status_of(answer)}")
        try:
            return choose_wheels(ProjectPage.from_response(answer, distribution).packages, distribution, pythons)
        except Exception as error:  # the parsers of HTML raise more than they document
            reason = " ".join((str(error).strip() or type(error).__name__).splitlines()[:3])
            raise unusable(answer.url, f"it is not a page of links: {reason[:300]}") from error


def newest_wheel(names: Iterable[str], distribution: str) -> Release | None:
    """Return the newest wheel of `distribution` for this platform among file names."""
    from pypi_simple import DistributionPackage

    wheels = (
        DistributionPackage.from_json_data({"filename": name, "url": f"https://localhost/{name}", "hashes": {}})
        for name in names
    )
    chosen = choose_wheels(wheels, distribution)
    return chosen[-1] if chosen else None


def choose_wheels(
    packages: Iterable[DistributionPackage], distribution: str, pythons: Sequence[PythonVersion] = ()
) -> list[Release]:
    """Return one wheel of each version for this platform, oldest version first.

    Without `pythons` our own Python's wheel is preferred because only there an importer written in Python can run; the native
    compiler in any of them is the same.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.tags import sys_tags
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

    wanted = tuple(pythons) or (sys.version_info[:2],)
    platforms = {tag.platform for tag in sys_tags()} | {"any"}
    best: dict[Version, tuple[tuple[int, PythonVersion], Release]] = {}
    for package in packages:
        if package.package_type != "wheel" or not _WHEEL.fullmatch(package.filename):
            continue
        try:
            name, version, _, tags = parse_wheel_filename(package.filename)
        except (InvalidWheelFilename, ValueError):
            continue
        if name != canonicalize_name(distribution) or not _ADDRESS.fullmatch(package.url):
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
            url=without_password(package.url),
        )
        rank = (-wanted.index(python) if python in wanted else -len(wanted), python)
        if version not in best or rank > best[version][0]:
            best[version] = (rank, release)
    return [best[version][1] for version in sorted(best)]


def _digest_of(package: DistributionPackage) -> str | None:
    """Return the announced sha256. ValueError when it is not one: it becomes a part of a folder's name."""
    digest = (package.digests or {}).get("sha256")
    if digest is not None and not _SHA256.fullmatch(digest.lower()):
        raise ValueError(f"the sha256 of {package.filename} is {digest[:80]!r}")
    return digest and digest.lower()


def _python_of(tags: Iterable[Tag], platforms: set[str], wanted: Sequence[PythonVersion]) -> PythonVersion | None:
    """Return the Python to run a wheel with, a wanted one if possible, or None if the wheel is not for this platform."""
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
