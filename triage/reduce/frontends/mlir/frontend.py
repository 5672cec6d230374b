"""The frontend for MLIR modules."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from triage.reduce.engine import Frontend, Pass
from triage.reduce.frontends.case_settings import drop_flags, fewer_devices
from triage.reduce.frontends.mlir.dimensions import shrink_dimensions
from triage.reduce.frontends.mlir.document import Checker, MlirDocument, name_arguments
from triage.reduce.frontends.mlir.operations import (
    bypass_operations,
    drop_operations,
    drop_results,
    jump,
    narrow,
    thin_bodies,
)
from triage.reduce.frontends.mlir.rewriting import (
    drop_attributes,
    fold,
    make_static,
    parse_or_none,
    shorten_constants,
    widen_elements,
    with_one_value,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate

_ELIDED = "dense_resource<__elided__>"  # parses, but is not a program
_LARGE = 4 << 20  # bytes of a file from which it is first read without its constants


def mlir_frontend(checker: Checker) -> Frontend:
    """Return the frontend for MLIR as text or bytecode."""
    return Frontend(
        partial(_open, checker),
        (bypass_operations, drop_operations, drop_results, thin_bodies, fold, shorten_constants, make_static),
        (shrink_dimensions, widen_elements, drop_attributes, fewer_devices, drop_flags),
        _approach,
    )


def _open(checker: Checker, path: Path) -> Iterator[MlirDocument]:
    for elide in (True, False) if path.stat().st_size > _LARGE else (False,):
        text = checker.reader.generic(path, elide=elide)
        module = parse_or_none(text) if text is not None else None
        if module is None:
            continue
        if elide:
            for operation in module.walk():
                for named in (operation.properties, operation.attributes):
                    named.update({name: with_one_value(text) for name, text in named.items()})
            module.trailer = ""
        name_arguments(module)
        document = MlirDocument(module, checker)
        if _ELIDED not in document.text:
            yield document


def _approach(line: int | None) -> Pass:
    def jump_or_narrow(candidate: Candidate, test: InterestingnessTest) -> Candidate:
        return (line and jump(candidate, test, line)) or narrow(candidate, test)

    return jump_or_narrow
