"""Passes over Python return valid programs that are not larger, whatever the failure is."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.recipes.loading import load_recipes
from tests.reduce.test_search import CASE
from triage.compilers.base import KernelSpec
from triage.model.case import Case
from triage.reduce.draft import Draft
from triage.reduce.frontends.python.frontend import PythonFrontend
from triage.reduce.frontends.python.kernel import drop_parameters, inline_constexprs, merge_parameters
from triage.reduce.frontends.python.names import inline_calls, inline_names, merge_names
from triage.reduce.frontends.python.shapes import Shapes, ValueShape
from triage.reduce.frontends.python.source_tree import (
    PythonDocument,
    edited,
    kernel_function,
    kernel_of,
    parameters,
    parse_program,
    statements,
    tree_of,
    undefined_reads,
)
from triage.reduce.frontends.python.syntax import drop_statements, drop_unread, fold, open_blocks, take_parts
from triage.reduce.state import ReductionFolder

KERNELS = [
    case
    for path in sorted((ROOT / "recipes").glob("triton-*.yaml"))
    for case in load_recipes([path])
    if case.matrix == () or case.matrix[0][1] == "8"
]


class LuckyTest:
    """A test for drafts that are valid and have some luck, the same each time for the same program and case."""

    def __init__(self, case: Case, luck: int) -> None:
        self.frontend, self.luck = PythonFrontend(case), luck

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        for one in drafts:
            content = self.frontend.valid(one.document)
            words = repr((content, one.case.spec, self.luck)).encode()
            if content is not None and sha256(words).digest()[0] < 90:
                return one
        return None

    def is_valid(self, draft: Draft) -> bool:
        return self.frontend.valid(draft.document) is not None


class ContainsTest:
    """A test for drafts whose text has some words in it."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        return next((one for one in drafts if all(word in one.document.content.decode() for word in self.words)), None)

    def is_valid(self, draft: Draft) -> bool:
        return True


def draft(text: str, how: KernelSpec | None = None) -> Draft:
    return Draft(PythonDocument(ast.parse(text)), replace(CASE, compiler="triton" if how else CASE.compiler, spec=how))


def text_of(one: Draft) -> str:
    return one.document.content.decode()


def names(line: st.DrawFn) -> str:
    return line(st.sampled_from(["a", "b", "c", "d"]))


@st.composite
def bodies(draw: st.DrawFn, depth: int = 2) -> str:
    """Statements that read what was bound before them, by a line each or with lines inside of them."""
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        one, other = names(draw), names(draw)
        value = draw(
            st.sampled_from([f"{one} + {other}", f"f({one}, k={other})", f"[x for x in {one}]", f"({one} - 1) * 0", "8"])
        )
        kind = draw(st.sampled_from(["=", "+=", "for", "if", "while", "try", "with"])) if depth else "="
        inner = draw(bodies(depth - 1)).replace("\n", "\n    ") if kind not in ("=", "+=") else ""
        lines.append(
            {
                "for": f"for {one} in range({other}):\n    {inner}",
                "if": f"if {one} < 3:\n    {inner}\nelse:\n    {other} = 1",
                "while": f"while {one}:\n    {inner}\n    break",
                "try": f"try:\n    {inner}\nexcept ValueError as error:\n    {one} = error",
                "with": f"with f({one}) as {other}:\n    {inner}",
            }.get(kind, f"{one} {kind} {value}")
        )
    return "\n".join(lines)


PROGRAMS = st.builds(
    lambda first, second: (
        "import os\nfrom sys import argv as f\n\ndef one(a, b, *, c=1, d=2):\n    "
        + first.replace("\n", "\n    ")
        + "\n    return a\n\ndef two(a, b, c, d):\n    c = one(b, a + 1, d=c)\n    return c\n\na = b = c = d = 1\n"
        + second
        + "\nprint(two(a, b, c, d), os)\n"
    ),
    bodies(),
    bodies(),
)


def run_all(case: Case, document: PythonDocument, luck: int) -> Draft:
    test = LuckyTest(case, luck)
    assert not undefined_reads(document.tree)
    test.frontend._check_names = True
    made = Draft(document, case)
    for step in (test.frontend.approach(None), *test.frontend.passes):
        before, made = made, step.run(made, test)
        assert test.frontend.valid(made.document) is not None, step.name
        # An opened loop's variable gets its first value, which is one statement for another.
        assert made.document.size <= before.document.size, step.name
        assert len(list(ast.walk(tree_of(made)))) <= len(list(ast.walk(tree_of(before)))) + 8, step.name
    return made


@settings(max_examples=30, deadline=None)
@given(text=PROGRAMS, luck=st.integers(0, 255))
def test_every_pass_returns_a_valid_program(text: str, luck: int) -> None:
    run_all(CASE, PythonDocument(ast.parse(text)), luck)


@settings(max_examples=3, deadline=None)
@given(luck=st.integers(0, 255))
@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_every_pass_keeps_kernel_and_specialisation_consistent(case: Case, luck: int) -> None:
    tree = parse_program(case.input.path.read_bytes())
    assert tree is not None
    made = run_all(case, PythonDocument(tree), luck)
    function, how = kernel_function(made), kernel_of(made)
    assert function is not None
    assert how is not None
    assert set(parameters(function)) == {*how.signature, *how.constexprs}
    assert set(how.hints) <= set(how.signature)


def test_a_statement_is_dropped_with_those_that_need_it() -> None:
    one = draft("def f(a):\n    b = a\n    c = b\n    g = 1\n    return g\n")
    assert text_of(drop_statements(one, ContainsTest("return g"))) == "def f(a):\n    g = 1\n    return g\n"
    unread = draft("import os\nimport sys\n\ndef f(a):\n    b = a\n    c = b\n    return sys\n")
    assert text_of(drop_unread(unread, ContainsTest("return"))) == "import sys\n\n\ndef f(a):\n    return sys\n"


def test_a_loop_is_replaced_by_its_body() -> None:
    one = draft("def f(n):\n    for i in range(2, n):\n        if i:\n            print(i)\n")
    assert text_of(open_blocks(one, ContainsTest("print(i)"))) == "def f(n):\n    i = 2\n    print(i)\n"


@pytest.mark.parametrize(
    ("helper", "call", "made"),
    [
        ("def f(x, s):\n    return x * s", "y = f(a + 1, 2)", "y = (a + 1) * 2"),
        ("def f(x):\n    return x * x", "y = f(a + 1)", "x = a + 1\n    y = x * x"),
        ("def f(x):\n    b = x + 1\n    return b", "b = f(a) * b", "b_1 = a + 1\n    b = b_1 * b"),
        ("def f(x, y, *, z=3):\n    x += y\n    return (x, z)", "a, b = f(y=b, x=a)", "a += b\n    a, b = (a, 3)"),
        ("def f(x):\n    print(x)", "f(a)", "print(a)"),
        ("def f(x):\n    x += 1\n    return x", "y = f(7)", "x = 7\n    x += 1\n    y = x"),
        ("def f(x):\n    return x", "for i in range(f(3)):\n        b = i", "for i in range(3):\n        b = i"),
    ],
)
def test_a_call_is_replaced_by_the_body(helper: str, call: str, made: str) -> None:
    text = f"{helper}\n\n\ndef g(a, b):\n    {{}}\n    return b\n"
    found = inline_calls(draft(text.format(call)), ContainsTest("def g"))
    assert text_of(found) == text_of(draft(f"def g(a, b):\n    {made}\n    return b\n"))


@pytest.mark.parametrize(
    ("helper", "call"),
    [
        ("def f(x):\n    if x:\n        return 1\n    return 2", "y = f(a)"),
        ("def f(*x):\n    return x", "y = f(a)"),
        ("def f(x):\n    return f(x)", "y = f(a)"),
        ("def f(x):\n    return x", "y = f(a, b)"),
        ("def f(x):\n    return x", "y = f()"),
        ("def f(x):\n    return x", "while f(a):\n        break"),
        ("def f(x):\n    b = x\n    c = b\n    return c", "y = f(a) + f(b)"),  # twice would be more
    ],
)
def test_a_call_that_cannot_be_inlined_stays(helper: str, call: str) -> None:
    one = draft(f"{helper}\n\n\ndef g(a, b):\n    {call}\n    return b\n")
    assert inline_calls(one, ContainsTest("def g")) is one


def test_names_of_equal_shape_are_merged() -> None:
    how = KernelSpec(None, {"p": "*fp16"}, {"A": 8, "B": 8, "C": 4}, {}, {})
    text = (
        "def k(p, A, B, C):\n    x = tl.arange(0, A)\n    y = tl.arange(0, B)\n    z = tl.arange(0, C)\n    store(p, x, y, z)\n"
    )
    merged = text_of(merge_names(draft(text, how), ContainsTest("store(")))
    assert "store(p, x, x, z)" in merged  # z has another shape
    assert "y =" not in merged


def test_parameters_are_dropped_with_their_specialisation() -> None:
    how = KernelSpec(
        None, {"p": "*fp16", "q": "*fp16", "n": "i32"}, {"B": 8}, {"q": {"divisibility": 16}, "n": {"divisibility": 16}}, {}
    )
    whole = draft("def k(p, q, n, B=4):\n    store(p + q, B)\n", how)
    test = ContainsTest("store(")
    small = inline_constexprs(merge_parameters(drop_parameters(whole, test), test), test)
    assert text_of(small) == "def k(p):\n    store(p + p, 8)\n"
    assert small.case.spec == KernelSpec(None, {"p": "*fp16"}, {}, {}, {})


def test_a_part_replaces_an_expression_of_equal_shape() -> None:
    how = KernelSpec(None, {"p": "*fp16", "n": "i32"}, {}, {}, {})
    head = "import tl\n\n\ndef k(p, n):\n    x = tl.arange(0, 8)\n    m = x < n\n"
    text = f"{head}    store(p + x * n, tl.where(m, x, x + 1))\n"
    small = text_of(take_parts(draft(text, how), ContainsTest("store(", "where(m, x, x")))
    assert small == f"{head}    store(p + x, tl.where(m, x, x))\n"
    many = draft("def k(a, b, c):\n    d = f(a, b, c)\n    e = d\n    return e\n")
    assert text_of(take_parts(many, ContainsTest("f(", "b"))) == "def k(a, b, c):\n    d = f(a, b)\n    e = d\n    return e\n"
    assert text_of(inline_names(many, ContainsTest("f("))) == "def k(a, b, c):\n    d = f(a, b, c)\n    return d\n"
    assert text_of(fold(draft("x = 0 * y + 2 * 3 + z * 1\n"), ContainsTest("z"))) == "x = 6 + z\n"
    assert text_of(fold(draft("@jit()\ndef f(): pass\n"), ContainsTest("jit"))) == text_of(draft("@jit\ndef f(): pass\n"))


def test_shapes_of_common_calls_are_known() -> None:
    how = KernelSpec(None, {"p": "*bf16"}, {"M": 64, "N": 16}, {}, {})
    lines = {
        "tl.load(p + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])": ValueShape((64, 16)),
        "p + tl.arange(0, M * 2)": ValueShape((128,), pointer=True),
        "tl.dot(tl.zeros((M, N), tl.float32), tl.full((16, 32), 0.0, tl.float32)).to(tl.bfloat16)": ValueShape((64, 32)),
        "tl.trans(tl.zeros((M, N), tl.float32))": ValueShape((16, 64)),
        "tl.sum(tl.exp(tl.zeros((M, N), tl.float32)), axis=1)": ValueShape((64,)),
        "tl.arange(0, M) < tl.program_id(0)": ValueShape((64,), truth=True),
        "tl.arange(0, M) + tl.arange(0, N)": None,
        "mystery(p)": None,
    }
    for text, kind in lines.items():
        function = ast.parse(f"def k(p, M, N):\n    x = {text}\n").body[0]
        assert isinstance(function, ast.FunctionDef)
        [statement] = function.body
        assert isinstance(statement, ast.Assign)
        assert Shapes(function, how).of(statement.value) == kind, text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    return g()\ndef g():\n    pass\n", []),
        ("def f():\n    print(x)\n    x = 1\n", ["print(x)"]),
        ("x = [y for y in range(3)]\nz = lambda a: a + x\nprint(b := 2, b)\n", []),
        ("for i in n:\n    print(i)\n", ["for i in n:\n    print(i)"]),
        ("from os import *\nprint(path)\n", []),
        ("def f(a):\n    def g():\n        return a + h\n    h = 1\n    return g\n", []),
        ("x += 1\n", ["x += 1"]),
        ("match 3:\n    case int() as n:\n        print(n)\n", []),
        ("def f():\n    global v\n    v = 1\nv = 2\n", []),
        ("del u\n", ["del u"]),
    ],
)
def test_reads_of_undefined_names_are_found(text: str, found: list[str]) -> None:
    assert [ast.unparse(one) for one in undefined_reads(ast.parse(text))] == found


def test_few_correct_programs_have_undefined_reads() -> None:
    paths = sorted((ROOT / "triage" / "classify").rglob("*.py"))
    odd = [path for path in paths if undefined_reads(ast.parse(path.read_text()))]
    assert len(odd) < len(paths) / 10, odd


def test_edits_share_unchanged_nodes() -> None:
    tree = ast.parse("if a:\n    b = 1\nc = 2\n")
    first, second = tree.body
    assert edited(tree, {}) is tree
    assert edited(tree, {second: None}).body == [first]
    assert edited(tree, {first.body[0]: None}).body == [second]  # type: ignore[attr-defined]
    twice = edited(tree, {first: first.body, first.body[0].value: ast.Constant(5)})  # type: ignore[attr-defined]
    assert ast.unparse(twice) == "b = 5\nc = 2"
    assert ast.unparse(tree) == "if a:\n    b = 1\nc = 2"
    assert len(list(statements(tree))) == 3


def test_code_that_python_rejects_is_invalid(tmp_path: Path) -> None:
    broken = tmp_path / "x.py"
    broken.write_text("break\n")
    assert list(PythonFrontend(CASE).open(broken)) == []
    assert PythonFrontend(CASE).valid(PythonDocument(ast.Module([ast.Return(None)], []))) is None


def test_a_kernel_is_saved_with_its_specialisation(tmp_path: Path) -> None:
    how = KernelSpec("k", {"p": "*fp16"}, {"B": 8, "D": "tl.float16", "F": None}, {"p": {"divisibility": 16}}, {"num_warps": 2})
    one = draft("def k(p, B, D, F):\n    pass\n", how)
    folder = ReductionFolder(tmp_path, "what is reduced")
    folder.save(one)
    kept = folder.best(replace(CASE, compiler="triton", spec=KernelSpec("k", {}, {}, {}, {})))
    assert kept is not None
    path, case = kept
    assert (path.name, path.read_bytes(), case.spec) == ("best.py", one.document.content, how)


@pytest.mark.parametrize("count", [100, 400, 900, 5000])
def test_a_program_whose_expressions_nest_too_deeply_is_not_read_as_python(count: int) -> None:
    tree = parse_program(f"def f(a):\n    return a{' + a' * count}\n".encode())
    assert (tree is not None) == (count == 100)
    if tree is not None:
        assert PythonDocument(tree).content
