"""IREE's knowledge about remedies: which options are tried, and how devices that a program names are declared."""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib.resources import files
from mmap import ACCESS_READ, mmap
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from triage.compilers.iree.devices import DEVICE, DEVICE_NAMES, declaring, position_of
from triage.compilers.iree.lint.program import lint_words
from triage.compilers.parts import OptionCatalog, RemedyHints, RewriteNames
from triage.model.case import Case

_DRIVER = re.compile(r"(?:([\w$.-]+)=)?(\w+)(?:\[\d+\])?\Z")
_REFERENCE = re.compile(rb'#hal\.device\.(?:promise|affinity|fallback)<@("[^"]*"|[\w$.-]+)')
_MAX_DEVICES = 256  # a larger number in a program is a mistake


def remedy_hints() -> RemedyHints:
    """Options, devices and names of the IREE family."""
    options = yaml.safe_load(files("triage.compilers.iree").joinpath("options.yaml").read_text("utf-8"))
    words = lint_words()
    names = RewriteNames(words.barrier, words.transfers, words.affinity)
    return RemedyHints(TypeAdapter(OptionCatalog).validate_python(options), names, _devices_named, _declaring_for)


def _devices_named(program: Path) -> frozenset[str]:
    """The devices that a textual program refers to; the file may have any size."""
    if not program.stat().st_size:
        return frozenset()
    with program.open("rb") as source, mmap(source.fileno(), 0, access=ACCESS_READ) as text:
        return frozenset(match[1].decode().strip('"') for match in _REFERENCE.finditer(text))


def _declaring_for(case: Case, devices: Collection[str]) -> tuple[str, ...] | None:
    """The options that declare these devices in addition to the case's own options.

    Returns:
        None if all are declared, or if no option can declare them.
    """
    options = [flag.text for flag in case.flags]
    values = [text.removeprefix(DEVICE) for text in options if text.startswith(DEVICE)]
    drivers = [_DRIVER.match(value) for value in values]
    wanted = sorted(devices, key=_natural_order)
    positions = [position_of(name) for name in wanted]
    known = bool(values) or case.target.backend in DEVICE_NAMES
    highest = max((number or 0 for number in positions), default=0)
    if not wanted or not known or not all(drivers) or highest >= _MAX_DEVICES:
        return None
    named = [driver[1] for driver in drivers if driver and driver[1]]
    if None in positions or named:
        enough = set(wanted) <= set(named)
        wanted = [*named, *(name for name in wanted if name not in named)]
    else:
        enough = highest < (len(values) or case.target.devices or 0)
    return None if enough else declaring(wanted, case.target.backend, options)


def _natural_order(name: str) -> tuple[str, int, str]:
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0), name
