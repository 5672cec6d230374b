"""Small programs of linear algebra as text, in plain dialects, so that every release parses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

ZERO = {"f16": "0.0 : f16", "bf16": "0.0 : bf16", "f32": "0.0 : f32", "f64": "0.0 : f64", "i32": "0 : i32", "i8": "0 : i8"}
S = "{dilations = dense<%d> : vector<%dxi64>, strides = dense<%d> : vector<%dxi64>}"
Sizes = Sequence[int]


def tensor(shape: Sequence[int | str], kind: str) -> str:
    return f"tensor<{'x'.join(map(str, [*shape, kind]))}>"


def maps(count: int, *uses: str) -> str:
    """Indexing maps over the dimensions a, b, c, ...; each use names those it has, `.` none."""
    names = "abcdefgh"[:count]
    bodies = (", ".join(use) if use != "." else "" for use in uses)
    return "[" + ", ".join(f"affine_map<({', '.join(names)}) -> ({body})>" for body in bodies) + "]"


def kinds(text: str) -> str:
    return "[" + ", ".join('"parallel"' if letter == "p" else '"reduction"' for letter in text) + "]"


def function(arguments: Sequence[tuple[str, str]], result: tuple[str, str], *lines: str) -> str:
    head = ", ".join(f"%{name}: {kind}" for name, kind in arguments)
    body = "\n".join(f"  {line}" for line in lines)
    return f"func.func @f({head}) -> {result[1]} {{\n{body}\n  return %{result[0]} : {result[1]}\n}}\n"


def filled(name: str, shape: Sizes, kind: str, value: str | None = None) -> list[str]:
    whole = tensor(shape, kind)
    return [
        f"%{name}_c = arith.constant {value or ZERO[kind]}",
        f"%{name}_e = tensor.empty() : {whole}",
        f"%{name} = linalg.fill ins(%{name}_c : {kind}) outs(%{name}_e : {whole}) -> {whole}",
    ]


def widened(value: str, source: str, wide: str, name: str) -> list[str]:
    if source == wide:
        return []
    operation = {"f": "arith.extf", "b": "arith.extf", "i": "arith.extsi"}[source[0]]
    return [f"%{name} = {operation} %{value} : {source} to {wide}"]


def multiply_add(low: str, acc: str) -> list[str]:
    """The body of a contraction: its inputs of type `low`, multiplied and added in `acc`."""
    mul, add = ("arith.muli", "arith.addi") if acc[0] == "i" else ("arith.mulf", "arith.addf")
    left, right = ("xw", "yw") if low != acc else ("x", "y")
    return [
        f"^bb0(%x: {low}, %y: {low}, %o: {acc}):",
        *widened("x", low, acc, "xw"),
        *widened("y", low, acc, "yw"),
        f"  %m = {mul} %{left}, %{right} : {acc}",
        f"  %s = {add} %o, %m : {acc}",
        f"  linalg.yield %s : {acc}",
    ]


def contraction(a: Sizes, b: Sizes, c: Sizes, uses: tuple[str, str, str], order: str, low: str, acc: str) -> str:
    """A contraction as a linalg.generic, its inputs of a narrower type than its accumulator where these differ."""
    ta, tb, tc = tensor(a, low), tensor(b, low), tensor(c, acc)
    return function(
        [("a", ta), ("b", tb)],
        ("r", tc),
        *filled("z", c, acc),
        f"%r = linalg.generic {{indexing_maps = {maps(len(order), *uses)}, iterator_types = {kinds(order)}}}"
        f" ins(%a, %b : {ta}, {tb}) outs(%z : {tc}) {{",
        *multiply_add(low, acc),
        f"}} -> {tc}",
    )


def named(operation: str, a: Sizes, b: Sizes, c: Sizes, low: str, acc: str, attributes: str = "") -> str:
    ta, tb, tc = tensor(a, low), tensor(b, low), tensor(c, acc)
    return function(
        [("a", ta), ("b", tb)],
        ("r", tc),
        *filled("z", c, acc),
        f"%r = {operation} {attributes} ins(%a, %b : {ta}, {tb}) outs(%z : {tc}) -> {tc}",
    )


def reduced(shape: Sizes, keep: str, order: str, kind: str, tail: str) -> str:
    """A sum over some dimensions, broadcast back and applied: `tail` is how, with %x the element and %s the sum."""
    whole, names = tensor(shape, kind), "abcdefgh"[: len(shape)]
    kept = [size for size, name in zip(shape, names, strict=True) if name in keep]
    small = tensor(kept, kind)
    return function(
        [("a", whole)],
        ("r", whole),
        *filled("z", kept, kind),
        f"%t = linalg.generic {{indexing_maps = {maps(len(shape), names, keep or '.')}, iterator_types = {kinds(order)}}}"
        f" ins(%a : {whole}) outs(%z : {small}) {{",
        f"^bb0(%x: {kind}, %o: {kind}):",
        f"  %q = arith.mulf %x, %x : {kind}",
        f"  %s = arith.addf %o, %q : {kind}",
        f"  linalg.yield %s : {kind}",
        f"}} -> {small}",
        f"%e = tensor.empty() : {whole}",
        f"%r = linalg.generic {{indexing_maps = {maps(len(shape), names, keep or '.', names)},"
        f" iterator_types = {kinds('p' * len(shape))}}} ins(%a, %t : {whole}, {small}) outs(%e : {whole}) {{",
        f"^bb0(%x: {kind}, %s: {kind}, %o: {kind}):",
        f"  {tail.replace('KIND', kind)}",
        f"  linalg.yield %y : {kind}",
        f"}} -> {whole}",
    )


def arg_max(rows: int, columns: int, kind: str) -> str:
    """The largest element's position of each row: a reduction with two results."""
    whole, index, best = tensor([rows, columns], kind), tensor([rows], "i32"), tensor([rows], kind)
    lowest = "0xFC00 : f16" if kind == "f16" else "0xFF800000 : f32"
    return function(
        [("a", whole)],
        ("r#1", index),
        *filled("z", [rows], kind, lowest),
        *filled("i", [rows], "i32"),
        f"%r:2 = linalg.generic {{indexing_maps = {maps(2, 'ab', 'a', 'a')}, iterator_types = {kinds('pr')}}}"
        f" ins(%a : {whole}) outs(%z, %i : {best}, {index}) {{",
        f"^bb0(%x: {kind}, %o: {kind}, %p: i32):",
        "  %n = linalg.index 1 : index",
        "  %m = arith.index_cast %n : index to i32",
        f"  %g = arith.cmpf ogt, %x, %o : {kind}",
        f"  %v = arith.select %g, %x, %o : {kind}",
        "  %w = arith.select %g, %m, %p : i32",
        f"  linalg.yield %v, %w : {kind}, i32",
        f"}} -> ({best}, {index})",
    )


def looked_up(rows: int, width: int, picked: int, columns: int, kind: str) -> str:
    """Rows of a table by index, then a contraction with them."""
    table, index, weight = tensor([rows, width], kind), tensor([picked], "i64"), tensor([width, columns], kind)
    taken, result = tensor([picked, width], kind), tensor([picked, columns], kind)
    return function(
        [("t", table), ("i", index), ("w", weight)],
        ("r", result),
        f"%e = tensor.empty() : {taken}",
        f"%g = linalg.generic {{indexing_maps = {maps(2, 'a', 'ab')}, iterator_types = {kinds('pp')}}}"
        f" ins(%i : {index}) outs(%e : {taken}) {{",
        f"^bb0(%x: i64, %o: {kind}):",
        "  %p = arith.index_cast %x : i64 to index",
        "  %q = linalg.index 1 : index",
        f"  %v = tensor.extract %t[%p, %q] : {table}",
        f"  linalg.yield %v : {kind}",
        f"}} -> {taken}",
        *filled("z", [picked, columns], kind),
        f"%r = linalg.matmul ins(%g, %w : {taken}, {weight}) outs(%z : {result}) -> {result}",
    )


def of_unknown_size(m: int | str, k: int | str, n: int | str, kind: str) -> str:
    """A matrix product some of whose sizes are not known."""
    ta, tb, tc = tensor([m, k], kind), tensor([k, n], kind), tensor([m, n], kind)
    return function(
        [("a", ta), ("b", tb), ("c", tc)],
        ("r", tc),
        f"%r = linalg.matmul ins(%a, %b : {ta}, {tb}) outs(%c : {tc}) -> {tc}",
    )


def summed_rows(rows: int | str, columns: int | str, kind: str) -> str:
    """The sum of each row of unknown length."""
    whole, part = tensor([rows, columns], kind), tensor([rows], kind)
    return function(
        [("a", whole), ("c", part)],
        ("r", part),
        f"%r = linalg.generic {{indexing_maps = {maps(2, 'ab', 'a')}, iterator_types = {kinds('pr')}}}"
        f" ins(%a : {whole}) outs(%c : {part}) {{",
        f"^bb0(%x: {kind}, %o: {kind}):",
        f"  %s = arith.addf %o, %x : {kind}",
        f"  linalg.yield %s : {kind}",
        f"}} -> {part}",
    )


def attention(batch: int, heads: int, length: int, keys: int, width: int, kind: str) -> str:
    """An attention in the generic form, which does not change between releases."""
    names = "(b, h, m, k1, k2, n)"
    uses = ("(b, h, m, k1)", "(b, h, k2, k1)", "(b, h, k2, n)", "()", "(b, h, m, n)")
    listed = ", ".join(f"affine_map<{names} -> {use}>" for use in uses)
    q, kv = tensor([batch, heads, length, width], kind), tensor([batch, heads, keys, width], kind)
    return function(
        [("q", q), ("k", kv), ("v", kv)],
        ("r", q),
        f"%s = arith.constant 0.125 : {kind}",
        f"%e = tensor.empty() : {q}",
        f'%r = "iree_linalg_ext.attention"(%q, %k, %v, %s, %e) <{{indexing_maps = [{listed}],'
        f" operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>}}> ({{",
        "^bb0(%x: f32):",
        '  "iree_linalg_ext.yield"(%x) : (f32) -> ()',
        f"}}) : ({q}, {kv}, {kv}, {kind}, {q}) -> {q}",
    )


def dequantized(rows: int, groups: int, size: int, bits: str, kind: str) -> str:
    """A matrix of small integers, scaled by group, times a vector."""
    small, scale = tensor([rows, groups, size], bits), tensor([rows, groups], kind)
    vector, wide, result = tensor([groups, size], kind), tensor([rows, groups, size], kind), tensor([rows], kind)
    return function(
        [("w", small), ("s", scale), ("x", vector)],
        ("r", result),
        f"%e = tensor.empty() : {wide}",
        f"%d = linalg.generic {{indexing_maps = {maps(3, 'abc', 'ab', 'abc')}, iterator_types = {kinds('ppp')}}}"
        f" ins(%w, %s : {small}, {scale}) outs(%e : {wide}) {{",
        f"^bb0(%i: {bits}, %t: {kind}, %o: {kind}):",
        f"  %n = arith.extsi %i : {bits} to i32",
        f"  %g = arith.sitofp %n : i32 to {kind}",
        f"  %m = arith.mulf %g, %t : {kind}",
        f"  linalg.yield %m : {kind}",
        f"}} -> {wide}",
        *filled("z", [rows], kind),
        f"%r = linalg.generic {{indexing_maps = {maps(3, 'bc', 'abc', 'a')}, iterator_types = {kinds('prr')}}}"
        f" ins(%x, %d : {vector}, {wide}) outs(%z : {result}) {{",
        f"^bb0(%x1: {kind}, %y: {kind}, %o: {kind}):",
        f"  %m = arith.mulf %x1, %y : {kind}",
        f"  %a = arith.addf %o, %m : {kind}",
        f"  linalg.yield %a : {kind}",
        f"}} -> {result}",
    )


def padded_then(operation: Callable[[str, str], str], shape: Sizes, low: int, high: int, result: Sizes, kind: str) -> str:
    """A padding by zeros in front of what reads it."""
    before = tensor(shape, kind)
    after = [shape[0], *(size + low + high for size in shape[1:-1]), shape[-1]]
    zeros = ", ".join(["0", *[str(low)] * (len(shape) - 2), "0"])
    ends = ", ".join(["0", *[str(high)] * (len(shape) - 2), "0"])
    names = ", ".join(f"%i{n}: index" for n in range(len(shape)))
    return function(
        [("a", before)],
        ("r", tensor(result, kind)),
        f"%n = arith.constant {ZERO[kind]}",
        f"%p = tensor.pad %a low[{zeros}] high[{ends}] {{",
        f"^bb0({names}):",
        f"  tensor.yield %n : {kind}",
        f"}} : {before} to {tensor(after, kind)}",
        *filled("z", result, kind),
        operation(tensor(after, kind), tensor(result, kind)),
    )


def pooled(size: int, stride: int, kind: str) -> Callable[[str, str], str]:
    def make(source: str, result: str) -> str:
        return (
            f"%w = tensor.empty() : tensor<{size}x{size}x{kind}>\n  %r = linalg.pooling_nhwc_max"
            f" {{dilations = dense<1> : vector<2xi64>, strides = dense<{stride}> : vector<2xi64>}}"
            f" ins(%p, %w : {source}, tensor<{size}x{size}x{kind}>) outs(%z : {result}) -> {result}"
        )

    return make


def transposed_sum(shape: Sizes, order: Sizes, kind: str) -> str:
    """A transposition whose result is added to another tensor."""
    source, result = tensor(shape, kind), tensor([shape[n] for n in order], kind)
    names = "abcdefgh"[: len(shape)]
    turned = "".join(names[n] for n in order)
    return function(
        [("a", source), ("b", result)],
        ("r", result),
        f"%e = tensor.empty() : {result}",
        f"%r = linalg.generic {{indexing_maps = {maps(len(shape), names, turned, turned)},"
        f" iterator_types = {kinds('p' * len(shape))}}} ins(%a, %b : {source}, {result}) outs(%e : {result}) {{",
        f"^bb0(%x: {kind}, %y: {kind}, %o: {kind}):",
        f"  %s = arith.addf %x, %y : {kind}",
        f"  linalg.yield %s : {kind}",
        f"}} -> {result}",
    )


def soft_max(shape: Sizes, dimension: int, kind: str) -> str:
    whole = tensor(shape, kind)
    return function(
        [("a", whole)],
        ("r", whole),
        f"%e = tensor.empty() : {whole}",
        f"%r = linalg.softmax dimension({dimension}) ins(%a : {whole}) outs(%e : {whole}) -> {whole}",
    )


def grouped(batch: int, groups: int, made: int, read: int, size: int, kernel: int, kind: str, *, reshaped: bool) -> str:
    """A convolution in groups over NCHW, with the groups expanded and collapsed around it where asked."""
    inner, outer = size + kernel - 1, [batch, groups, made, size, size]
    source, weight, result = (
        tensor([batch, groups, read, inner, inner], kind),
        tensor([groups, made, read, kernel, kernel], kind),
        tensor(outer, kind),
    )
    flat, flat_result = tensor([batch, groups * read, inner, inner], kind), tensor([batch, groups * made, size, size], kind)
    body = [
        *filled("z", outer, kind),
        f"%r = linalg.conv_2d_ngchw_gfchw {S % (1, 2, 1, 2)} ins(%x, %w : {source}, {weight}) outs(%z : {result}) -> {result}",
    ]
    if not reshaped:
        return function([("x", source), ("w", weight)], ("r", result), *body)
    shape = ", ".join(map(str, [batch, groups, read, inner, inner]))
    head = f"%x = tensor.expand_shape %a [[0], [1, 2], [3], [4]] output_shape [{shape}] : {flat} into {source}"
    tail = f"%s = tensor.collapse_shape %r [[0], [1, 2], [3], [4]] : {result} into {flat_result}"
    return function([("a", flat), ("w", weight)], ("s", flat_result), head, *body, tail)


def scaled_conv(size: int, channels: int, made: int, kind: str) -> str:
    """A convolution whose weights are 8 bit integers with one scale."""
    source, small = tensor([1, channels, size + 2, size + 2], kind), tensor([made, channels, 3, 3], "i8")
    wide, result = tensor([made, channels, 3, 3], kind), tensor([1, made, size, size], kind)
    return function(
        [("a", source), ("w", small), ("s", kind)],
        ("r", result),
        f"%e = tensor.empty() : {wide}",
        f"%d = linalg.generic {{indexing_maps = {maps(4, 'abcd', '.', 'abcd')}, iterator_types = {kinds('pppp')}}}"
        f" ins(%w, %s : {small}, {kind}) outs(%e : {wide}) {{",
        f"^bb0(%x: i8, %t: {kind}, %o: {kind}):",
        f"  %f = arith.sitofp %x : i8 to {kind}",
        f"  %m = arith.mulf %f, %t : {kind}",
        f"  linalg.yield %m : {kind}",
        f"}} -> {wide}",
        *filled("z", [1, made, size, size], kind),
        f"%r = linalg.conv_2d_nchw_fchw {S % (1, 2, 1, 2)} ins(%a, %d : {source}, {wide}) outs(%z : {result}) -> {result}",
    )


def gathered_heads(heads: int, rows: int, width: int, columns: int, kind: str) -> str:
    """Every other element of a slice, then a batched product that accumulates in f32."""
    table, right = tensor([3, heads, rows, 2 * width], kind), tensor([heads, columns, width], kind)
    taken, result = tensor([heads, rows, width], kind), tensor([heads, rows, columns], "f32")
    part = tensor([heads, rows, 2 * width], kind)
    return function(
        [("t", table), ("b", right)],
        ("r", result),
        f"%p = tensor.extract_slice %t[1, 0, 0, 0] [1, {heads}, {rows}, {2 * width}] [1, 1, 1, 1] : {table} to {part}",
        "%two = arith.constant 2 : index",
        f"%e = tensor.empty() : {taken}",
        f"%g = linalg.generic {{indexing_maps = {maps(3, 'abc')}, iterator_types = {kinds('ppp')}}} outs(%e : {taken}) {{",
        f"^bb0(%o: {kind}):",
        "  %i = linalg.index 0 : index",
        "  %j = linalg.index 1 : index",
        "  %k = linalg.index 2 : index",
        "  %m = arith.muli %k, %two : index",
        f"  %v = tensor.extract %p[%i, %j, %m] : {part}",
        f"  linalg.yield %v : {kind}",
        f"}} -> {taken}",
        *filled("z", [heads, rows, columns], "f32"),
        f"%r = linalg.generic {{indexing_maps = {maps(4, 'abd', 'acd', 'abc')}, iterator_types = {kinds('pppr')}}}"
        f" ins(%g, %b : {taken}, {right}) outs(%z : {result}) {{",
        *multiply_add(kind, "f32"),
        f"}} -> {result}",
    )


def chained(m: int, k: int, n: int, p: int, kind: str) -> str:
    """Two products, one behind the other."""
    a, b, c = tensor([m, k], kind), tensor([k, n], kind), tensor([n, p], kind)
    t, r = tensor([m, n], kind), tensor([m, p], kind)
    return function(
        [("a", a), ("b", b), ("c", c)],
        ("r", r),
        *filled("z", [m, n], kind),
        f"%t = linalg.matmul ins(%a, %b : {a}, {b}) outs(%z : {t}) -> {t}",
        *filled("y", [m, p], kind),
        f"%r = linalg.matmul ins(%t, %c : {t}, {c}) outs(%y : {r}) -> {r}",
    )


def weight_gradient(batch: int, size: int, read: int, made: int, kernel: int, kind: str) -> str:
    """What a convolution's weights change by: a sum over batch and places."""
    inner = size + kernel - 1
    names = "abcdefg"  # kernel rows, kernel columns, read, made, batch, rows, columns
    source = f"affine_map<({', '.join(names)}) -> (e, f + a, g + b, c)>"
    listed = f"[{source}, {maps(7, 'efgd', 'abcd')[1:-1]}]"
    left, right = tensor([batch, inner, inner, read], kind), tensor([batch, size, size, made], kind)
    result = tensor([kernel, kernel, read, made], "f32")
    return function(
        [("a", left), ("b", right)],
        ("r", result),
        *filled("z", [kernel, kernel, read, made], "f32"),
        f"%r = linalg.generic {{indexing_maps = {listed}, iterator_types = {kinds('pppprrr')}}}"
        f" ins(%a, %b : {left}, {right}) outs(%z : {result}) {{",
        *multiply_add(kind, "f32"),
        f"}} -> {result}",
    )


def complex_product(m: int, k: int, n: int) -> str:
    kind = "complex<f32>"
    a, b, c = f"tensor<{m}x{k}x{kind}>", f"tensor<{k}x{n}x{kind}>", f"tensor<{m}x{n}x{kind}>"
    return function(
        [("a", a), ("b", b), ("c", c)], ("r", c), f"%r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}"
    )
