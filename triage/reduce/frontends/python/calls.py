"""A pass over calls: the body of a function of the file in the place of its call."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from itertools import count

from triage.reduce.draft import Draft
from triage.reduce.frontends.python.document import kernel_function, parameters, tree_of, with_edits
from triage.reduce.frontends.python.source_tree import Edits, bound_by, functions, statements
from triage.reduce.search import InterestingnessTest, greedily

_BODY = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.For, ast.While, ast.If, ast.Assert, ast.Pass, ast.Return)
_BEFORE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.If, ast.For)  # may begin with a call


def inline_calls(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Put a function's body where it is called, and drop the function with its last call. Only functions that end with
    their one `return`, and only where the program grows by no statement. A parameter becomes the name that is given for
    it, even where the body gives that name another value: the compiler is asked, not what the program computes.
    """
    return greedily(draft, hunt, lambda base: (made for made in _inlined(base) if made.document.size <= base.document.size))


def _inlined(draft: Draft) -> Iterator[Draft]:
    tree, kernel = tree_of(draft), kernel_function(draft)
    for function in functions(tree):
        if not isinstance(function, ast.FunctionDef) or function is kernel or not _can_stand_elsewhere(function):
            continue
        named = [one for one in ast.walk(tree) if isinstance(one, ast.Name) and one.id == function.name]
        for caller in functions(tree):
            if caller is function:
                continue
            for statement in statements(caller):
                for call in _calls(statement, function.name):
                    edits = _in_place(caller, statement, call, function)
                    if edits is not None:
                        last: Edits = {function: None} if named == [call.func] else {}
                        yield with_edits(draft, {**edits, **last})


def _can_stand_elsewhere(function: ast.FunctionDef) -> bool:
    given = function.args
    inside = list(statements(function))
    returns = [one for one in inside if isinstance(one, ast.Return)]
    return (
        not (given.vararg or given.kwarg)
        and all(isinstance(one, _BODY) for one in inside)
        and returns in ([], [function.body[-1]])
        and not any(isinstance(one, (ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await)) for one in ast.walk(function))
        and not any(isinstance(one, ast.Name) and one.id == function.name for one in ast.walk(function))
    )


def _calls(statement: ast.stmt, name: str) -> list[ast.Call]:
    """The calls of a function that are made before anything inside of the statement is run."""
    if not isinstance(statement, _BEFORE):
        return []
    parts = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.expr)]
    return [
        one
        for part in parts
        for one in ast.walk(part)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == name
    ]


def _in_place(
    caller: ast.FunctionDef | ast.AsyncFunctionDef,
    statement: ast.stmt,
    call: ast.Call,
    function: ast.FunctionDef,
) -> Edits | None:
    """Edits that put the body before the statement and what it returns in the place of the call; None where a parameter is
    given nothing, or more than it takes.
    """
    given = _arguments(function, call)
    if given is None:
        return None
    taken = {one.id for one in ast.walk(caller) if isinstance(one, ast.Name)} | {
        one.arg for one in ast.walk(caller.args) if isinstance(one, ast.arg)
    }
    bound = {name for one in function.body for name in bound_by(one)}
    put: dict[str, ast.expr] = {name: ast.Name(_free(name, taken), ast.Load()) for name in bound - set(given) if name in taken}
    before: list[ast.stmt] = []
    reads = [one.id for inside in function.body for one in ast.walk(inside) if isinstance(one, ast.Name)]
    for name, value in given.items():
        fixed = name not in bound and (isinstance(value, ast.Constant) or reads.count(name) < 2)
        if isinstance(value, ast.Name) or fixed:
            put[name] = value
        else:
            put[name] = ast.Name(_free(name, taken) if name in taken else name, ast.Load())
            before.append(ast.Assign([_stored(put[name])], value, lineno=0))
    body = [_with_names(one, put) for one in function.body]
    result = body.pop() if isinstance(body[-1], ast.Return) else None
    value = result.value if isinstance(result, ast.Return) and result.value else ast.Constant(None)
    alone = isinstance(statement, ast.Expr) and statement.value is call
    return {statement: [*before, *body, *([] if alone else [statement])], call: value}


def _arguments(function: ast.FunctionDef, call: ast.Call) -> Mapping[str, ast.expr] | None:
    """What each parameter is given; None where that cannot be read from the call."""
    names, args = parameters(function), function.args
    if len(call.args) > len(names) - len(args.kwonlyargs) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    plain = [one.arg for one in (*args.posonlyargs, *args.args)]
    usual = dict(zip(plain[len(plain) - len(args.defaults) :], args.defaults, strict=True))
    usual |= {one.arg: value for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value}
    words = {one.arg: one.value for one in call.keywords if one.arg is not None}
    given = {**usual, **dict(zip(names, call.args, strict=False)), **words}
    if len(words) != len(call.keywords) or set(given) != set(names):
        return None
    return {name: given[name] for name in names}


def _free(name: str, taken: set[str]) -> str:
    found = next(made for number in count(1) if (made := f"{name}_{number}") not in taken)
    taken.add(found)
    return found


def _stored(value: ast.expr) -> ast.expr:
    assert isinstance(value, ast.Name)
    return ast.Name(value.id, ast.Store())


def _with_names(statement: ast.stmt, put: Mapping[str, ast.expr]) -> ast.stmt:
    """A copy with values in the place of names."""

    class Put(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            value = put.get(node.id)
            if value is None:
                return node
            if isinstance(node.ctx, ast.Load):
                return copy.deepcopy(value)
            assert isinstance(value, ast.Name)  # of what the body binds
            return ast.Name(value.id, node.ctx)

    made = Put().visit(copy.deepcopy(statement))
    assert isinstance(made, ast.stmt)
    return made
