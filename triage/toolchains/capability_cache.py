"""The capability cache: what installed compilers report about themselves, kept as long as their files do not change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

from triage.compilers.base import Compiler, Description
from triage.model.errors import EnvironmentFailure
from triage.model.revision import Capabilities
from triage.toolchains.home import disk_errors
from triage.toolchains.workspace import StateStore

_LARGE = 16 << 20  # bytes; the digests of smaller files are computed again, which is faster than a transaction


@dataclass(frozen=True, slots=True)
class DescribedCompiler:
    """An installed compiler's content address and its own description."""

    identity: str
    description: Description


def describe(state: StateStore, compiler: Compiler, program: Path) -> DescribedCompiler:
    """Query a compiler, once for each content. The key is made of path, size, time of change and inode of its files, so that
    a rebuilt compiler is queried again.

    Raises:
        EnvironmentFailure: files of the compiler are missing; and what `Compiler.describe` raises.
    """
    section = state.section("capabilities")
    try:
        files = compiler.identity_files(program)
        key = _stamp(files)
    except FileNotFoundError as error:
        raise EnvironmentFailure(f"{error.filename or program} of the compiler is missing; install it again") from error
    try:
        return _from_json(section.get(key))
    except (KeyError, TypeError, ValueError, AttributeError):  # none, or of an earlier version of the program
        pass
    with disk_errors("read the files of a compiler"), ThreadPoolExecutor(1) as pool:
        identity = pool.submit(_identity, state, files)  # reading a large library takes as long as the queries
        description = compiler.describe(program)
        known = DescribedCompiler(identity.result(), description)
    section.put(key, _to_json(known))
    return known


def _identity(state: StateStore, files: tuple[Path, ...]) -> str:
    """A digest of all files. Those of large files are stored, because compilers of many commits may share one library."""
    whole, digests = blake2b(digest_size=20), state.section("file digests")
    for path in files:
        is_large, key = path.stat().st_size >= _LARGE, _stamp((path,))
        digest = digests.get(key) if is_large else None
        if digest is None:
            with path.open("rb") as source:
                digest = file_digest(source, "sha256").hexdigest()
            if is_large:
                digests.put(key, digest)
        whole.update(path.name.encode() + b"\0" + bytes.fromhex(digest))
    return whole.hexdigest()


def _stamp(files: tuple[Path, ...]) -> str:
    """A digest that changes when one of the files is written, without reading them."""
    key = blake2b(digest_size=16)
    for path in files:
        stat = path.stat()
        key.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}\0".encode())
    return key.hexdigest()


def _from_json(value: Any) -> DescribedCompiler:
    capabilities = Capabilities(
        backends=frozenset(_texts(value["backends"])),
        phases=_texts(value["phases"]),
        flags=frozenset(_texts(value["flags"])),
        switches=frozenset(_texts(value["switches"])),
        choices={name: _texts(words) for name, words in value["choices"].items()},
        stack_printer=None if (address := value["stack_printer"]) is None else int(address),
    )
    version, commit, date = value["version"], value["commit"], value["date"]
    _texts([value["identity"], *(text for text in (version, commit, date) if text is not None)])
    return DescribedCompiler(value["identity"], Description(version, commit, date, capabilities))


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise TypeError(f"no list of texts: {value!r}")
    return tuple(value)


def _to_json(known: DescribedCompiler) -> dict[str, Any]:
    description, capabilities = known.description, known.description.capabilities
    return {
        "identity": known.identity,
        "version": description.version,
        "commit": description.commit,
        "date": description.date,
        "backends": sorted(capabilities.backends),
        "phases": capabilities.phases,
        "flags": sorted(capabilities.flags),
        "switches": sorted(capabilities.switches),
        "choices": {name: list(words) for name, words in capabilities.choices.items()},
        "stack_printer": capabilities.stack_printer,
    }
