"""More programs that no recipe holds: larger ones, which ask for more than a chip has, and rarer ones."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.held_out_builders import (
    S,
    Sizes,
    contraction,
    filled,
    function,
    kinds,
    maps,
    named,
    of_unknown_size,
    reduced,
    tensor,
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
        f"^bb0(%x: {kind}, %y: {kind}, %o: f32):",
        f"  %xw = arith.extf %x : {kind} to f32",
        f"  %yw = arith.extf %y : {kind} to f32",
        "  %m = arith.mulf %xw, %yw : f32",
        "  %s = arith.addf %o, %m : f32",
        "  linalg.yield %s : f32",
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
        f"^bb0(%x: {kind}, %y: {kind}, %o: f32):",
        f"  %xw = arith.extf %x : {kind} to f32",
        f"  %yw = arith.extf %y : {kind} to f32",
        "  %m = arith.mulf %xw, %yw : f32",
        "  %s = arith.addf %o, %m : f32",
        "  linalg.yield %s : f32",
        f"}} -> {result}",
    )


def complex_product(m: int, k: int, n: int) -> str:
    kind = "complex<f32>"
    a, b, c = f"tensor<{m}x{k}x{kind}>", f"tensor<{k}x{n}x{kind}>", f"tensor<{m}x{n}x{kind}>"
    return function(
        [("a", a), ("b", b), ("c", c)], ("r", c), f"%r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}"
    )


def _all() -> Iterator[tuple[str, str]]:
    for low, acc in (("f32", "f32"), ("f16", "f32"), ("f16", "f16")):
        mark = f"{low}-{acc}"
        yield f"square-2048-{mark}", named("linalg.matmul", [2048, 2048], [2048, 2048], [2048, 2048], low, acc)
        yield f"wide-{mark}", named("linalg.matmul", [512, 8192], [8192, 14336], [512, 14336], low, acc)
        yield f"batch-16-{mark}", named("linalg.batch_matmul", [16, 1024, 256], [16, 256, 1024], [16, 1024, 1024], low, acc)
        yield (
            f"nchw-3x3-{mark}",
            named("linalg.conv_2d_nchw_fchw", [4, 128, 58, 58], [256, 128, 3, 3], [4, 256, 56, 56], low, acc, S % (1, 2, 1, 2)),
        )
        yield (
            f"nchw-strided-{mark}",
            named("linalg.conv_2d_nchw_fchw", [8, 3, 230, 230], [64, 3, 7, 7], [8, 64, 112, 112], low, acc, S % (1, 2, 2, 2)),
        )
        yield (
            f"nhwc-large-{mark}",
            named("linalg.conv_2d_nhwc_hwcf", [8, 34, 34, 320], [3, 3, 320, 640], [8, 32, 32, 640], low, acc, S % (1, 2, 1, 2)),
        )
        yield (
            f"nhwc-odd-{mark}",
            named("linalg.conv_2d_nhwc_hwcf", [1, 19, 19, 37], [3, 3, 37, 51], [1, 17, 17, 51], low, acc, S % (1, 2, 1, 2)),
        )
    yield (
        "conv3d-large-f32",
        named(
            "linalg.conv_3d_ndhwc_dhwcf",
            [1, 18, 34, 34, 64],
            [3, 3, 3, 64, 64],
            [1, 16, 32, 32, 64],
            "f32",
            "f32",
            S % (1, 3, 1, 3),
        ),
    )
    yield (
        "batched-weights-f32",
        contraction([64, 512, 32], [64, 32, 96], [64, 512, 96], ("abd", "adc", "abc"), "pppr", "f32", "f32"),
    )
    yield "far-apart-f16", contraction([48, 6, 128, 80], [48, 6, 80], [48, 128], ("acbd", "acd", "ab"), "pprr", "f16", "f32")
    for kind in ("f16", "f32"):
        yield f"softmax-last-{kind}", soft_max([48, 2, 96, 96], 3, kind)
        yield f"softmax-middle-{kind}", soft_max([24, 577, 40], 1, kind)
        yield f"softmax-first-{kind}", soft_max([131, 70], 0, kind)
        yield f"softmax-long-{kind}", soft_max([2, 65000], 1, kind)
        yield (
            f"channels-{kind}",
            reduced([4, 48, 40, 40], "acd", "prpp", kind, "%h = math.rsqrt %s : KIND\n    %y = arith.mulf %x, %h : KIND"),
        )
        yield (
            f"places-{kind}",
            reduced([2, 20, 56, 56], "b", "rprr", kind, "%h = math.exp %s : KIND\n    %y = arith.divf %x, %h : KIND"),
        )
        yield f"groups-{kind}", grouped(2, 16, 4, 12, 28, 3, kind, reshaped=False)
        yield f"groups-reshaped-{kind}", grouped(1, 32, 8, 8, 28, 3, kind, reshaped=True)
        yield f"groups-large-{kind}", grouped(1, 4, 96, 64, 56, 5, kind, reshaped=True)
        yield f"scaled-conv-{kind}", scaled_conv(28, 64, 128, kind)
        yield f"chained-{kind}", chained(256, 192, 640, 72, kind)
        yield f"dynamic-odd-{kind}", of_unknown_size(77, "?", 19, kind)
        yield f"dynamic-narrow-{kind}", of_unknown_size("?", "?", 8, kind)
        yield f"dynamic-single-{kind}", of_unknown_size(1, "?", 4096, kind)
    for kind in ("f16", "bf16"):
        yield f"heads-{kind}", gathered_heads(6, 128, 48, 80, kind)
        yield f"gradient-{kind}", weight_gradient(4, 30, 48, 96, 3, kind)
        yield f"gradient-odd-{kind}", weight_gradient(3, 13, 17, 23, 3, kind)
    yield "complex", complex_product(48, 80, 40)


LARGER = dict(_all())
