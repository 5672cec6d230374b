"""The files that a program reads although no argument hands them over: those that its
options name, and those next to its input that the input mentions, such as weights,
headers and modules.

A sealed program can read no others, and all of them are in the key of its result. What
else a recipe needs, it names under `reads`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path

from triage.model.execution import Execution
from triage.model.outcome import Cause, NoAnswer
from triage.processes.sealing import Seal

_PATH = re.compile(r"/[^,;:='\"\s]+")
# Bytes of a file that is searched for names. A model that keeps its weights in other
# files is smaller.
_LARGEST = 64 << 20
_MOST_FILES = 1000  # and folders below a folder that an input mentions
_MODULE = "__init__.py"
# a path in a text, part by part; a name ends where no letter or digit follows, so that
# a path to a file mentions no folder
_WORD = re.compile(rb"[\w.-]+(?:/(?!\w))?")
_END = re.compile(rb"\W")
_OF_THIS_MACHINE = re.compile(r"\b(?:host|native)\b")
_REFUSAL = re.compile(
    r"permission denied|not permitted|PermissionError|\bE(?:ACCES|PERM)\b",
    re.IGNORECASE,
)


def files_in(words: Iterable[str]) -> list[Path]:
    """Return the files and folders whose absolute paths stand in words of a command,
    such as `--parameters=model=/data/weights.irpa`.
    """
    paths: dict[Path, None] = {}
    for word in words:
        for match in _PATH.finditer(word):
            path = Path(match[0])
            with suppress(OSError):
                if len(path.parts) > 1 and path.exists():
                    paths[path] = None
    return list(paths)


def mentioned_by(source: Path) -> list[Path]:
    """Return the files next to a program that it mentions, and that these mention.
    Links do not count. Raises OSError if the program cannot be read.

    A name with other characters than a word, a dot or a hyphen may also stand within a
    word.
    """
    siblings = _names_in_folder(source.parent)
    mentioned: dict[Path, None] = {}
    pending = [source]
    while pending:
        file = pending.pop()
        text = b""
        if file.stat().st_size <= _LARGEST:
            text = file.read_bytes()
        words = set(_WORD.findall(text))
        for word in list(words):
            words.update(word[: end.start()] for end in _END.finditer(word))
        for name, path in list(siblings.items()):
            if name not in words and (_WORD.fullmatch(name) or name not in text):
                continue
            del siblings[name]
            if path in mentioned or path == source:
                continue
            files = _files_below(path)
            mentioned.update(dict.fromkeys(files))
            pending += [file for file in files if file.suffix in (".py", path.suffix)]
    return sorted(mentioned)


def _names_in_folder(folder: Path) -> dict[bytes, Path]:
    """Return the files and packages of a folder by the names that programs mention: a
    module without its ending.
    """
    names: dict[bytes, Path] = {}
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.is_symlink() or entry.name.startswith((".", "__")):
            continue
        path = folder / entry.name
        if entry.is_dir():
            names[f"{path.name}/".encode()] = path
            if (path / _MODULE).is_file():
                names[path.name.encode()] = path
        elif entry.is_file():
            name = path.stem if path.suffix == ".py" else path.name
            names[name.encode()] = path
    return names


def _files_below(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    below = list(islice(path.rglob("*"), _MOST_FILES + 1))
    if len(below) > _MOST_FILES:
        return []
    return [
        file
        for file in below
        if file.is_file() and not file.is_symlink() and "__pycache__" not in file.parts
    ]


def surroundings(options: Sequence[str], *, uses_processor: bool) -> list[str]:
    """Return what a program may read of the machine, for a key: the C library stands
    for the system's own files.
    """
    parts = [os.confstr("CS_GNU_LIBC_VERSION") or ""]
    if uses_processor or any(map(_OF_THIS_MACHINE.search, options)):
        parts.append(processor())
    return parts


def what_was_refused(execution: Execution, seal: Seal) -> str | None:
    """Return the path that a failed program wanted and may not have, by what it
    printed, else the line that says so. None if nothing that it printed speaks of
    permission.
    """
    text = f"{execution.stderr.text}\n{execution.stdout.text}"
    lines = [line.strip() for line in text.splitlines() if _REFUSAL.search(line)]
    for line in lines:
        for match in _PATH.finditer(line):
            path = Path(match[0])
            with suppress(OSError):
                # it may be missing, because the program wanted to write it
                if path.parent.is_dir() and not seal.may_read(path):
                    return str(path)
    if lines:
        return lines[0][:300]
    return None


def undeclared_read(refused: str) -> NoAnswer:
    """Return the answer for a program that wants what its seal refuses: a path, or the
    line that it printed.
    """
    if refused.startswith("/"):
        advice = f"add `reads: [{refused}]` to a recipe, or pass --unsealed"
        return NoAnswer(Cause.UNDECLARED, f"it wants {refused}: {advice}")
    problem = (
        f"its seal refused something: {refused}; pass --unsealed to run it without"
    )
    return NoAnswer(Cause.UNDECLARED, problem)


@cache
def processor() -> str:
    """Return the lines of /proc/cpuinfo that describe what the processor can do."""
    names = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU part")
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text("utf-8", "replace").split("\n\n")[0]
        lines = first.splitlines()
        return "\n".join(line for line in lines if line.partition("\t")[0] in names)
    return ""
