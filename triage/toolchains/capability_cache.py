"""The capability cache: what installed compilers report about themselves, kept as long as their files do not change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path

from triage.compilers.base import Compiler, Description
from triage.model.errors import EnvironmentFailure
from triage.toolchains.home import disk_errors
from triage.toolchains.workspace import Workspace


@dataclass(frozen=True, slots=True)
class DescribedCompiler:
    """An installed compiler's content address and its own description."""

    identity: str
    description: Description


def describe(workspace: Workspace, compiler: Compiler, program: Path) -> DescribedCompiler:
    """Query a compiler, once for each content of its files.

    Raises:
        EnvironmentFailure: files of the compiler are missing; and what `Compiler.describe` raises.
    """
    from pydantic import TypeAdapter  # slow to import

    adapter, section = TypeAdapter(DescribedCompiler), workspace.state("capabilities")
    try:
        files = compiler.identity_files(program)
        key = _stamp(files)
    except FileNotFoundError as error:
        raise EnvironmentFailure(f"{error.filename or program} of the compiler is missing; install it again") from error
    with suppress(ValueError):  # none, or of an earlier version of the program
        return adapter.validate_python(section.get(key))
    with disk_errors("read the files of a compiler"), ThreadPoolExecutor(1) as pool:
        identity = pool.submit(_identity, files)  # reading a large library takes as long as the queries
        description = compiler.describe(program)
        known = DescribedCompiler(identity.result(), description)
    section.put(key, adapter.dump_python(known, mode="json"))
    return known


def _identity(files: tuple[Path, ...]) -> str:
    """Return a digest of the names and contents of all files."""
    whole = blake2b(digest_size=20)
    for path in files:
        with path.open("rb") as source:
            whole.update(path.name.encode() + b"\0" + file_digest(source, "sha256").digest())
    return whole.hexdigest()


def _stamp(files: tuple[Path, ...]) -> str:
    """Return a digest that changes when one of the files is written, without reading them."""
    key = blake2b(digest_size=16)
    for path in files:
        stat = path.stat()
        key.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}\0".encode())
    return key.hexdigest()
