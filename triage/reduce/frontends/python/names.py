"""Passes over names and calls: one name instead of two, a value instead of its name, a function's body instead of a call."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count

from triage.reduce.draft import Draft, InterestingnessTest, greedily
from triage.reduce.frontends.python.shapes import may_replace, shapes_of
from triage.reduce.frontends.python.source_tree import (
    Edits,
    bound_by,
    functions,
    kernel_function,
    parameters,
    statements,
    tree_of,
    with_edits,
)

_BODY = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.For, ast.While, ast.If, ast.Assert, ast.Pass, ast.Return)
_CALLERS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.If, ast.For)  # evaluate a call first


@greedily
def merge_names(draft: Draft) -> Iterator[Draft]:
    """Replace a name that is bound once by an earlier name of the same shape, and drop its assignment.

    The earlier name is the result of a similar expression, or part of the name's own value.
    """
    shapes = shapes_of(draft)
    for function in functions(tree_of(draft)):
        assigned = list(_assigned_once(function))
        for index in range(len(assigned) - 1, -1, -1):
            statement, name = assigned[index]
            value, earlier = statement.value, assigned[:index]
            others = [
                other
                for assignment, other in earlier
                if _similar(assignment.value, value) and may_replace(shapes, assignment.value, value)
            ]
            names = [node for node in ast.walk(value) if isinstance(node, ast.Name) and may_replace(shapes, node, value)]
            bound = {other for _, other in earlier}
            for other in dict.fromkeys([*others, *(node.id for node in names if node.id in bound)]):
                yield with_edits(draft, {statement: None, **renamed(function, name, ast.Name(other, ast.Load()))})


def _assigned_once(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.Assign, str]]:
    arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    counted = Counter(name for statement in function.body for name in bound_by(statement))
    for statement in statements(function):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if counted[name] == 1 and name not in arguments:
                yield statement, name


def _similar(value: ast.expr, other: ast.expr) -> bool:
    if isinstance(value, ast.Call) and isinstance(other, ast.Call):
        return ast.dump(value.func) == ast.dump(other.func)
    return type(value) is type(other)


def renamed(function: ast.AST, name: str, value: ast.expr) -> Edits:
    """Return the edits that replace a name by a value wherever a function reads it."""
    return {
        node: value
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    }


def inline_names(draft: Draft, test: InterestingnessTest) -> Draft:
    """Replace names that are bound once, to a number or a name, by that: all at once, else one by one."""
    everything = draft
    while edits := next(_inlinings(everything), None):
        everything = with_edits(everything, edits)
    if everything is draft:
        return draft
    return test.first([everything]) or _inline_one_by_one(draft, test)


@greedily
def _inline_one_by_one(draft: Draft) -> Iterator[Draft]:
    return (with_edits(draft, edits) for edits in _inlinings(draft))


def _inlinings(draft: Draft) -> Iterator[Edits]:
    for function in functions(tree_of(draft)):
        for statement, name in _assigned_once(function):
            match statement.value:
                case ast.Constant() as value:
                    yield {statement: None, **renamed(function, name, value)}
                case ast.Name(id=other) as value if other != name:  # it may change in between: the compiler decides
                    yield {statement: None, **renamed(function, name, value)}


@greedily
def inline_calls(draft: Draft) -> Iterator[Draft]:
    """Replace a call by the body of the function, and drop the function with its last call.

    Only for functions with at most one `return`, at the end, and only where the program gets no more statements. A
    parameter becomes the argument's name even where the body assigns to it: only the compiler's failure must stay the same.
    """
    tree, kernel = tree_of(draft), kernel_function(draft)
    for function in functions(tree):
        if not isinstance(function, ast.FunctionDef) or function is kernel or not _can_inline(function):
            continue
        uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == function.name]
        for caller in functions(tree):
            for statement in statements(caller) if caller is not function else ():
                for call in _calls(statement, function.name):
                    edits = _inline_edits(caller, statement, call, function)
                    if edits is None:
                        continue
                    last: Edits = {function: None} if uses == [call.func] else {}
                    inlined = with_edits(draft, {**edits, **last})
                    if inlined.document.size <= draft.document.size:
                        yield inlined


def _can_inline(function: ast.FunctionDef) -> bool:
    inside = list(statements(function))
    nodes = list(ast.walk(function))
    return (
        not (function.args.vararg or function.args.kwarg)
        and all(isinstance(statement, _BODY) for statement in inside)
        and [statement for statement in inside if isinstance(statement, ast.Return)] in ([], [function.body[-1]])
        and not any(isinstance(node, (ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await)) for node in nodes)
        and not any(isinstance(node, ast.Name) and node.id == function.name for node in nodes)
    )


def _calls(statement: ast.stmt, name: str) -> list[ast.Call]:
    """The calls of a function that run before the blocks of the statement."""
    if not isinstance(statement, _CALLERS):
        return []
    expressions = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
    calls = [node for child in expressions for node in ast.walk(child) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name]


def _inline_edits(
    caller: ast.FunctionDef | ast.AsyncFunctionDef,
    statement: ast.stmt,
    call: ast.Call,
    function: ast.FunctionDef,
) -> Edits | None:
    """Edits that put the body before the statement and the returned value in place of the call; None when the arguments
    do not fit the parameters.
    """
    arguments = _arguments_by_name(function, call)
    if arguments is None:
        return None
    taken = {node.id for node in ast.walk(caller) if isinstance(node, ast.Name)}
    taken |= {node.arg for node in ast.walk(caller.args) if isinstance(node, ast.arg)}
    bound = {name for inner in function.body for name in bound_by(inner)}
    new: dict[str, ast.expr] = {
        name: ast.Name(_unused(name, taken), ast.Load()) for name in bound - set(arguments) if name in taken
    }
    before: list[ast.stmt] = []
    reads = [node.id for inner in function.body for node in ast.walk(inner) if isinstance(node, ast.Name)]
    for name, value in arguments.items():
        fixed = name not in bound and (isinstance(value, ast.Constant) or reads.count(name) < 2)
        if isinstance(value, ast.Name) or fixed:
            new[name] = value
        else:
            own = _unused(name, taken) if name in taken else name
            new[name] = ast.Name(own, ast.Load())
            before.append(ast.Assign([ast.Name(own, ast.Store())], value, lineno=0))
    body = [_with_names(inner, new) for inner in function.body]
    end = body.pop() if isinstance(body[-1], ast.Return) else None
    result = end.value if isinstance(end, ast.Return) and end.value else ast.Constant(None)
    alone = isinstance(statement, ast.Expr) and statement.value is call
    return {statement: [*before, *body, *([] if alone else [statement])], call: result}


def _arguments_by_name(function: ast.FunctionDef, call: ast.Call) -> Mapping[str, ast.expr] | None:
    """The value of each parameter; None when the call does not show it."""
    names, args = parameters(function), function.args
    if len(call.args) > len(names) - len(args.kwonlyargs) or any(isinstance(value, ast.Starred) for value in call.args):
        return None
    plain = [argument.arg for argument in (*args.posonlyargs, *args.args)]
    defaults = dict(zip(plain[len(plain) - len(args.defaults) :], args.defaults, strict=True))
    defaults |= {argument.arg: value for argument, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value}
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    values = {**defaults, **dict(zip(names, call.args, strict=False)), **keywords}
    if len(keywords) != len(call.keywords) or set(values) != set(names):
        return None
    return {name: values[name] for name in names}


def _unused(name: str, taken: set[str]) -> str:
    unused = next(candidate for number in count(1) if (candidate := f"{name}_{number}") not in taken)
    taken.add(unused)
    return unused


def _with_names(statement: ast.stmt, new: Mapping[str, ast.expr]) -> ast.stmt:
    """A copy with values in place of names."""

    class Replace(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            value = new.get(node.id)
            if value is None:
                return node
            if isinstance(node.ctx, ast.Load):
                return copy.deepcopy(value)
            assert isinstance(value, ast.Name)  # the body binds it
            return ast.Name(value.id, node.ctx)

    replaced = Replace().visit(copy.deepcopy(statement))
    assert isinstance(replaced, ast.stmt)
    return replaced
