"""Operations dropped, called functions put in the place of calls, and results that nobody misses."""

from __future__ import annotations

from collections.abc import Sequence

from triage.mlir import Operation, Value
from triage.mlir.tree import free_values, kind
from triage.reduce.draft import Draft
from triage.reduce.frontends.mlir.cut import body_of, cut, pieces
from triage.reduce.frontends.mlir.document import Values, copy_module, copy_operation, module_of, with_module
from triage.reduce.search import InterestingnessTest, minimise


def drop_operations(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Remove operations of each function, halves before single ones; what they made becomes an argument."""
    for index in range(len(module_of(draft).functions())):
        module = module_of(draft)
        if index >= len(module.functions()):
            break
        function = module.functions()[index]
        base = draft

        def build(kept: Sequence[Operation], function: Operation = function, base: Draft = base) -> Draft | None:
            made = cut(module_of(base), function, kept)
            return with_module(base, made) if made else None

        able = pieces(function)
        _, found = minimise(able, build, hunt, whole=len(able) > 1, alike=kind)
        draft = found or draft
    return draft


def drop_results(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Give back fewer values, and drop the operations that then nobody needs."""
    for index in range(len(module_of(draft).functions())):
        module = module_of(draft)
        if index >= len(module.functions()):
            break
        function = module.functions()[index]
        block = body_of(function)
        if block is None or len(block.operations[-1].operands) < 2:
            continue
        base = draft

        def build(returned: Sequence[Value], function: Operation = function, base: Draft = base) -> Draft | None:
            made = cut(module_of(base), function, _needed(function, returned), list(dict.fromkeys(returned)))
            return with_module(base, made) if made and returned else None

        _, found = minimise(block.operations[-1].operands, build, hunt, whole=False)
        draft = found or draft
    return draft


def drop_arguments(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop the arguments that nothing uses any more."""
    module = module_of(draft)
    for function in module.functions():
        block = body_of(function)
        if block is None:
            continue
        used = {value for one in function.walk() for value in one.operands}
        if all(value in used for value in block.arguments):
            continue
        made = cut(module, function, pieces(function), list(block.operations[-1].operands))
        if made is not None and (found := hunt.first([with_module(draft, made)])) is not None:
            return found
    return draft


def _needed(function: Operation, values: Sequence[Value]) -> list[Operation]:
    """What makes the values, and what has no result to be needed for, with all that these need."""
    block = body_of(function)
    assert block is not None
    needed, chosen = set(values), []
    for one in reversed(block.operations[:-1]):
        if not one.results or any(value in needed for value in one.results):
            chosen.append(one)
            needed.update(free_values(one))
    return chosen[::-1]


def bypass_operations(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Hand an operation's operand on in the place of its result, for links of a chain that must stay a chain."""
    base = draft
    names = [
        one
        for function in module_of(base).functions()
        if (block := body_of(function))
        for one in block.operations[:-1]
        if _stand_ins(one) is not None
    ]

    def build(kept: Sequence[Operation]) -> Draft | None:
        gone = set(names) - set(kept)
        return _without(base, gone) if gone else None

    _, found = minimise(names, build, hunt, whole=False, alike=kind)
    return found or draft


def _stand_ins(operation: Operation) -> list[Value] | None:
    """For each result an operand of its type, none of them twice; None where there is not one for each."""
    left, chosen = list(operation.operands), []
    for result in operation.results:
        match = next((value for value in left if value.type == result.type), None)
        if match is None:
            return None
        left.remove(match)
        chosen.append(match)
    return chosen or None


def _without(draft: Draft, gone: set[Operation]) -> Draft:
    """The draft without operations whose results their operands stand in for."""
    module, values = copy_module(module_of(draft))
    removed = {
        values[result]: [values.get(value, value) for value in _stand_ins(one) or []][index]
        for one in gone
        for index, result in enumerate(one.results)
    }

    def final(value: Value) -> Value:
        while value in removed:
            value = removed[value]
        return value

    for function in module.functions():
        block = body_of(function)
        if block is None:
            continue
        block.operations = [one for one in block.operations if not (one.results and one.results[0] in removed)]
        for one in function.walk():
            one.operands = [final(value) for value in one.operands]
    return with_module(draft, module)


def inline_calls(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Put the body of a called function in the place of each call, all at once; leave it where the failure goes."""
    base = module_of(draft)
    callees = {one.symbol: one for one in base.functions() if body_of(one)}
    if not any(_callee(one) in callees for one in base.walk()):
        return draft
    module, _ = copy_module(base)
    callees = {one.symbol: one for one in module.functions() if body_of(one)}
    called: set[str] = set()
    for function in module.functions():
        block = body_of(function)
        if block is not None:
            called |= _inline(function, callees)
    module.body.operations = [one for one in module.body.operations if one.symbol not in called]
    return hunt.first([with_module(draft, module)]) or draft


def _inline(function: Operation, callees: dict[str | None, Operation]) -> set[str]:
    """Inline what one function calls, calls of calls included; the names of what was inlined."""
    block = body_of(function)
    assert block is not None
    replaced: Values = {}
    called: set[str] = set()
    waiting = list(reversed(block.operations))
    done: list[Operation] = []
    while waiting and len(done) < 100_000:
        one = waiting.pop()
        one.operands = [replaced.get(value, value) for value in one.operands]
        name = _callee(one)
        callee = callees.get(name)
        inside = body_of(callee) if callee is not None and callee is not function else None
        if name is None or inside is None or len(inside.arguments) != len(one.operands):
            for inner in one.walk():
                inner.operands = [replaced.get(value, value) for value in inner.operands]
            done.append(one)
            continue
        called.add(name)
        values: Values = dict(zip(inside.arguments, one.operands, strict=True))
        copies = [copy_operation(inner, values) for inner in inside.operations]
        end = copies.pop()
        replaced |= dict(zip(one.results, end.operands, strict=True))
        waiting.extend(reversed(copies))
    block.operations = done
    return called


def _callee(operation: Operation) -> str | None:
    text = operation.attribute("callee")
    return text[1:].strip('"') if text and text.startswith("@") and operation.name.endswith("call") else None
