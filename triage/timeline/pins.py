"""Which commit of another project a commit was built with: a submodule's pointer, or a file that holds a sha."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from triage.timeline.log import POINTERS, read_pointers
from triage.timeline.repository import Repository

_GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class PinMove:
    """One commit that moved a pin, such as an integration of LLVM. None: there was no such pin before, or is none after."""

    path: str
    before: str | None
    after: str | None


def read_moves(repository: Repository, shas: Iterable[str], path: str) -> dict[str, PinMove]:
    """The moves of the pin at `path` by commit; commits that left it alone are missing."""
    answer = repository.ask(*POINTERS, "--", f":(top,literal){path}", lines=list(shas))
    return {
        sha: PinMove(path, _pinned(repository, old_mode, old), _pinned(repository, new_mode, new))
        for sha, changes in read_pointers(answer.decode("utf-8", "replace")).items()
        for changed, old_mode, new_mode, old, new in changes
        if changed == path
    }


def read_pin(repository: Repository, sha: str, path: str) -> str | None:
    """What a commit pins at `path`; None when there is nothing."""
    answer = repository.ask("ls-tree", "-z", sha, "--", f":(top,literal){path}").decode("utf-8", "replace")
    if not answer:
        return None
    mode, _, pointed = answer.partition("\t")[0].split(" ")
    return _pinned(repository, mode, pointed)


def _pinned(repository: Repository, mode: str, pointed: str) -> str | None:
    if set(mode) == {"0"}:
        return None
    if mode == _GITLINK:
        return pointed
    words = repository.ask("cat-file", "blob", pointed).decode("utf-8", "replace").split()
    return words[0] if words else None
