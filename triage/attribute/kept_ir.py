"""Keep what the passes of a compile changed, because to print the IR after each pass
takes many times as long as the compile.

The fingerprints of the dumps are kept, and not the answer: another release is compared
with the same dumps, and a better comparison applies to old ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache
from hashlib import blake2b
from inspect import getsourcefile
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.invocation import Invocation
from triage.execution.task import Task
from triage.mlir import fingerprint, generic_form, ir_reader, tree
from triage.mlir.fingerprint import Fingerprint, Vocabulary
from triage.mlir.ir_reader import IrDump
from triage.model import pass_name
from triage.model.execution import Ending
from triage.toolchains.home import Home, KeptKind, save_file

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_MOST_FUNCTIONS = 20_000  # in the dumps of a compile that is kept
_READERS = (ir_reader, fingerprint, generic_form, tree, pass_name)


@dataclass(frozen=True, slots=True)
class PrintedIr:
    """The dumps of one compile, in order."""

    dumps: Sequence[IrDump]
    ending: Ending
    passed: bool
    """Whether the program compiled."""

    @property
    def is_kept(self) -> bool:
        """Whether the compile reached its own end, and its dumps are not too many."""
        functions = sum(len(dump.module.functions) for dump in self.dumps)
        ended = self.ending in (Ending.EXITED, Ending.SIGNALLED)
        return ended and functions <= _MOST_FUNCTIONS


class IrCollector:
    """Collects the dumps of one compile."""

    def __init__(self) -> None:
        self.dumps: list[IrDump] = []
        self._last: dict[str, Fingerprint] = {}

    def add(self, dump: IrDump) -> None:
        """Add a dump. A function that has not changed takes no more memory."""
        functions = dump.module.functions
        for name, meaning in functions.items():
            if self._last.get(name) == meaning:
                functions[name] = self._last[name]
            else:
                self._last[name] = meaning
        self.dumps.append(dump)


class KeptIr:
    """The IR that earlier compiles printed. A damaged file counts as missing."""

    def __init__(self, home: Home) -> None:
        self._folder = home.kept(KeptKind.IR)

    def find(self, key: str) -> PrintedIr | None:
        with suppress(OSError, ValueError):
            return _adapter().validate_json(self._file(key).read_bytes())
        return None

    def add(self, key: str, printed: PrintedIr) -> None:
        if printed.is_kept:
            save_file(self._file(key), _adapter().dump_json(printed), "keep IR")

    def _file(self, key: str) -> Path:
        digest = blake2b(key.encode("utf-8", "replace"), digest_size=12)
        return self._folder / f"{digest.hexdigest()}.json"


def key_of_ir(task: Task, printing: Invocation, words: Vocabulary) -> str:
    """Return the content key of what a compile prints and of how it is read."""
    variables = sorted(f"{name}={value}" for name, value in printing.env.items())
    parts = [task.key, *printing.printing, *variables, _canonical(astuple(words))]
    return "\0".join([*parts, _reader_digest()])


def _canonical(value: object) -> str:
    """Return a text that is equal for equal values: sets and mappings have no order."""
    if isinstance(value, re.Pattern):
        return repr((value.pattern, value.flags))
    if isinstance(value, frozenset):
        return repr(sorted(map(_canonical, value)))
    if isinstance(value, Mapping):
        pairs = [(_canonical(name), _canonical(each)) for name, each in value.items()]
        return repr(sorted(pairs))
    if isinstance(value, tuple):
        return repr([_canonical(each) for each in value])
    return repr(value)


@cache
def _reader_digest() -> str:
    """Return a digest of the modules that read IR: others may read it differently."""
    digest = blake2b(digest_size=16)
    for module in _READERS:
        source = getsourcefile(module)
        if source:
            digest.update(Path(source).read_bytes())
    return digest.hexdigest()


@cache
def _adapter() -> TypeAdapter[PrintedIr]:
    from pydantic import TypeAdapter  # slow to import

    return TypeAdapter(PrintedIr)
