"""MLIR modules, read and checked by a toolchain's own tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from triage.mlir import Module, UnparsableError, parse_module
from triage.probe.reading import Reader
from triage.reduce.draft import Document, Draft
from triage.reduce.loop import Step
from triage.reduce.mlir.attributes import drop_attributes, shorten_constants, splatted
from triage.reduce.mlir.bodies import thin_bodies, unroll_regions
from triage.reduce.mlir.document import MlirDocument
from triage.reduce.mlir.jump import jump, narrow
from triage.reduce.mlir.operations import bypass_operations, drop_arguments, drop_operations, drop_results, inline_calls
from triage.reduce.mlir.rewriting import Rewriting
from triage.reduce.mlir.shapes import shrink_dimensions, widen_elements
from triage.reduce.search import Hunt
from triage.reduce.settings import drop_flags, fewer_devices, plainer_chip

_ELIDED = "dense_resource<__elided__>"  # parses, but is no program
_LARGE = 4 << 20  # bytes of a file, beyond which it is first read without its constants


class MlirFormat:
    """MLIR as text or bytecode."""

    def __init__(self, reader: Reader, *others: Reader) -> None:
        """others: of further toolchains; what one of them refuses is no valid program, so that it stays one for them."""
        self._reader, self._others = reader, others
        self._rewriting = Rewriting(reader)

    @property
    def steps(self) -> Sequence[Step]:
        return (
            Step("inlining", inline_calls),
            Step("links of chains", bypass_operations),
            Step("operations", drop_operations),
            Step("results", drop_results),
            Step("regions", unroll_regions),
            Step("bodies", thin_bodies),
            Step("arguments", drop_arguments),
            Step("folding", self._rewriting.fold),
            Step("constants", shorten_constants),
            Step("static shapes", self._rewriting.make_static),
        )

    @property
    def finishing(self) -> Sequence[Step]:
        return (
            Step("dimensions", shrink_dimensions),
            Step("ranks", self._rewriting.fewer_ranks),
            Step("element types", widen_elements),
            Step("attributes", drop_attributes),
            Step("devices", fewer_devices),
            Step("chip", plainer_chip),
            Step("flags", drop_flags),
        )

    def open(self, path: Path) -> Iterator[Document]:
        for elide in (True, False) if path.stat().st_size > _LARGE else (False,):
            text = self._reader.generic(path, elide=elide)
            module = _parsed(text) if text is not None else None
            document = MlirDocument(_filled(module) if elide else module) if module is not None else None
            if document is not None and _ELIDED not in document.text:
                yield document

    def approach(self, line: int | None) -> Step:
        def go(draft: Draft, hunt: Hunt) -> Draft:
            return jump(draft, hunt, line) or narrow(draft, hunt)

        return Step("jump" if line else "halves", go)

    def valid(self, document: Document) -> bytes | None:
        assert isinstance(document, MlirDocument)
        if document.canonical is None:
            text = document.text
            valid = self._reader.valid(text)
            document.canonical = valid if valid and all(other.valid(text) for other in self._others) else ""
        return document.canonical.encode() or None

    def written(self, document: Document) -> Sequence[bytes]:
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
