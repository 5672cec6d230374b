"""The functions of a crash's stack are named by the symbols of a real library."""

from __future__ import annotations

import ctypes
from pathlib import Path

import psutil
import pytest
from elftools.elf.elffile import ELFFile

from triage.model.execution import Captured, Ending, Execution
from triage.processes.crash_stack import stack_printer_address, with_named_stack

START = 0x7FFF_EA20_0000
FUNCTION = "_ZNSt6locale7classicEv"
DUMP = """before
{{{reset}}}
{{{module:0:FILE:elf:b2e37f8b55d98faa}}}
{{{mmap:0x00007fffea200000:0x1000000:load:0:rx:0x00000000000000}}}
FRAMES
after
"""


def named_stack(file: Path, *addresses: int) -> Captured:
    """Return what is printed of a crash with these addresses on the stack."""
    frames = "\n".join(
        f"{{{{{{bt:{index}:{address:#018x}}}}}}}"
        for index, address in enumerate(addresses)
    )
    tail = DUMP.replace("FILE", str(file)).replace("FRAMES", frames)
    printed = Captured("kept\n", tail, 7)
    crash = Execution(("c",), Ending.SIGNALLED, signal=11, stderr=printed)
    return with_named_stack(crash).stderr


def test_a_frame_has_the_demangled_name_and_its_place_in_the_file() -> None:
    ctypes.CDLL("libstdc++.so.6")
    maps = [Path(area.path) for area in psutil.Process().memory_maps()]
    library = next(path for path in maps if "libstdc++.so" in path.name)
    with library.open("rb") as source:
        table = ELFFile(source).get_section_by_name(".dynsym")
        [symbol] = table.get_symbol_by_name(FUNCTION)
    first = symbol["st_value"] + 1
    last = symbol["st_value"] + symbol["st_size"]
    named = named_stack(library, START + first, START + last, 0x10)
    name = "std::locale::classic()"
    assert named.tail.splitlines() == [
        "before",
        "Stack dump with symbol names:",
        f" #0 0x{START + first:016x} {name} ({library.name}+{first:#x})",
        f" #1 0x{START + last:016x} {name} ({library.name}+{last:#x})",
        " #2 0x0000000000000010",
        "after",
    ]
    assert (named.head, named.dropped) == ("kept\n", 7)


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + b"\xff" * 200, b"text"]
)
def test_a_file_without_symbols_leaves_places_in_the_file(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "program"
    file.write_bytes(content)
    frame = f" #0 0x{START + 16:016x} (program+0x10)"
    assert frame in named_stack(file, START + 16).tail
    assert stack_printer_address(file) is None
