"""Static shapes and wider floats: the rewrite of a valid program is valid."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mlir.conftest import Readers
from tests.mlir.programs import programs
from triage.mlir import parse_module, print_module
from triage.mlir.rewrite import float_types, widen_floats
from triage.remedy.rewrites import rewrite, rewrites_for

REAL = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TRAITS = '{indexing_maps = [#m, #m, #m], iterator_types = ["parallel", "parallel"]}'
REWRITES = rewrites_for(None)
GENERIC = ("--mlir-print-op-generic",)


@st.composite
def dynamic(draw: st.DrawFn) -> str:
    """Functions of matrices with unknown dimensions."""
    lines, values = [], ["x", "y"]
    for number in range(draw(st.integers(1, 8))):
        name, a, b = f"v{number}", draw(st.sampled_from(values)), draw(st.sampled_from(values))
        empty = [
            f"%{name}_m = tensor.dim %{a}, %c0 : T", f"%{name}_n = tensor.dim %{b}, %c1 : T",
            f"%{name}_e = tensor.empty(%{name}_m, %{name}_n) : T",
        ]  # fmt: skip
        match draw(st.sampled_from(["add", "generic", "matmul", "if", "collapse", "split"])):
            case "add":
                lines.append(f"%{name} = arith.addf %{a}, %{b} : T")
            case "generic":
                head = f"%{name} = linalg.generic {TRAITS} ins(%{a}, %{b} : T, T)"
                lines += [*empty, f"{head} outs(%{name}_e : T) {{", "^bb0(%p: f32, %q: f32, %o: f32):"]
                lines += ["  %r = arith.mulf %p, %q : f32", "  linalg.yield %r : f32", "} -> T"]
            case "matmul":
                lines += [*empty, f"%{name} = linalg.matmul ins(%{a}, %{b} : T, T) outs(%{name}_e : T) -> T"]
            case "if":
                lines += [
                    f"%{name} = scf.if %flag -> (T) {{",
                    f"  scf.yield %{a} : T",
                    "} else {",
                    f"  scf.yield %{b} : T",
                    "}",
                ]
            case "collapse":
                lines += [
                    f"%{name}_m = tensor.dim %{a}, %c0 : T", f"%{name}_n = tensor.dim %{a}, %c1 : T",
                    f"%{name}_f = tensor.collapse_shape %{a} [[0, 1]] : T into tensor<?xf32>",
                    f"%{name} = tensor.expand_shape %{name}_f [[0, 1]] output_shape [%{name}_m, %{name}_n]"
                    " : tensor<?xf32> into T",
                ]  # fmt: skip
            case _:
                lines += [
                    f"%{name}_m = tensor.dim %{a}, %c0 : T", f"%{name}_n = tensor.dim %{a}, %c1 : T",
                    f"%{name}_h = arith.divui %{name}_n, %c128 : index",
                    f"%{name}_s = tensor.expand_shape %{a} [[0], [1, 2]] output_shape [%{name}_m, %{name}_h, 128]"
                    " : T into tensor<?x?x128xf32>",
                    f"%{name} = tensor.collapse_shape %{name}_s [[0], [1, 2]] : tensor<?x?x128xf32> into T",
                ]  # fmt: skip
        values.append(name)
    body = "\n".join(f"  {line}" for line in lines)
    text = (
        "#m = affine_map<(i, j) -> (i, j)>\nfunc.func @main(%x: T, %y: T, %flag: i1) -> (T, T) {\n"
        "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n  %c128 = arith.constant 128 : index\n"
        f"{body}\n  return %{values[-1]}, %x : T, T\n}}\n"
    )
    return re.sub(r"\bT\b", "tensor<?x?xf32>", text)


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.0.0", "3.13.0"])
@REAL
@given(text=dynamic())
def test_static_shapes_are_valid(readers: Readers, version: str, text: str) -> None:
    reader = readers(version)
    generic = reader.transformed(text, GENERIC)
    assert generic, text
    result = rewrite(reader, generic, REWRITES["static"])
    if result is None:  # that release folds sizes of some reshapes into a map that it does not parse again
        assert version == "3.0.0"
        return
    made, what = result
    assert reader.valid(made)
    size = re.search(r"set to (\d+)", what)
    assert size
    [function] = parse_module(reader.transformed(made, GENERIC) or "").functions()
    kinds = [value.type for value in function.regions[0].blocks[0].arguments]
    assert kinds == [f"tensor<{size[1]}x{size[1]}xf32>"] * 2 + ["i1"]
    assert rewrite(reader, reader.transformed(made, GENERIC) or "", REWRITES["static"]) is None


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.0.0", "3.13.0"])
def test_static_shapes_reach_the_results(readers: Readers, version: str) -> None:
    reader = readers(version)
    text = """
func.func @f(%a: tensor<?x8xf32>, %b: tensor<8x?xf16>) -> (tensor<?x8xf32>, tensor<8x?xi1>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %w = arith.constant dense<2.0> : tensor<8x8xf32>
  %s = math.exp %a : tensor<?x8xf32>
  %r = linalg.matmul ins(%s, %w : tensor<?x8xf32>, tensor<8x8xf32>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %q = arith.addf %r, %s : tensor<?x8xf32>
  %t = arith.cmpf ogt, %b, %b : tensor<8x?xf16>
  return %q, %t : tensor<?x8xf32>, tensor<8x?xi1>
}
func.func private @called(tensor<?xf32>) -> tensor<?xf32>
"""
    result = rewrite(reader, reader.transformed(text, GENERIC) or "", REWRITES["static"])
    assert result
    made, what = result
    assert what == "unknown dimensions of the arguments set to 64"
    assert "(%arg0: tensor<64x8xf32>, %arg1: tensor<8x64xf16>) -> (tensor<64x8xf32>, tensor<8x64xi1>)" in made
    assert "?" not in made.replace("tensor<?xf32>", "")


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.0.0", "3.13.0"])
@REAL
@given(text=programs(), kind=st.sampled_from(["f16", "bf16", "f64"]))
def test_wider_floats_are_valid(readers: Readers, version: str, text: str, kind: str) -> None:
    reader = readers(version)
    generic = reader.transformed(text.replace("f32", kind), GENERIC)
    assert generic, text
    result = rewrite(reader, generic, REWRITES["dtype"])
    assert result
    made, what = result
    assert what == f"f32 in the place of {kind}"
    assert (reader.valid(made) or "").strip() == (reader.transformed(text, GENERIC) or "").strip()


@pytest.mark.parametrize(
    ("given_", "wide"),
    [
        ("0xFC00 : f16", "0xFF800000 : f32"),
        ("1.500000e+00 : bf16", "1.500000e+00 : f32"),
        ("0x7FF0000000000000 : f64", "0x7F800000 : f32"),
        ("dense<[0x7E00, 1.0]> : tensor<2xf16>", "dense<[0x7FC00000, 1.0]> : tensor<2xf32>"),
        ('dense<"0x003C00C0"> : tensor<2xf16>', 'dense<"0x0000803F000000C0"> : tensor<2xf32>'),
        ('dense<"0x803F00C0"> : tensor<2xbf16>', 'dense<"0x0000803F000000C0"> : tensor<2xf32>'),
        ("dense<[0xFF, 1]> : tensor<2xi16>", "dense<[0xFF, 1]> : tensor<2xi16>"),
    ],
)
def test_constants_keep_their_value(given_: str, wide: str) -> None:
    kind, to = given_.rpartition(" : ")[2], wide.rpartition(" : ")[2]
    text = f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = (f16, f64, bf16) -> {kind}, sym_name = "xf16"}}> ({{
  ^bb0(%arg0: f16, %arg1: f64, %arg2: bf16):
    %0 = "arith.constant"() <{{value = {given_}}}> : () -> {kind}
    %1 = "arith.extf"(%arg0) : (f16) -> f64
    %2 = "arith.truncf"(%1) : (f64) -> bf16
    "func.return"(%0, %2) {{note = "f16"}} : ({kind}, bf16) -> ()
  }}) : () -> ()
}}) : () -> ()
"""
    module = parse_module(text)
    types = float_types(module)
    assert types == ["f16", "bf16", "f64"]
    assert widen_floats(module, types)
    [function] = module.functions()
    constant, end = function.regions[0].blocks[0].operations
    assert (constant.properties["value"], constant.results[0].type) == (wide, to)
    assert (function.symbol, end.attributes["note"]) == ("xf16", '"f16"')
    assert end.operands[1] is function.regions[0].blocks[0].arguments[0]
    assert not float_types(parse_module(print_module(module)))


def test_constants_in_resources_stay_unchanged() -> None:
    text = """
"builtin.module"() ({
  "func.func"() <{function_type = () -> tensor<4xf16>, sym_name = "f"}> ({
    %0 = "arith.constant"() <{value = dense_resource<w> : tensor<4xf16>}> : () -> tensor<4xf16>
    "func.return"(%0) : (tensor<4xf16>) -> ()
  }) : () -> ()
}) : () -> ()
"""
    assert not widen_floats(parse_module(text), ["f16"])
