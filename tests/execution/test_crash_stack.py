"""The functions of a crash's stack are named by the symbols of a real library."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from triage.execution.crash_stack import lacks_names, stack_printer, with_named_stack
from triage.model.execution import Captured, Ending, Execution

START = 0x7FFF_EA20_0000
FUNCTION = "_ZNSt6locale7classicEv"


@pytest.fixture(scope="module")
def library() -> Path:
    ctypes.CDLL("libstdc++.so.6")
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(Path(line.split(maxsplit=5)[5]) for line in lines if "libstdc++.so" in line)


@pytest.fixture(scope="module")
def function(library: Path) -> tuple[int, int]:
    """Address and size of a function in the library."""
    with library.open("rb") as source:
        [symbol] = ELFFile(source).get_section_by_name(".dynsym").get_symbol_by_name(FUNCTION)
        return symbol["st_value"], symbol["st_size"]


def crash(library: Path, *addresses: int, start: int = START, number: int = 11) -> Execution:
    dump = [
        "before",
        "{{{reset}}}",
        f"{{{{{{module:0:{library}:elf:b2e37f8b55d98faa}}}}}}",
        f"{{{{{{mmap:0x{start:016x}:0x1000000:load:0:rx:0x{0:014x}}}}}}}",
        *(f"{{{{{{bt:{index}:0x{address:016x}}}}}}}" for index, address in enumerate(addresses)),
        "after",
    ]
    text = Captured(head="kept\n", tail="\n".join(dump) + "\n", dropped=7)
    return Execution(("c",), Ending.SIGNALLED, None, number, 0.1, 0.1, 1.0, Captured(), text)


def test_a_frame_has_the_demangled_name_and_its_place_in_the_file(library: Path, function: tuple[int, int]) -> None:
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


def test_addresses_of_which_only_the_low_half_is_printed(library: Path, function: tuple[int, int]) -> None:
    low = START % (1 << 32)
    named = with_named_stack(crash(library, low + function[0], start=low))
    assert "std::locale::classic()" in named.stderr.tail


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + b"\xff" * 200, b"text"])
def test_a_file_without_symbols_leaves_places_in_the_file(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "program"
    file.write_bytes(content)
    assert f" #0 0x{START + 16:016x} (program+0x10)" in with_named_stack(crash(file, START + 16)).stderr.tail
    assert stack_printer(file) is None


def test_a_file_that_is_no_file_is_not_opened(tmp_path: Path) -> None:
    for path in (Path("/dev/zero"), tmp_path, tmp_path / "missing"):
        assert "(" in with_named_stack(crash(path, START + 16)).stderr.tail


def test_the_standard_library_of_c_plus_plus_has_no_stack_printer(library: Path) -> None:
    assert stack_printer(library) is None


def test_only_crashes_with_an_old_stack_lack_names(library: Path) -> None:
    run = crash(library, START)
    old = Captured("Stack dump without symbol names (ensure you have llvm-symbolizer in your PATH):\n")
    assert not lacks_names(run)
    assert lacks_names(Execution(("c",), Ending.SIGNALLED, None, 11, 0.1, 0.1, 1.0, Captured(), old))
    assert not lacks_names(Execution(("c",), Ending.EXITED, 1, None, 0.1, 0.1, 1.0, Captured(), old))
