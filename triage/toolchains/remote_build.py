"""A build as data: what a worker on another machine needs to make it, and the toolchain that it returns."""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from triage.execution.process import StopSignal
from triage.model.errors import EnvironmentFailure
from triage.toolchains.install_cache import MANIFEST, USE

if TYPE_CHECKING:
    from triage.toolchains.sources.build import BuildSection

_FAST = 1  # compression: a build takes minutes, its transfer should not


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """A commit to build. clone: path of the clone here, which a worker uses if it has it as well; url: where a worker fetches
    the commit otherwise; project, steps: see `SourceBuilds`.
    """

    sha: str
    clone: Path
    url: str
    project: str
    steps: BuildSection


@dataclass(frozen=True, slots=True)
class BuildAnswer:
    """What a worker returns. archive: the toolchain, with its SHA-256; failure: why the commit does not build; problem: why
    the worker could not try.
    """

    worker: str
    archive: bytes = b""
    digest: str = ""
    log: bytes = b""
    failure: str | None = None
    problem: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the archive has the bytes that the worker packed."""
        return bool(self.archive) and sha256(self.archive).hexdigest() == self.digest


class BuildWorkers(Protocol):
    """Other machines that build commits."""

    @property
    def build_slots(self) -> int:
        """How many commits they build at once."""

    def build(self, order: BuildOrder, stop: StopSignal) -> BuildAnswer:
        """Return the toolchain of a commit, or why it does not build, or why no worker could try.

        Raises:
            EnvironmentFailure: the build ended several workers, or the workers cannot be reached.
            Interrupted: `stop` is set.
        """


def packed(folder: Path) -> bytes:
    """Return an installed toolchain as an archive, without the files of the install cache."""
    import tarfile  # every command imports this module, few pack a toolchain

    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz", compresslevel=_FAST) as archive:
        for path in sorted(folder.iterdir()):
            if path.name not in (MANIFEST, USE):
                archive.add(path, path.name)
    return sink.getvalue()


def unpack(archive: bytes, folder: Path) -> None:
    """Write the files of an archive into a folder, and nowhere else.

    Raises:
        EnvironmentFailure: it is no archive, or has files for other folders.
    """
    import tarfile  # as above

    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as members:
            members.extractall(folder, filter="tar")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise EnvironmentFailure(f"the toolchain that a worker returned cannot be unpacked: {error}") from error
