"""The functions of a crash's stack are named by the symbols of a real library."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from triage.model.execution import Captured, Ending, Execution
from triage.processes.crash_stack import stack_printer_address, with_named_stack

START = 0x7FFF_EA20_0000
FUNCTION = "_ZNSt6locale7classicEv"


@pytest.fixture(scope="module")
def library() -> Path:
    ctypes.CDLL("libstdc++.so.6")
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(
        Path(line.split(maxsplit=5)[5]) for line in lines if "libstdc++.so" in line
    )


@pytest.fixture(scope="module")
def function(library: Path) -> tuple[int, int]:
    """Address and size of a function in the library."""
    with library.open("rb") as source:
        [symbol] = (
            ELFFile(source).get_section_by_name(".dynsym").get_symbol_by_name(FUNCTION)
        )
        return symbol["st_value"], symbol["st_size"]


def crash(
    library: Path, *addresses: int, start: int = START, number: int = 11
) -> Execution:
    dump = [
        "before",
        "{{{reset}}}",
        f"{{{{{{module:0:{library}:elf:b2e37f8b55d98faa}}}}}}",
        f"{{{{{{mmap:0x{start:016x}:0x1000000:load:0:rx:0x{0:014x}}}}}}}",
        *(
            f"{{{{{{bt:{index}:0x{address:016x}}}}}}}"
            for index, address in enumerate(addresses)
        ),
        "after",
    ]
    text = Captured(head="kept\n", tail="\n".join(dump) + "\n", dropped=7)
    return Execution(
        ("c",), Ending.SIGNALLED, None, number, 0.1, 0.1, 1.0, Captured(), text
    )


def test_a_frame_has_the_demangled_name_and_its_place_in_the_file(
    library: Path, function: tuple[int, int]
) -> None:
    at, size = function
    named = with_named_stack(crash(library, START + at + 1, START + at + size, 0x10))
    assert named.stderr.tail.splitlines() == [
        "before",
        "Stack dump with symbol names:",
        f" #0 0x{START + at + 1:016x} std::locale::classic() ({library.name}+{at + 1:#x})",
        f" #1 0x{START + at + size:016x} std::locale::classic() ({library.name}+{at + size:#x})",
        " #2 0x0000000000000010",
        "after",
    ]
    assert (named.stderr.head, named.stderr.dropped) == ("kept\n", 7)


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + b"\xff" * 200, b"text"]
)
def test_a_file_without_symbols_leaves_places_in_the_file(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "program"
    file.write_bytes(content)
    assert (
        f" #0 0x{START + 16:016x} (program+0x10)"
        in with_named_stack(crash(file, START + 16)).stderr.tail
    )
    assert stack_printer_address(file) is None
