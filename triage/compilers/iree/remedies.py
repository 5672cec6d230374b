"""IREE's knowledge about remedies: which options are tried, and how devices that a
program names are declared.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib.resources import files
from mmap import ACCESS_READ, mmap
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from triage.compilers.iree.devices import (
    DEVICE,
    DEVICE_NAMES,
    declared_by,
    declaring,
    device_flags,
    device_order,
    position_of,
)
from triage.compilers.iree.lint.program import lint_words
from triage.compilers.parts import OptionCatalog, RemedyHints, RewriteNames
from triage.model.case import Case

_REFERENCE = re.compile(
    rb'#hal\.device\.(?:promise|affinity|fallback)<@("[^"]*"|[\w$.-]+)'
)
_MAX_DEVICES = 256  # a larger number in a program is a mistake


def remedy_hints() -> RemedyHints:
    """Options, devices and names of the IREE family."""
    options = yaml.safe_load(
        files("triage.compilers.iree").joinpath("options.yaml").read_text("utf-8")
    )
    words = lint_words()
    names = RewriteNames(words.barrier, words.transfers)
    return RemedyHints(
        TypeAdapter(OptionCatalog).validate_python(options),
        names,
        _devices_named,
        _declaring_for,
    )


def _devices_named(program: Path) -> frozenset[str]:
    """Return the devices that a textual program refers to; the file may have any
    size.
    """
    if not program.stat().st_size:
        return frozenset()
    with (
        program.open("rb") as source,
        mmap(source.fileno(), 0, access=ACCESS_READ) as text,
    ):
        return frozenset(
            match[1].decode().strip('"') for match in _REFERENCE.finditer(text)
        )


def _declaring_for(case: Case, devices: Collection[str]) -> tuple[str, ...] | None:
    """Return the options that declare these devices and those that the case declares,
    unless it declares all of them.
    """
    options = [flag.text for flag in case.flags]
    if not any(text.startswith(DEVICE) for text in options):
        if case.target.backend not in DEVICE_NAMES:
            return None
        if case.target.devices:
            options += device_flags(case.target)
    known = declared_by([text for text in options if text.startswith(DEVICE)])
    missing = sorted(set(devices) - known.devices.keys(), key=device_order)
    if not missing or known.problem:
        return None
    wanted = [*known.devices, *missing]
    highest = max(position_of(name) or 0 for name in wanted)
    if highest < _MAX_DEVICES:
        return declaring(wanted, case.target.backend, options)
    return None
