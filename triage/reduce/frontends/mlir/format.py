"""MLIR modules, read and checked by a toolchain's own tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from triage.execution.mlir_tools import Reader
from triage.mlir import Module, UnparsableError, parse_module
from triage.reduce.draft import Draft, Program
from triage.reduce.fixpoint import PassProgress
from triage.reduce.frontends.case_settings import drop_flags, fewer_devices, plainer_chip
from triage.reduce.frontends.mlir.attributes import drop_attributes, shorten_constants, splatted
from triage.reduce.frontends.mlir.cut import jump, narrow
from triage.reduce.frontends.mlir.dimensions import shrink_dimensions, widen_elements
from triage.reduce.frontends.mlir.document import MlirDocument
from triage.reduce.frontends.mlir.operations import (
    bypass_operations,
    drop_arguments,
    drop_operations,
    drop_results,
    inline_calls,
)
from triage.reduce.frontends.mlir.regions import thin_bodies, unroll_regions
from triage.reduce.frontends.mlir.rewriting import Rewriting
from triage.reduce.search import InterestingnessTest

_ELIDED = "dense_resource<__elided__>"  # parses, but is no program
_LARGE = 4 << 20  # bytes of a file, beyond which it is first read without its constants


class MlirFormat:
    """MLIR as text or bytecode."""

    def __init__(self, reader: Reader, *others: Reader) -> None:
        """others: of further toolchains; what one of them refuses is no valid program, so that it stays one for them."""
        self._reader, self._others = reader, others
        self._rewriting = Rewriting(reader)

    @property
    def steps(self) -> Sequence[PassProgress]:
        return (
            PassProgress("inlining", inline_calls),
            PassProgress("links of chains", bypass_operations),
            PassProgress("operations", drop_operations),
            PassProgress("results", drop_results),
            PassProgress("regions", unroll_regions),
            PassProgress("bodies", thin_bodies),
            PassProgress("arguments", drop_arguments),
            PassProgress("folding", self._rewriting.fold),
            PassProgress("constants", shorten_constants),
            PassProgress("static shapes", self._rewriting.make_static),
        )

    @property
    def finishing(self) -> Sequence[PassProgress]:
        return (
            PassProgress("dimensions", shrink_dimensions),
            PassProgress("ranks", self._rewriting.fewer_ranks),
            PassProgress("element types", widen_elements),
            PassProgress("attributes", drop_attributes),
            PassProgress("devices", fewer_devices),
            PassProgress("chip", plainer_chip),
            PassProgress("flags", drop_flags),
        )

    def open(self, path: Path) -> Iterator[Program]:
        for elide in (True, False) if path.stat().st_size > _LARGE else (False,):
            text = self._reader.generic(path, elide=elide)
            module = _parsed(text) if text is not None else None
            document = MlirDocument(_filled(module) if elide else module) if module is not None else None
            if document is not None and _ELIDED not in document.text:
                yield document

    def approach(self, line: int | None) -> PassProgress:
        def go(draft: Draft, hunt: InterestingnessTest) -> Draft:
            return jump(draft, hunt, line) or narrow(draft, hunt)

        return PassProgress("jump" if line else "halves", go)

    def valid(self, document: Program) -> bytes | None:
        assert isinstance(document, MlirDocument)
        if document.canonical is None:
            text = document.text
            valid = self._reader.valid(text)
            document.canonical = valid if valid and all(other.valid(text) for other in self._others) else ""
        return document.canonical.encode() or None

    def written(self, document: Program) -> Sequence[bytes]:
        assert isinstance(document, MlirDocument)
        pretty = self._reader.pretty(document.text)
        return [f"{text.rstrip()}\n".encode() for text in (pretty, document.text) if text]

    def close(self) -> None:
        for reader in (self._reader, *self._others):
            reader.close()


def _parsed(text: str) -> Module | None:
    try:
        return parse_module(text)
    except UnparsableError:
        return None


def _filled(module: Module) -> Module:
    """One value in the place of each elided constant. The module is nobody else's yet, so it is changed itself."""
    for one in module.walk():
        for named in (one.properties, one.attributes):
            for name, text in named.items():
                named[name] = splatted(text)
    return Module(module.root, module.aliases, "")
