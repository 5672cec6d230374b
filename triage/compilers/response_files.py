"""Read the files that a user's own command line names with `@FILE`, as LLVM's tools do.
A pasted text never gets here.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from triage.compilers.recipe_input import ShellCommand
from triage.model.errors import BadInput

_LARGEST = 1 << 20  # bytes of all response files of a command line together
_DEEPEST = 10  # files that name one another


def with_files(call: ShellCommand) -> ShellCommand:
    """Return the call with the words of its response files, and with those of its words
    that are files.

    Raises BadInput if a response file is not a regular file of at most 1 MiB, or names
    others more than 10 deep.
    """
    reader = _Reader()
    words = tuple(reader.expand(call.words, Path(), 0))
    return replace(call, words=words, files=frozenset(filter(_is_file, words)))


class _Reader:
    def __init__(self) -> None:
        self.left = _LARGEST

    def expand(self, words: Sequence[str], folder: Path, depth: int) -> Iterator[str]:
        for word in words:
            if not word.startswith("@"):
                yield word
                continue
            path = folder / word[1:]
            if depth == _DEEPEST:
                raise BadInput(
                    f"the response file {path} is named by {_DEEPEST} files that name "
                    "one another"
                )
            yield from self.expand(self.words_of(path), path.parent, depth + 1)

    def words_of(self, path: Path) -> list[str]:
        if not _is_file(str(path)):
            raise BadInput(
                f"the response file {path} cannot be read: it is not a regular file"
            )
        try:
            with path.open("rb") as file:
                content = file.read(self.left + 1)
            self.left -= len(content) + 1
            if self.left < 0:
                raise BadInput(
                    f"the response file {path} is too large: at most 1 MiB is read"
                )
            return shlex.split(content.decode("utf-8", "replace"), comments=True)
        except (OSError, ValueError) as error:
            raise BadInput(
                f"the response file {path} cannot be read: {error}"
            ) from error


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long for a name, or a name with a NUL
        return False
