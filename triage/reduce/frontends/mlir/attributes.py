"""Attributes that the failure can do without, affinities among them, and constants made short."""

from __future__ import annotations

import re
from collections.abc import Sequence

from triage.mlir import Module, Operation
from triage.reduce.draft import Draft
from triage.reduce.frontends.mlir.document import copy_module, module_of, with_module
from triage.reduce.search import InterestingnessTest, minimise

_NEEDED = frozenset(("function_type", "sym_name", "operandSegmentSizes", "resultSegmentSizes", "value", "callee"))
_LONG = re.compile(r"(dense(?:_resource)?)<(?:\"[^\"]*\"|\[.*\]|[\w.$-]+)>(?= : (?:tensor|vector)<)", re.DOTALL)
_ELEMENT = re.compile(r"[x<]([a-z]\w*)>\s*\Z")
_LONGEST = 40  # characters of a constant that may stay as it is


def drop_attributes(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop attributes: all of them, all of a kind, halves, single ones. A kind that the program is not valid without costs no
    compile.
    """
    base = draft
    kinds = {
        (index, name): (one.name, name)
        for index, one in enumerate(_operations(module_of(base)))
        for name in (*one.attributes, *one.properties)
        if name not in _NEEDED
    }
    # One of each kind is tried: whether an operation is valid without an attribute is the same for its like.
    first = {kind: place for place, kind in reversed(kinds.items())}
    sound = {kind: hunt.sound(_without(base, {place})) for kind, place in first.items()}
    places = [place for place, kind in kinds.items() if sound[kind]]

    def build(kept: Sequence[tuple[int, str]]) -> Draft | None:
        gone = set(places) - set(kept)
        return _without(base, gone) if gone else None

    _, found = minimise(places, build, hunt, alike=kinds.__getitem__)
    return found or draft


def _operations(module: Module) -> list[Operation]:
    return [module.root, *module.walk()]


def _without(draft: Draft, gone: set[tuple[int, str]]) -> Draft:
    module, _ = copy_module(module_of(draft))
    operations = _operations(module)
    for index, name in gone:
        operations[index].attributes.pop(name, None)
        operations[index].properties.pop(name, None)
    return with_module(draft, module)


def shorten_constants(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """One value for all elements of a long constant: of all constants at once, else of as many as will do."""
    base = draft
    places = [
        (index, name)
        for index, one in enumerate(_operations(module_of(base)))
        for name, text in (*one.attributes.items(), *one.properties.items())
        if splatted(text) != text
    ]

    def build(kept: Sequence[tuple[int, str]]) -> Draft | None:
        gone = set(places) - set(kept)
        if not gone:
            return None
        module, _ = copy_module(module_of(base))
        operations = _operations(module)
        for index, name in gone:
            for named in (operations[index].attributes, operations[index].properties):
                if name in named:
                    named[name] = splatted(named[name])
        if not any("dense_resource<" in text for one in operations for text in one.properties.values()):
            module = Module(module.root, module.aliases, "")
        return with_module(base, module)

    _, found = minimise(places, build, hunt)
    return found or draft


def splatted(text: str) -> str:
    """The text of an attribute with one value in the place of a long list of them; the text itself where it is short."""
    found = _LONG.match(text)
    if found is None or (found[1] == "dense" and len(found.group()) <= _LONGEST):
        return text
    kind = _ELEMENT.search(text[found.end() :])
    if kind is None:
        return text
    value = {"i1": "true", "index": "1"}.get(kind[1], "1" if kind[1].startswith(("i", "ui", "si")) else "1.000000e+00")
    return f"dense<{value}>{text[found.end() :]}"
