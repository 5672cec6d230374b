"""What installed compilers told of themselves, remembered as long as their files do not change."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path

from triage.compilers.base import Compiler, Description
from triage.model.errors import EnvironmentFailure
from triage.model.revision import Capabilities
from triage.toolchains.home import disk_errors, write_whole

_LARGE = 16 << 20  # bytes; smaller files are read faster than remembered


@dataclass(frozen=True, slots=True)
class Known:
    """An installed compiler's content address and its own description."""

    identity: str
    description: Description


def describe(memory: Path, compiler: Compiler, program: Path) -> Known:
    """Ask a binary once. Keyed by path, size and time of change of the files that are the compiler, so that a rebuilt
    one is asked again.

    Raises:
        EnvironmentFailure: files of it went away since it was found; and what `Compiler.describe` raises.
    """
    try:
        files = compiler.identity_files(program)
        note = memory / f"{_face(files)}.json"
    except FileNotFoundError as error:
        raise EnvironmentFailure(f"{error.filename or program} of a compiler is gone; install it again") from error
    try:
        return _load(note)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with disk_errors("remember what a compiler can do"), ThreadPoolExecutor(1) as pool:
        content = pool.submit(_content, memory, files)  # reading a large library takes as long as the questions
        description = compiler.describe(program)
        known = Known(content.result(), description)
        _save(note, known)
    return known


def _content(memory: Path, essence: tuple[Path, ...]) -> str:
    whole = blake2b(digest_size=20)
    for path in essence:
        whole.update(path.name.encode() + b"\0" + _digest(memory, path))
    return whole.hexdigest()


def _digest(memory: Path, path: Path) -> bytes:
    """The SHA-256 of a file, remembered where that is worth it: compilers of many commits may share one large library."""
    note = memory / f"{_face((path,))}.sha256"
    with suppress(OSError, ValueError):
        return bytes.fromhex(note.read_text())
    with path.open("rb") as source:
        digest = file_digest(source, "sha256").digest()
    if path.stat().st_size >= _LARGE:
        write_whole(note, digest.hex())
    return digest


def _face(files: tuple[Path, ...]) -> str:
    """What changes when a file is written anew, without a look inside."""
    key = blake2b(digest_size=16)
    for path in files:
        stat = path.stat()
        key.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}\0".encode())
    return key.hexdigest()


def _load(note: Path) -> Known:
    kept = json.loads(note.read_text())
    told = Capabilities(
        backends=frozenset(kept["backends"]),
        phases=tuple(kept["phases"]),
        flags=frozenset(kept["flags"]),
        switches=frozenset(kept["switches"]),
        choices={name: tuple(words) for name, words in kept["choices"].items()},
    )
    return Known(kept["identity"], Description(kept["version"], kept["commit"], kept["date"], told))


def _save(note: Path, known: Known) -> None:
    told = known.description
    text = json.dumps(
        {
            "identity": known.identity,
            "version": told.version,
            "commit": told.commit,
            "date": told.date,
            "backends": sorted(told.capabilities.backends),
            "phases": told.capabilities.phases,
            "flags": sorted(told.capabilities.flags),
            "switches": sorted(told.capabilities.switches),
            "choices": {name: list(words) for name, words in told.capabilities.choices.items()},
        }
    )
    write_whole(note, text)
