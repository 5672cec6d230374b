"""Name the functions on the stack of a crash, by the symbols in the files of the
program that crashed.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from triage.model.execution import Captured, Execution

# LLVM's handler of signals prints where each library is loaded and the addresses on the
# stack. Its own search for names takes longer than a compile, needs a program of LLVM,
# and knows only exported functions without it.
PRINT_ADDRESSES = {
    "LLVM_DISABLE_SYMBOLIZATION": "1",
    "LLVM_ENABLE_SYMBOLIZER_MARKUP": "1",
}

_ADDRESSES = b"LLVM_ENABLE_SYMBOLIZER_MARKUP"
_PRINTER = b"_ZN4llvm3sys28PrintStackTraceOnErrorSignalENS_9StringRefEb"
_RESET = "{{{reset}}}"
_HEADER = "Stack dump with symbol names:"
_MODULE = re.compile(r"\{\{\{module:(?P<id>\w{1,8}):(?P<path>.*?):elf:\w*\}\}\}")
_MAPPED = re.compile(
    r"\{\{\{mmap:0x(?P<start>[0-9a-f]{1,16}):0x(?P<size>[0-9a-f]{1,16}):load:"
    r"(?P<id>\w{1,8}):\w+:(?:0x)?(?P<at>[0-9a-f]{1,16})\}\}\}"
)
_FRAME = re.compile(
    r"\{\{\{bt:(?P<index>\d{1,5}):0x(?P<address>[0-9a-f]{1,16})(?::\w+)?\}\}\}"
)
_MOST_FRAMES = 300
_LONGEST_NAME = 2000
_FUNCTION = 2  # the type of a symbol
_LOW = 1 << 32  # some releases print the low half of an address only


def with_named_stack(execution: Execution) -> Execution:
    """Replace the addresses of LLVM's stack dump, if there is one, by the names of
    functions.

    A function without a symbol gets its place in its file, which is the same in each
    run of that file only.
    """
    stderr, layout = execution.stderr, _Layout({}, [])
    if execution.ok or (_RESET not in stderr.head and _RESET not in stderr.tail):
        return execution
    head, tail = (
        "\n".join(_named(text.split("\n"), layout))
        for text in (stderr.head, stderr.tail)
    )
    return replace(execution, stderr=Captured(head, tail, stderr.dropped))


def stack_printer(library: Path) -> int | None:
    """Return the address, in a library's symbols, of LLVM's function that makes crashes
    print their stack.

    None if it has no such function, or if LLVM is too old to print addresses.
    """
    table = _table(library)
    if table and table.find(_ADDRESSES) >= 0:
        return table.address_of(_PRINTER)
    return None


class _Layout(NamedTuple):
    """Where files are loaded, as far as it was read."""

    paths: dict[str, str]
    """By the number of the module."""
    mappings: list[tuple[str, int, int, int]]
    """A file, the address and the size of a part of it in memory, and the address of
    that part in the file's symbols.
    """


def _named(lines: Iterable[str], layout: _Layout) -> Iterator[str]:
    for line in lines:
        if "{{{" not in line:
            yield line
        elif _RESET in line:
            layout.paths.clear()
            layout.mappings.clear()
            yield _HEADER
        elif match := _MODULE.search(line):
            layout.paths[match["id"]] = match["path"]
        elif match := _MAPPED.search(line):
            start, size, at = (int(match[name], 16) for name in ("start", "size", "at"))
            layout.mappings.append((layout.paths.get(match["id"], ""), start, size, at))
        elif match := _FRAME.search(line):
            index = int(match["index"])
            if index < _MOST_FRAMES:
                yield (
                    f" #{index} 0x{match['address']:0>16}"
                    f"{_place(int(match['address'], 16), layout)}"
                )
        else:
            yield line


def _place(address: int, layout: _Layout) -> str:
    """Return the name of the function and its place in its file, as LLVM prints
    them.
    """
    for file, start, size, first in layout.mappings:
        offset = (address - start) % _LOW
        if offset < size:
            table = _table(Path(file))
            if table:
                name = table.name_at(first + offset)
            else:
                name = None
            return (
                f" {f'{name} ' if name else ''}({Path(file).name or 'program'}+"
                f"{first + offset:#x})"
            )
    return ""


class SymbolTable:
    """The functions of an ELF file, by address."""

    def __init__(self, path: Path) -> None:
        """Read the table of a file.

        Raises:
            OSError, ValueError: the file cannot be read or has no symbols.
        """
        import numpy as np
        from elftools.common.exceptions import ELFError
        from elftools.construct import ConstructError
        from elftools.elf.elffile import ELFFile

        self._path = path
        with path.open("rb") as source:
            try:
                elf = ELFFile(source)
                section = elf.get_section_by_name(".symtab") or elf.get_section_by_name(
                    ".dynsym"
                )
                if section is None or elf.elfclass != 64:
                    raise ValueError(f"{path} has no symbols")
                names = elf.get_section(section["sh_link"])
            except (ELFError, ConstructError) as error:
                raise ValueError(f"{path} is damaged") from error
            self._names = int(names["sh_offset"])
            self._names_size = int(names["sh_size"])
            kind = [
                ("name", "<u4"),
                ("info", "u1"),
                ("other", "u1"),
                ("section", "<u2"),
                ("value", "<u8"),
                ("size", "<u8"),
            ]
            source.seek(section["sh_offset"])
            data = source.read(section["sh_size"])
        symbols: Any = np.frombuffer(data[: len(data) // 24 * 24], np.dtype(kind))
        symbols = symbols[
            ((symbols["info"] & 15) == _FUNCTION) & (symbols["section"] != 0)
        ]
        self._symbols = symbols[np.argsort(symbols["value"], kind="stable")]

    def name_at(self, address: int) -> str | None:
        """Return the demangled name of the function that contains an address, if a
        symbol covers it.

        A call that is the last instruction of a function returns to the address behind
        it. The end is still counted in.
        """
        last = int(self._symbols["value"].searchsorted(address, side="right")) - 1
        for index in range(last, max(last - 2, -1), -1):
            symbol = self._symbols[index]
            start, size = int(symbol["value"]), int(symbol["size"])
            if start < address <= start + size or (address == start and size):
                with self._path.open("rb") as source:
                    source.seek(self._names + int(symbol["name"]))
                    return _demangled(source.read(8 * _LONGEST_NAME).split(b"\0", 1)[0])
        return None

    def find(self, text: bytes, *area: int) -> int:
        """Return where a text is in the file, or in an area of it; -1 if it is not
        there.
        """
        with (
            self._path.open("rb") as source,
            mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return data.find(text, *area)

    def address_of(self, mangled: bytes) -> int | None:
        """Return the address of a function, if there is such a symbol."""
        at = self.find(
            b"\0" + mangled + b"\0", self._names, self._names + self._names_size
        )
        if at < 0:
            matches = []
        else:
            matches = self._symbols["value"][
                self._symbols["name"] == at + 1 - self._names
            ].tolist()
        if matches:
            return int(matches[0])
        return None


@lru_cache(maxsize=8)
def _table(path: Path) -> SymbolTable | None:
    with suppress(OSError, ValueError):
        if path.is_file():
            return SymbolTable(path)
    return None


def _demangled(name: bytes) -> str:
    """Return the name as it is in the source; unchanged where it is not mangled or the
    C++ library is missing.
    """
    demangle = _demangler()
    if demangle and name.startswith(b"_Z"):
        text = demangle(name, None, None, None)
    else:
        text = None
    if not text:
        return name.decode("utf-8", "replace")[:_LONGEST_NAME]
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")[:_LONGEST_NAME]
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))


@cache
def _demangler() -> Any:
    """Return the demangler of the C++ library, which every compiler here needs, too, if
    it is installed.
    """
    try:
        function = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    return function
