"""Name the functions on the stack of a crash, with the symbols of the program that
crashed.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from triage.model.execution import Captured, Execution

# These variables make LLVM's signal handler print the addresses on the stack and where
# each library is loaded. By default it searches for names, which takes longer than a
# compile and needs a program of LLVM.
PRINT_ADDRESSES = {
    "LLVM_DISABLE_SYMBOLIZATION": "1",
    "LLVM_ENABLE_SYMBOLIZER_MARKUP": "1",
}

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
    """Replace the addresses in LLVM's stack dump by the names of functions.

    A function without a symbol is shown as an offset in its file, which another build
    of the file changes.
    """
    stderr, layout = execution.stderr, _Layout({}, [])
    if execution.ok or (_RESET not in stderr.head and _RESET not in stderr.tail):
        return execution
    head = "\n".join(_named(stderr.head.split("\n"), layout))
    tail = "\n".join(_named(stderr.tail.split("\n"), layout))
    return replace(execution, stderr=Captured(head, tail, stderr.dropped))


def stack_printer(library: Path) -> int | None:
    """Return the address, by a library's symbols, of LLVM's function that makes crashes
    print their stack. Returns None if the library has no such function.
    """
    table = _table(library)
    if table is None:
        return None
    return table.address_of(_PRINTER)


class _Layout(NamedTuple):
    """Where files are loaded in memory, by the lines of the dump that were read."""

    paths: dict[str, str]
    """Number of a module -> its file."""
    mappings: list[tuple[str, int, int, int]]
    """The file of each mapping, its address and size in memory, and its address in the
    file's symbols.
    """


def _named(lines: Iterable[str], layout: _Layout) -> Iterator[str]:
    """Yield lines with names in place of addresses. Lines about the layout are left
    out, and change `layout`.
    """
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
                address = match["address"]
                place = _function_at(int(address, 16), layout)
                yield f" #{index} 0x{address:0>16}{place}"
        else:
            yield line


def _function_at(address: int, layout: _Layout) -> str:
    """Return the function at an address and its offset in its file, as LLVM prints
    them: ` name (file+0x1f)`. Returns "" if no file is loaded there.
    """
    for file, start, size, first in layout.mappings:
        offset = (address - start) % _LOW
        if offset < size:
            in_file = first + offset
            table = _table(Path(file))
            name = table.name_at(in_file) if table else None
            place = f"({Path(file).name or 'program'}+{in_file:#x})"
            return f" {name} {place}" if name else f" {place}"
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
        """Return the demangled name of the function at an address, if it has a symbol.

        The address behind a function counts as its last one: a call at the end of a
        function returns to it.
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

    def address_of(self, mangled: bytes) -> int | None:
        """Return the address of a function, if there is such a symbol."""
        with self._path.open("rb") as source:
            source.seek(self._names)
            position = source.read(self._names_size).find(b"\0" + mangled + b"\0")
        has_name = self._symbols["name"] == position + 1
        addresses = self._symbols["value"][has_name].tolist()
        if position < 0 or not addresses:
            return None
        return int(addresses[0])


@lru_cache(maxsize=8)
def _table(path: Path) -> SymbolTable | None:
    with suppress(OSError, ValueError):
        if path.is_file():
            return SymbolTable(path)
    return None


def _demangled(name: bytes) -> str:
    """Return a name as the source has it. It is unchanged if it is not mangled, or if
    the C++ library is missing.
    """
    demangle = _demangler()
    text = None
    if demangle and name.startswith(b"_Z"):
        text = demangle(name, None, None, None)
    if not text:
        return name.decode("utf-8", "replace")[:_LONGEST_NAME]
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")[:_LONGEST_NAME]
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))


@cache
def _demangler() -> Any:
    """Return the demangler of the C++ library, if that is installed. Compilers need the
    library, too.
    """
    try:
        function = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return None
    pointer = function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, pointer, pointer, pointer]
    return function
