"""Which releases a package index offers for this platform."""

from __future__ import annotations

import configparser
import json
import os
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from triage.model.errors import EnvironmentFailure
from triage.toolchains.home import disk_errors, write_whole

if TYPE_CHECKING:  # imported where it is used: it costs every start of the program a fifth of a second
    from pypi_simple import DistributionPackage


Python = tuple[int, int]


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
        return Version(self.version).is_prerelease


def index_url() -> str:
    """The index to ask: TRIAGE_INDEX_URL, uv's settings, pip's settings, else the public one; in this order."""
    for name in ("TRIAGE_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if value := os.environ.get(name):
            return value
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    return _uv_setting() or _pip_setting() or PYPI_SIMPLE_ENDPOINT


def _uv_setting() -> str | None:
    path = Path(os.environ.get("UV_CONFIG_FILE") or Path(platformdirs.user_config_dir("uv", appauthor=False)) / "uv.toml")
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    named = [entry.get("url") for entry in settings.get("index", []) if entry.get("default")]
    return next(iter(named), None) or settings.get("index-url")


def _pip_setting() -> str | None:
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
    """A package index in the simple format. Its last answer is kept, for a machine that lost its network."""

    def __init__(self, memory: Path, url: str | None = None) -> None:
        """`memory` is the folder that keeps the last answers."""
        self._url = url
        self._memory = memory
        self._asked: dict[tuple[str, tuple[Python, ...]], tuple[Release, ...]] = {}

    @property
    def url(self) -> str:
        """The index that is asked."""
        self._url = self._url or index_url()
        return self._url

    def releases(self, distribution: str, pythons: Sequence[Python] = ()) -> tuple[Release, ...]:
        """All versions with a wheel for this platform, oldest first, yanked and pre-releases included. pythons: the
        versions whose wheels are wanted, best first; where a release has none of them, any other stands for it.

        EnvironmentFailure when the index cannot be reached and never was, or does not know the distribution.
        """
        key = (distribution, tuple(pythons))
        if key not in self._asked:
            self._asked[key] = self._ask(distribution, pythons)
        return self._asked[key]

    def _ask(self, distribution: str, pythons: Sequence[Python]) -> tuple[Release, ...]:
        import requests
        from pypi_simple import NoSuchProjectError, PyPISimple

        try:
            with PyPISimple(self.url) as client:
                page = client.get_project_page(distribution, timeout=30)
        except NoSuchProjectError as error:
            raise EnvironmentFailure(f"the package index has no {distribution} (asked {self.url})") from error
        except (requests.RequestException, ValueError) as error:
            remembered = self._recall(distribution)
            if remembered is None:
                raise EnvironmentFailure(
                    f"cannot reach the package index {self.url}: {_brief(error)}. "
                    "TRIAGE_INDEX_URL names another; `path:DIR` uses an installed compiler."
                ) from error
            return remembered
        found = tuple(choose_wheels(page.packages, pythons))
        with disk_errors("keep the index's answer"):
            self._remember(distribution, found)
        return found

    def _note(self, distribution: str) -> Path:
        return self._memory / f"{distribution}.json"

    def _remember(self, distribution: str, found: tuple[Release, ...]) -> None:
        write_whole(self._note(distribution), json.dumps({"url": self.url, "releases": [asdict(release) for release in found]}))

    def _recall(self, distribution: str) -> tuple[Release, ...] | None:
        try:
            kept = json.loads(self._note(distribution).read_text())
            return tuple(Release(**entry) for entry in kept["releases"]) if kept["url"] == self.url else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def choose_wheels(packages: Iterable[DistributionPackage], pythons: Sequence[Python] = ()) -> list[Release]:
    """For each version the wheel to take here, oldest version first. Without `pythons` our own Python's wheel is
    preferred because only there an importer written in Python can run; the native compiler in any of them is the same.
    """
    wanted = tuple(pythons) or (sys.version_info[:2],)
    platforms = {tag.platform for tag in sys_tags()} | {"any"}
    best: dict[Version, tuple[tuple[int, Python], Release]] = {}
    for package in packages:
        if package.package_type != "wheel":
            continue
        try:
            _, version, _, tags = parse_wheel_filename(package.filename)
        except (InvalidWheelFilename, ValueError):
            continue
        python = _python_of(tags, platforms, _allowed(package.requires_python, wanted))
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


def _allowed(requires: str | None, wanted: Sequence[Python]) -> Sequence[Python]:
    """Those of the wanted Pythons that a file says it is for; a file that says nothing readable is for all."""
    try:
        bounds = SpecifierSet(requires or "")
    except InvalidSpecifier:
        return wanted
    return [python for python in wanted if bounds.contains("{}.{}".format(*python) + ".99")]


def _python_of(tags: Iterable[Tag], platforms: set[str], wanted: Sequence[Python]) -> Python | None:
    """The Python to run a wheel with, as (3, 11): a wanted one where one fits. None when it is not for this platform, or
    not for CPython.
    """
    for tag in tags:
        if tag.platform not in platforms:
            continue
        digits = tag.interpreter.removeprefix("cp").removeprefix("py")
        if tag.interpreter.startswith("cp") and digits.isdigit() and len(digits) > 1:
            if tag.abi.endswith("t"):  # free-threaded builds are second to none here, and uv asks for them differently
                continue
            named = (int(digits[0]), int(digits[1:]))
            if tag.abi == "abi3":  # for that version and every later one
                return next((python for python in wanted if python >= named), named)
            return named
        if tag.interpreter.startswith("py3"):
            return next(iter(wanted), None)
    return None


def _brief(error: Exception) -> str:
    """The part of a long network error that says what happened."""
    text = str(error)
    known = ("Connection refused", "Name or service not known", "timed out", "404", "403", "401", "certificate")
    return next((part for part in known if part in text), text[:200])
