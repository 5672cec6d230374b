"""Name the functions on the stack of a crash, with the symbols of the program that
crashed: only these are the same in two builds.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from triage.model.execution import Captured, Execution

_PRINTER = b"_ZN4llvm3sys28PrintStackTraceOnErrorSignalENS_9StringRefEb"
_HEADER = "Stack dump with symbol names:"
_LINE = re.compile(
    r"\{\{\{(?:(?P<reset>reset)"
    r"|module:(?P<module>\w{1,8}):(?P<path>.*?):elf:\w*"
    r"|mmap:0x(?P<start>[0-9a-f]{1,16}):0x(?P<size>[0-9a-f]{1,16}):load:"
    r"(?P<loaded>\w{1,8}):\w+:(?:0x)?(?P<first>[0-9a-f]{1,16})"
    r"|bt:(?P<index>\d{1,5}):0x(?P<address>[0-9a-f]{1,16})(?::\w+)?)\}\}\}"
)
_LONGEST_NAME = 2000
_SYMBOL = [
    ("name", "<u4"),
    ("info", "u1"),
    ("other", "u1"),
    ("section", "<u2"),
    ("value", "<u8"),
    ("size", "<u8"),
]
_FUNCTION = 2  # the type of a symbol
_LOW_HALF = 1 << 32  # some releases print the low half of an address only


def with_named_stack(execution: Execution) -> Execution:
    """Replace the addresses in LLVM's stack dump by the names of functions.

    A function without a symbol is shown as an offset in its file, which another build
    of the file changes.
    """
    stderr = execution.stderr
    layout = _Layout()
    if execution.ok or "{{{" not in stderr.head + stderr.tail:
        return execution
    head = layout.with_names(stderr.head)
    tail = layout.with_names(stderr.tail)
    return replace(execution, stderr=Captured(head, tail, stderr.dropped))


def stack_printer_address(library: Path) -> int | None:
    """Return the address, by a library's symbols, of LLVM's function that makes crashes
    print their stack. Returns None if the library has no such function.
    """
    table = _symbol_table(library)
    if table:
        return table.address_of(_PRINTER)
    return None


@dataclass
class _Layout:
    """Where files are loaded in memory, by the lines of the dump that were read."""

    paths: dict[str, Path] = field(default_factory=dict)
    """Number of a module -> its file."""
    mappings: list[tuple[Path, int, int, int]] = field(default_factory=list)
    """The file of each mapping, its address and size in memory, and its address in the
    file's symbols.
    """

    def with_names(self, text: str) -> str:
        """Return a text with names in place of addresses. Lines about the layout are
        left out.
        """
        lines = []
        for line in text.split("\n"):
            match = _LINE.search(line)
            if match is None:
                lines.append(line)
            elif match["reset"]:
                self.paths = {}
                self.mappings = []
                lines.append(_HEADER)
            elif match["module"]:
                self.paths[match["module"]] = Path(match["path"])
            elif match["loaded"]:
                path = self.paths.get(match["loaded"], Path("program"))
                names = "start", "size", "first"
                start, size, first = (int(match[name], 16) for name in names)
                self.mappings.append((path, start, size, first))
            else:
                frame = self._frame_text(int(match["address"], 16))
                lines.append(f" #{match['index']} 0x{match['address']:0>16}{frame}")
        return "\n".join(lines)

    def _frame_text(self, address: int) -> str:
        """Return the function at an address and its offset in its file, as LLVM prints
        them: ` name (file+0x1f)`. Returns "" if no file is loaded there.
        """
        for path, start, size, first in self.mappings:
            offset = (address - start) % _LOW_HALF
            if offset < size:
                table = _symbol_table(path)
                name = table.name_at(first + offset) if table else ""
                return f"{name} ({path.name}+{first + offset:#x})"
        return ""


class SymbolTable:
    """The functions of an ELF file, by address."""

    def __init__(self, path: Path) -> None:
        """Read the table of a file. Raises OSError or ValueError if it has none."""
        import numpy as np
        from elftools.common.exceptions import ELFError
        from elftools.construct import ConstructError
        from elftools.elf.elffile import ELFFile

        with path.open("rb") as source:
            self._file = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
            try:
                elf = ELFFile(source)
                table = elf.get_section_by_name(".symtab")
                table = table or elf.get_section_by_name(".dynsym")
                if table is None or elf.elfclass != 64:
                    raise ValueError(f"{path} has no symbols")
                names = elf.get_section(table["sh_link"])
            except (ELFError, ConstructError) as error:
                raise ValueError(f"{path} is damaged") from error
        self._names = int(names["sh_offset"])
        self._names_size = int(names["sh_size"])
        start = int(table["sh_offset"])
        size = int(table["sh_size"])
        symbols: Any = np.frombuffer(
            self._file[start : start + size // 24 * 24], np.dtype(_SYMBOL)
        )
        is_function = (symbols["info"] & 15) == _FUNCTION
        symbols = symbols[is_function & (symbols["section"] != 0)]
        self._symbols = symbols[np.argsort(symbols["value"], kind="stable")]

    def name_at(self, address: int) -> str:
        """Return a space and the demangled name of the function at an address; "" if it
        has no symbol.

        The address behind a function counts as its last one: a call at the end of a
        function returns to it.
        """
        last = int(self._symbols["value"].searchsorted(address, side="right")) - 1
        for index in range(last, max(last - 2, -1), -1):
            symbol = self._symbols[index]
            start = int(symbol["value"])
            size = int(symbol["size"])
            if start < address <= start + size or (address == start and size):
                at = self._names + int(symbol["name"])
                name = self._file[at : at + 8 * _LONGEST_NAME].split(b"\0", 1)[0]
                return f" {_demangled(name)}"
        return ""

    def address_of(self, mangled: bytes) -> int | None:
        """Return the address of a function, if there is such a symbol."""
        end = self._names + self._names_size
        at = self._file.find(b"\0" + mangled + b"\0", self._names, end)
        has_name = self._symbols["name"] == at + 1 - self._names
        addresses = self._symbols["value"][has_name].tolist()
        if addresses:
            return int(addresses[0])
        return None


@lru_cache(maxsize=8)
def _symbol_table(path: Path) -> SymbolTable | None:
    with suppress(OSError, ValueError):
        if path.is_file():
            return SymbolTable(path)
    return None


def _demangled(name: bytes) -> str:
    """Return a name as the source has it. It is unchanged if it is not mangled, or if
    the C++ library, which compilers need as well, is missing.
    """
    text = None
    if name.startswith(b"_Z"):
        text = _demangler()(name, None, None, None)
    if not text:
        return name.decode("utf-8", "replace")[:_LONGEST_NAME]
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")[:_LONGEST_NAME]
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))


@cache
def _demangler() -> Any:
    try:
        function = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return lambda *_: None
    pointer = function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, pointer, pointer, pointer]
    return function
