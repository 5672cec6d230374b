"""What installed compilers told of themselves, remembered as long as their files do not change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path

from triage.compilers.port import Compiler, Description
from triage.model.revision import Capabilities
from triage.toolchains.home import disk_errors, write_whole


@dataclass(frozen=True, slots=True)
class Known:
    """An installed compiler's content address and its own description."""

    identity: str
    description: Description


def describe(memory: Path, compiler: Compiler, program: Path) -> Known:
    """Ask a binary once. Keyed by path, size and time of change of the files that are the compiler, so that a rebuilt
    one is asked again. Errors: those of `Compiler.describe`.
    """
    essence = compiler.essence(program)
    key = blake2b(digest_size=16)
    for path in essence:
        stat = path.stat()
        key.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}\0".encode())
    note = memory / f"{key.hexdigest()}.json"
    try:
        return _load(note)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    known = Known(_content(essence), compiler.describe(program))
    with disk_errors("remember what a compiler can do"):
        _save(note, known)
    return known


def _content(essence: tuple[Path, ...]) -> str:
    whole = blake2b(digest_size=20)
    for path in essence:
        with path.open("rb") as source:
            whole.update(path.name.encode() + b"\0" + file_digest(source, "sha256").digest())
    return whole.hexdigest()


def _load(note: Path) -> Known:
    kept = json.loads(note.read_text())
    told = Capabilities(
        backends=frozenset(kept["backends"]),
        phases=tuple(kept["phases"]),
        dialects=frozenset(kept["dialects"]),
        flags=frozenset(kept["flags"]),
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
            "dialects": sorted(told.capabilities.dialects),
            "flags": sorted(told.capabilities.flags),
        }
    )
    write_whole(note, text)
