"""Passes that find the failing operations of a module and drop the others, with arguments and results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from triage.mlir import Module, Operation, Value
from triage.mlir.tree import free_values, kind
from triage.reduce.engine import minimise, repeatedly
from triage.reduce.frontends.mlir.document import (
    Values,
    body_of,
    copy_module,
    copy_operation,
    cut,
    module_of,
    needed_for,
    pieces,
    with_module,
    without_results,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate

_NARROW = 4  # operations; a shorter window is left to the pass that drops single operations
_PLAIN = {"util.func": "func.func", "util.return": "func.return", "util.call": "func.call"}
_KEPT = frozenset(("function_type", "sym_name", "sym_visibility", "arg_attrs", "res_attrs", "callee"))
_READABLE = re.compile(r"[A-Za-z_]\w{0,39}")
_MOST_INLINED = 100_000  # operations of a function after inlining


def jump(candidate: Candidate, test: InterestingnessTest, line: int) -> Candidate | None:
    """Keep the operation at a source line with as few neighbours as possible; None when that never fails."""
    module = module_of(candidate)
    return test.first(with_module(candidate, smaller) for smaller in _neighbourhoods(module, line))


def _neighbourhoods(module: Module, line: int) -> Iterator[Module]:
    """Cuts around the operations of a line that reach 0, 1, 2, 4, ... definitions and uses far."""
    for function in module.functions():
        able = pieces(function)
        seeds = [operation for operation in able if any(inner.line == line for inner in operation.walk())]
        near = _neighbours(able) if seeds else {}
        reached, edge, distance, wanted = set(seeds), list(seeds), 0, 0
        while reached:
            if (distance == wanted or not edge) and (smaller := cut(module, function, reached)) is not None:
                yield smaller
            if distance == wanted:
                wanted = max(1, 2 * wanted)
            if not edge:
                break
            edge = list(dict.fromkeys(other for operation in edge for other in near[operation] if other not in reached))
            reached.update(edge)
            distance += 1


def _neighbours(able: list[Operation]) -> dict[Operation, list[Operation]]:
    """For each operation those that define its operands or use its results."""
    maker = {value: operation for operation in able for value in operation.results}
    near: dict[Operation, list[Operation]] = {operation: [] for operation in able}
    for operation in able:
        for value in free_values(operation):
            if (other := maker.get(value)) is not None:
                near[operation].append(other)
                near[other].append(operation)
    return near


@repeatedly
def narrow(candidate: Candidate) -> Iterator[Candidate]:
    """Keep one half of a function, or the middle, as long as that fails; the largest function first."""
    module = module_of(candidate)
    for function in sorted(module.functions(), key=lambda function: -len(pieces(function))):
        windows = (with_module(candidate, window) for window in _windows(module, function))
        yield from (window for window in windows if window.document.size < candidate.document.size)


def _windows(module: Module, function: Operation) -> Iterator[Module]:
    able = pieces(function)
    count = len(able)
    half, quarter = count // 2, count // 4
    spans = [(0, half), (half, count), (quarter, quarter + half), (0, count - quarter), (quarter, count)]
    if count <= _NARROW:
        spans = []
    if len(module.functions()) > 1 and count:
        spans.insert(0, (0, count))
    for first, end in spans:
        if (window := cut(module, function, able[first:end])) is not None:
            yield window


def drop_operations(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Drop operations of each function, halves before single ones. Their results become arguments."""

    def reduce(base: Candidate, function: Operation) -> Candidate:
        def build(kept: Sequence[Operation]) -> Candidate | None:
            smaller = cut(module_of(base), function, kept)
            return with_module(base, smaller) if smaller else None

        able = pieces(function)
        return minimise(base, able, build, test, whole=len(able) > 1, kind_of=kind)

    return _for_each_function(candidate, reduce)


def drop_results(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Return fewer values, and drop the operations that are then unused."""

    def reduce(base: Candidate, function: Operation) -> Candidate:
        def build(returned: Sequence[Value]) -> Candidate | None:
            smaller = cut(module_of(base), function, needed_for(function, returned), list(dict.fromkeys(returned)))
            return with_module(base, smaller) if smaller and returned else None

        block = body_of(function)
        results = block.operations[-1].operands if block else []
        return minimise(base, results, build, test, whole=False) if len(results) > 1 else base

    return _for_each_function(candidate, reduce)


def _for_each_function(candidate: Candidate, reduce: Callable[[Candidate, Operation], Candidate]) -> Candidate:
    """Reduce one function after another, by position: reducing one may drop others that it called."""
    index = 0
    while index < len(functions := module_of(candidate).functions()):
        candidate = reduce(candidate, functions[index])
        index += 1
    return candidate


def drop_arguments(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Drop unused arguments."""
    module = module_of(candidate)
    for function in module.functions():
        block = body_of(function)
        used = {value for operation in function.walk() for value in operation.operands}
        if block is None or all(value in used for value in block.arguments):
            continue
        smaller = cut(module, function, pieces(function), list(block.operations[-1].operands))
        if smaller is not None and (found := test.first([with_module(candidate, smaller)])) is not None:
            return found
    return candidate


def bypass_operations(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Replace an operation's results by its operands, for links of a chain that must stay a chain."""
    links: dict[Operation, Values] = {}
    for function in module_of(candidate).functions():
        block = body_of(function)
        for operation in block.operations[:-1] if block else []:
            if replacements := _operands_for_results(operation):
                links[operation] = replacements

    def build(kept: Sequence[Operation]) -> Candidate | None:
        dropped = [operation for operation in links if operation not in set(kept)]
        replacements = {value: by for operation in dropped for value, by in links[operation].items()}
        return with_module(candidate, without_results(module_of(candidate), replacements)) if dropped else None

    return minimise(candidate, list(links), build, test, whole=False, kind_of=kind)


def _operands_for_results(operation: Operation) -> Values:
    """For each result another operand of its type; empty when there is not one for each."""
    left, chosen = list(operation.operands), {}
    for result in operation.results:
        match = next((value for value in left if value.type == result.type), None)
        if match is None:
            return {}
        left.remove(match)
        chosen[result] = match
    return chosen


def inline_calls(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Replace each call by the body of the called function, all calls at once."""
    module, _ = copy_module(module_of(candidate))
    callees = {function.symbol: function for function in module.functions() if body_of(function)}
    if not any(_callee(operation) in callees for operation in module.walk()):
        return candidate
    called: set[str] = set()
    for function in callees.values():
        called |= _inline(function, callees)
    module.body.operations = [operation for operation in module.body.operations if operation.symbol not in called]
    return test.first([with_module(candidate, module)]) or candidate


def _inline(function: Operation, callees: dict[str | None, Operation]) -> set[str]:
    """Inline the calls of one function, and their calls. Returns the names of the inlined functions."""
    block = body_of(function)
    assert block is not None
    replaced: Values = {}
    called: set[str] = set()
    waiting = list(reversed(block.operations))
    done: list[Operation] = []
    while waiting and len(done) < _MOST_INLINED:
        operation = waiting.pop()
        operation.operands = [replaced.get(value, value) for value in operation.operands]
        name = _callee(operation)
        callee = callees.get(name)
        inside = body_of(callee) if callee is not None and callee is not function else None
        if name is None or inside is None or len(inside.arguments) != len(operation.operands):
            for inner in operation.walk():
                inner.operands = [replaced.get(value, value) for value in inner.operands]
            done.append(operation)
            continue
        called.add(name)
        values: Values = dict(zip(inside.arguments, operation.operands, strict=True))
        copies = [copy_operation(inner, values) for inner in inside.operations]
        end = copies.pop()
        replaced |= dict(zip(operation.results, end.operands, strict=True))
        waiting.extend(reversed(copies))
    block.operations = done
    return called


def _callee(operation: Operation) -> str | None:
    text = operation.attribute("callee")
    return text[1:].strip('"') if text and text.startswith("@") and operation.name.endswith("call") else None


def plain_functions(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Make functions of other dialects plain ones, and give the only function a readable name."""
    plain, _ = copy_module(module_of(candidate))
    changed = [operation for operation in plain.walk() if operation.name in _PLAIN]
    for operation in changed:
        operation.name = _PLAIN[operation.name]
        for holder in (operation.attributes, operation.properties):
            for name in holder.keys() - _KEPT:
                del holder[name]
    if changed:
        candidate = test.first([with_module(candidate, plain)]) or candidate
    renamed, _ = copy_module(module_of(candidate))
    functions = renamed.functions()
    if len(functions) == len(renamed.body.operations) == 1 and not _READABLE.fullmatch(functions[0].symbol or ""):
        functions[0].inherent["sym_name"] = '"main"'
        candidate = test.first([with_module(candidate, renamed)]) or candidate
    return candidate
