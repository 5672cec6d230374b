"""The source file of a pass, looked up in a clone of the compiler at the commit of the failing side."""

from __future__ import annotations

import re
from collections.abc import Mapping

from triage.attribute.reading import PassName
from triage.timeline import Repository
from triage.timeline.repository import GitRefused

_SOURCES = ("*.cpp", "*.cc", "*.h")
_IDENTIFIER = re.compile(r"\w+")


def files_of(
    by: PassName, repository: Repository | None, commit: str | None, known: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Paths relative to the repository: the file that defines the pass, then those `known` to hold its decisions.

    Empty where there is no clone, or the pass comes from a dependency and not from this repository.
    """
    beside = known.get(by.name, ())
    if repository is None or commit is None or not _IDENTIFIER.fullmatch(by.name):
        return ()
    try:
        beside = tuple(path for path in beside if _exists(path, repository, commit))
    except GitRefused:  # a clone that lacks the commit
        return ()
    own = _defined(by.name, repository, commit)
    return tuple(dict.fromkeys((*own, *beside)))


def _defined(name: str, repository: Repository, commit: str) -> tuple[str, ...]:
    """The files with the class of a pass, which is called with or without `Pass` at its end."""
    stem = name.removesuffix("Pass")
    pattern = rf"^ *(struct|class) +{stem}(Pass)?( final| *:|$| *\{{)"
    found = _grep(repository, commit, pattern)
    wanted = stem.lower()
    # The pass's own file is mostly called like it.
    return tuple(sorted(found, key=lambda path: path.rsplit("/", 1)[-1].partition(".")[0].lower() != wanted))


def _grep(repository: Repository, commit: str, pattern: str) -> tuple[str, ...]:
    try:
        told = repository.ask("grep", "--name-only", "-I", "-z", "-E", "-e", pattern, commit, "--", *_SOURCES)
    except GitRefused:  # its way of saying that no line matches, too
        return ()
    return tuple(path.partition(":")[2] for path in told.decode("utf-8", "replace").split("\0") if path)[:5]


def _exists(path: str, repository: Repository, commit: str) -> bool:
    return bool(repository.ask("ls-tree", "--name-only", commit, "--", path).strip())
