"""Read pages and files over HTTP, under limits of time and size, and which wheels for
this platform a page of an index, or a page of links, has. uv downloads wheels.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packaging.version import Version

from triage.model.content import Address, without_secrets
from triage.model.errors import (
    BadInput,
    EnvironmentFailure,
    Interrupted,
    TriageError,
    Unobtainable,
)
from triage.model.revision import Revision
from triage.toolchains.home import Workspace, disk_errors, pause

# These packages are imported where they are used, because importing them takes long.
if TYPE_CHECKING:
    import requests
    from packaging.tags import Tag
    from pypi_simple import DistributionPackage

PythonVersion = tuple[int, int]
_TIMEOUT = (10, 30)  # seconds to connect; seconds between two bytes
_BODY_SECONDS = 120.0  # for a body, and more for a long one
_SLOWEST = 16 << 10  # bytes a second, on average after the first two minutes
_TRANSIENT = (429, 500, 502, 503, 504)  # a request may succeed later
_READ = 1 << 16  # bytes
_MIB = 1 << 20
_LARGEST_PAGE = 64 << 20  # bytes
_SHA256 = re.compile(r"[0-9a-f]{64}")
# A file name, not a path. pypi-simple takes minutes for a name of 40 kB.
_WHEEL = re.compile(r"[A-Za-z0-9_.+!-]{1,240}\.whl")
# no spaces: it becomes a word of a requirement
_ADDRESS = re.compile(r"https?://[!-~]+")
# those whose wheels a native compiler may come from, when nothing else is there
_OTHER_PYTHONS = [(3, minor) for minor in range(20, 5, -1)]
_SECONDS = 30.0  # to read a page
_PART = 1 << 12  # characters that are parsed between two looks at the clock
_PUBLIC_INDEX = "https://pypi.org/simple/"
_VARIABLES = ("TRIAGE_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_PIP_SETTINGS = (
    "/etc/pip.conf",
    "/etc/xdg/pip/pip.conf",
    "~/Library/Application Support/pip/pip.conf",
    "~/.pip/pip.conf",
    "~/.config/pip/pip.conf",
    f"{sys.prefix}/pip.conf",
)
_ADVICE = (
    "Installed releases and `path:DIR` work without it; set TRIAGE_INDEX_URL to "
    "another index"
)


@dataclass(frozen=True)
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
    url: str = ""
    """The address of the file, without secrets where it was stored."""
    nightly: bool = False

    @property
    def revision(self) -> Revision:
        """That of a nightly has its day. That of a release has the day of its commit,
        which is not known before it is installed.
        """
        return Revision(self.version, date=self.date if self.nightly else None)

    @property
    def is_stable(self) -> bool:
        """Whether users are meant to use it: a release that was not withdrawn."""
        is_prerelease = Version(self.version).is_prerelease
        return not (self.nightly or self.yanked or is_prerelease)


def index_url() -> Address:
    """Return the index that the user's settings name: a variable, else those of pip. If
    they name none, return the public index. Raises BadInput if pip's are damaged.
    """
    from configparser import Error, RawConfigParser

    for name in _VARIABLES:
        if os.environ.get(name):
            return Address(os.environ[name])
    settings = RawConfigParser()
    files = [Path(file).expanduser() for file in _PIP_SETTINGS]
    try:
        settings.read([*files, os.environ.get("PIP_CONFIG_FILE", "")], "utf-8")
    except (Error, UnicodeDecodeError) as error:
        raise BadInput(f"the settings of pip cannot be read: {error}") from error
    return Address(settings.get("global", "index-url", fallback=_PUBLIC_INDEX))


def host_of(url: str) -> str:
    """Return the host and port of an address, or the address itself if it is not
    valid.
    """
    address = Address(url)
    try:
        return urlsplit(address).netloc or address
    except ValueError:
        return address


@dataclass(frozen=True)
class Page:
    """A page of an index."""

    url: str
    """After redirects."""
    kind: str
    """Its content type."""
    content: bytes


@dataclass(frozen=True)
class Web:
    """Makes GET requests, and tries each once more after a broken connection or a
    server error.

    Raises Unobtainable if there is no such page or file, and EnvironmentFailure if the
    server cannot be reached, refuses, is too slow, or its answer is too long or not
    HTTP.
    """

    workspace: Workspace

    def page(self, url: Address, accept: str) -> Page:
        """Return the answer, read whole."""
        with self._response(url, {"Accept": accept}) as response:
            # requests itself reads a body without limits of time and size
            content = b"".join(self._parts(response, _LARGEST_PAGE))
            kind = response.headers.get("Content-Type", "html")
            return Page(response.url, kind, content)

    def download(self, url: Address, target: Path, name: str, max_bytes: int) -> None:
        """Download a file of at most so many bytes. `name` stands for it in
        messages.
        """
        with self._response(url, {"Accept-Encoding": "identity"}) as response:
            length = response.headers.get("Content-Length", "")
            total = int(length) if re.fullmatch("[0-9]{1,15}", length) else 0
            if total > max_bytes:
                raise EnvironmentFailure(
                    f"{name} at {host_of(url)} has {total / _MIB:.0f} MiB"
                )
            progress = self.workspace.progress
            label = f"download {name} (MiB)"
            with (
                progress.task(label, total / _MIB or None) as update,
                disk_errors(f"download {name}"),
                target.open("wb") as sink,
            ):
                for part in self._parts(response, max_bytes):
                    sink.write(part)
                    update(label, len(part) / _MIB)

    @contextmanager
    def _response(
        self, url: Address, headers: dict[str, str]
    ) -> Iterator[requests.Response]:
        """Send a request and yield the answer, whose body is read in the `with` block.
        Errors of the libraries become an EnvironmentFailure, also in the block.
        """
        import requests
        from requests.adapters import HTTPAdapter, Retry

        again = Retry(
            1,
            status_forcelist=_TRANSIENT,
            raise_on_status=False,
            respect_retry_after_header=False,
        )
        try:
            with requests.Session() as session:
                for scheme in ("http://", "https://"):
                    session.mount(scheme, HTTPAdapter(max_retries=again))
                with session.get(
                    url.full, headers=headers, timeout=_TIMEOUT, stream=True
                ) as answer:
                    _check_status(answer)
                    yield answer
        except TriageError:
            raise
        # whatever a broken connection, answer or address makes the libraries raise
        except Exception as error:
            # "... with url: /simple/?token=... (Caused by ...)"
            text = re.sub(r" with url: \S+", "", str(error) or type(error).__name__)
            raise EnvironmentFailure(
                f"cannot read {host_of(url)}: {without_secrets(text)[:300]}"
            ) from error

    def _parts(self, response: requests.Response, max_bytes: int) -> Iterator[bytes]:
        """Yield the decoded body in parts. Raises EnvironmentFailure if it is too long
        or comes too slowly.
        """
        begun = time.monotonic()
        received = 0
        host = host_of(response.url)
        # `read1` returns the bytes that are there, where `iter_content` waits until a
        # part is full.
        while part := response.raw.read1(_READ, decode_content=True):
            received += len(part)
            if received > max_bytes:
                raise EnvironmentFailure(
                    f"{host} sends more than the {max_bytes} bytes that are allowed "
                    "here"
                )
            if time.monotonic() - begun > _BODY_SECONDS + received / _SLOWEST:
                raise EnvironmentFailure(f"{host} is too slow: {received} bytes")
            pause(self.workspace.stop, 0)
            yield part


def _check_status(response: requests.Response) -> None:
    if response.status_code != 200:
        is_gone = response.status_code in (404, 410)
        raise (Unobtainable if is_gone else EnvironmentFailure)(
            f"{host_of(response.url)} answers {response.status_code} {response.reason}"
        )


def listed_releases(
    workspace: Workspace,
    address: Address,
    distribution: str,
    pythons: Sequence[PythonVersion],
    *,
    nightly: bool,
) -> tuple[Release, ...]:
    """Return all versions of a package that a page lists and that have a wheel for this
    platform, the oldest first. Yanked versions and pre-releases are included.

    `pythons` are the Python versions whose wheels are preferred, the best first. By
    default, it is this program's: a native compiler is the same in all wheels, but an
    importer written in Python runs only there.

    Raises EnvironmentFailure if the page cannot be read.
    """
    from pypi_simple import ACCEPT_JSON_PREFERRED

    ranked = (*(pythons or [sys.version_info[:2]]), *_OTHER_PYTHONS)
    best: dict[Version, tuple[int, Release]] = {}
    try:
        page = Web(workspace).page(address, ACCEPT_JSON_PREFERRED)
        for wheel in _wheels(page, distribution):
            version, rank = _version_and_rank(wheel, distribution, ranked)
            if rank < len(ranked) and (version not in best or rank < best[version][0]):
                python = "{}.{}".format(*ranked[rank])
                release = Release(
                    distribution,
                    str(version),
                    wheel.filename,
                    python,
                    _sha256(wheel),
                    _published_day(wheel, nightly=nightly),
                    wheel.is_yanked,
                    Address(wheel.url),
                    nightly,
                )
                best[version] = rank, release
    except (Interrupted, BadInput):
        raise
    except Exception as error:  # the parsers of HTML raise more than they document
        reason = without_secrets(str(error).strip() or type(error).__name__)
        raise EnvironmentFailure(
            f"cannot read {address}: {reason[:300]}. {_ADVICE}"
        ) from error
    return tuple(best[version][1] for version in sorted(best))


def _wheels(page: Page, distribution: str) -> Iterable[DistributionPackage]:
    """Return the wheels that a page in JSON or HTML lists."""
    from pypi_simple import DistributionPackage, ProjectPage
    from pypi_simple.html_stream import parse_links_stream

    if "html" in page.kind:
        parts = _within_time(page.content.decode("utf-8", "replace"))
        links = parse_links_stream(parts, page.url)
        named = (link for link in links if _WHEEL.fullmatch(link.text))
        return (DistributionPackage.from_link(link, distribution) for link in named)
    data = json.loads(page.content)
    files = [file for file in data["files"] if _WHEEL.fullmatch(file["filename"])]
    return ProjectPage.from_json_data({**data, "files": files}, page.url).packages


def _within_time(text: str) -> Iterator[str]:
    """Yield the parts of a text. Raises ValueError if reading them takes too long, such
    as for unclosed tags, for which the parser takes quadratic time.
    """
    until = time.monotonic() + _SECONDS
    for begin in range(0, len(text), _PART):
        if time.monotonic() > until:
            raise ValueError("reading it takes too long")
        yield text[begin : begin + _PART]


def _version_and_rank(
    wheel: DistributionPackage, distribution: str, pythons: Sequence[PythonVersion]
) -> tuple[Version, int]:
    """Return the version of a wheel and the index of the first version of Python that
    it is for; the number of all where it is for none, or not of the package.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.utils import canonicalize_name, parse_wheel_filename

    version = Version("0")
    with suppress(ValueError):  # the name or the bounds cannot be read
        name, version, _, tags = parse_wheel_filename(wheel.filename)
        bounds = SpecifierSet(wheel.requires_python or "")
        is_wanted = name == canonicalize_name(distribution)
        if is_wanted and _ADDRESS.fullmatch(wheel.url):
            for rank, python in enumerate(pythons):
                fits = not _tags_of(python).isdisjoint(tags)
                if fits and bounds.contains("{}.{}.99".format(*python)):
                    return version, rank
    return version, len(pythons)


@cache
def _tags_of(python: PythonVersion) -> frozenset[Tag]:
    """Return the tags of wheels that a version of Python takes on this platform."""
    from packaging.tags import compatible_tags, cpython_tags

    return frozenset((*cpython_tags(python), *compatible_tags(python)))


def _sha256(wheel: DistributionPackage) -> str | None:
    """Raises ValueError if the announced hash is not one, because it becomes a part of
    a folder's name.
    """
    digest = (wheel.digests or {}).get("sha256", "").lower()
    if digest and not _SHA256.fullmatch(digest):
        raise ValueError(f"the sha256 of {wheel.filename} is {digest[:80]!r}")
    return digest or None


def _published_day(wheel: DistributionPackage, *, nightly: bool) -> str | None:
    from triage.git_history.repository import day_in

    uploaded = wheel.upload_time
    day = uploaded.date().isoformat() if uploaded else None
    if nightly:
        day = day_in(wheel.filename.split("-")[1]) or day
    return day
