"""Random valid programs: functions of tensor operations, constants, branches, generics
and several results.
"""

from __future__ import annotations

from hypothesis import strategies as st

SHAPES = ((4, 8), (8, 4), (4,), (2, 4, 8))


def tensor(shape: tuple[int, ...], kind: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{kind}>"


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Text in the syntax people write, valid in every version."""
    lines: list[str] = []
    values: list[tuple[str, tuple[int, ...]]] = [
        ("%x", SHAPES[0]),
        ("%y", SHAPES[0]),
        ("%z", SHAPES[2]),
    ]
    for number in range(draw(st.integers(1, 14))):
        name, (operand, shape) = f"%v{number}", draw(st.sampled_from(values))
        same = [value for value, other in values if other == shape]
        made, result = _operation(
            draw, name, operand, shape, draw(st.sampled_from(same))
        )
        lines += made
        values.append((name, result))
    returned = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    kinds = ", ".join(tensor(shape) for _, shape in returned)
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f"func.func @main(%x: {tensor(SHAPES[0])}, %y: {tensor(SHAPES[0])}, %z: {tensor(SHAPES[2])}) -> ({kinds}) {{\n"
        f"  %true = arith.constant true\n  %zero = arith.constant 0.0 : f32\n{body}\n"
        f"  return {', '.join(value for value, _ in returned)} : {kinds}\n}}\n"
    )


def _operation(
    draw: st.DrawFn, name: str, operand: str, shape: tuple[int, ...], other: str
) -> tuple[list[str], tuple[int, ...]]:
    kind = tensor(shape)
    choices = ["add", "generic", "if", "constant", "fill"]
    choices += ["transpose", "matmul"] if shape == SHAPES[0] else []
    chosen = draw(st.sampled_from(choices))
    plain = ", ".join(f"d{index}" for index in range(len(shape)))
    match chosen:
        case "add":
            return [f"{name} = arith.addf {operand}, {other} : {kind}"], shape
        case "constant":
            return [
                f"{name} = arith.constant dense<{draw(st.integers(0, 3))}.0> : {kind}"
            ], shape
        case "fill":
            return [
                f"{name}_e = tensor.empty() : {kind}",
                f"{name} = linalg.fill ins(%zero : f32) outs({name}_e : {kind}) -> {kind}",
            ], shape
        case "transpose":
            to = tensor(SHAPES[1])
            return [
                f"{name}_e = tensor.empty() : {to}",
                f"{name}_t = linalg.transpose ins({operand} : {kind}) outs({name}_e : {to}) permutation = [1, 0]",
                f"{name} = arith.addf {name}_t, {name}_t : {to}",
            ], SHAPES[1]
        case "matmul":
            return [
                f"{name}_w = arith.constant dense<1.0> : tensor<8x8xf32>",
                f"{name}_e = tensor.empty() : {kind}",
                f"{name} = linalg.matmul ins({operand}, {name}_w : {kind}, tensor<8x8xf32>) outs({name}_e : {kind}) -> {kind}",
            ], shape
        case "generic":
            maps = f"affine_map<({plain}) -> ({plain})>"
            iterators = ", ".join('"parallel"' for _ in shape)
            return [
                f"{name}_e = tensor.empty() : {kind}",
                f"{name} = linalg.generic {{indexing_maps = [{maps}, {maps}, {maps}], iterator_types = [{iterators}]}}",
                f"    ins({operand}, {other} : {kind}, {kind}) outs({name}_e : {kind}) {{",
                "^bb0(%p: f32, %q: f32, %o: f32):",
                "  %r = arith.mulf %p, %p : f32",
                "  %s = arith.addf %r, %q : f32",
                "  linalg.yield %s : f32",
                f"}} -> {kind}",
            ], shape
        case _:
            return [
                f"{name} = scf.if %true -> ({kind}) {{",
                f"  %t = arith.addf {operand}, {other} : {kind}",
                f"  scf.yield %t : {kind}",
                "} else {",
                f"  scf.yield {other} : {kind}",
                "}",
            ], shape
