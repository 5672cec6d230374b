"""Small programs of other operations than products and convolutions, as text that every release parses: name -> text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.held_out_builders import filled, function, kinds, maps, tensor

LOWEST = {"f16": "0xFC00 : f16", "bf16": "0xFF80 : bf16", "f32": "0xFF800000 : f32", "i32": "-2147483648 : i32"}


def _scalar(kind: str) -> str:
    return f"tensor<{kind}>"


def _hlo_constant(name: str, value: str, kind: str) -> str:
    return f"%{name} = stablehlo.constant dense<{value}> : {_scalar(kind)}"


def _hlo_reduce(result: str, source: str, shape: list[int], axis: int, kind: str, operation: str, initial: str) -> str:
    rest = tensor([size for number, size in enumerate(shape) if number != axis], kind)
    return (
        f"%{result} = stablehlo.reduce(%{source} init: %{initial}) applies stablehlo.{operation} across dimensions = [{axis}]"
        f" : ({tensor(shape, kind)}, {_scalar(kind)}) -> {rest}"
    )


def _hlo_broadcast(result: str, source: str, kept: list[int], small: list[int], shape: list[int], kind: str) -> str:
    return f"%{result} = stablehlo.broadcast_in_dim %{source}, dims = {kept} : ({tensor(small, kind)}) -> {tensor(shape, kind)}"


def elementwise(shape: list[int | str], operations: list[str], kind: str) -> str:
    """A chain of operations with one operand, and the sum with the argument."""
    whole = tensor(shape, kind)
    lines = [f"%v{n + 1} = stablehlo.{operation} %v{n} : {whole}" for n, operation in enumerate(operations)]
    return function([("v0", whole)], ("r", whole), *lines, f"%r = stablehlo.add %v{len(operations)}, %v0 : {whole}")


def reduced_along(shape: list[int], axis: int, operation: str, kind: str) -> str:
    value = {"maximum": LOWEST.get(kind, "0").partition(" ")[0], "multiply": "1.0" if kind[0] != "i" else "1"}
    initial = value.get(operation, "0.0" if kind[0] != "i" else "0")
    rest = tensor([size for number, size in enumerate(shape) if number != axis], kind)
    lines = [_hlo_constant("i", initial, kind), _hlo_reduce("r", "a", shape, axis, kind, operation, "i")]
    return function([("a", tensor(shape, kind))], ("r", rest), *lines)


def layer_norm(rows: int, columns: int, kind: str) -> str:
    """A row's elements less their mean, divided by their deviation, scaled and shifted."""
    whole, row, column = tensor([rows, columns], kind), tensor([rows], kind), tensor([columns], kind)
    shape = [rows, columns]
    return function(
        [("a", whole), ("g", column), ("b", column)],
        ("r", whole),
        _hlo_constant("zero", "0.0", kind),
        f"%count = stablehlo.constant dense<{columns}.0> : {row}",
        f"%small = stablehlo.constant dense<1.0e-3> : {row}",
        _hlo_reduce("sum", "a", shape, 1, kind, "add", "zero"),
        f"%mean = stablehlo.divide %sum, %count : {row}",
        _hlo_broadcast("mb", "mean", [0], [rows], shape, kind),
        f"%c = stablehlo.subtract %a, %mb : {whole}",
        f"%q = stablehlo.multiply %c, %c : {whole}",
        _hlo_reduce("qs", "q", shape, 1, kind, "add", "zero"),
        f"%v = stablehlo.divide %qs, %count : {row}",
        f"%ve = stablehlo.add %v, %small : {row}",
        f"%d = stablehlo.rsqrt %ve : {row}",
        _hlo_broadcast("db", "d", [0], [rows], shape, kind),
        f"%n = stablehlo.multiply %c, %db : {whole}",
        _hlo_broadcast("gb", "g", [1], [columns], shape, kind),
        _hlo_broadcast("bb", "b", [1], [columns], shape, kind),
        f"%s = stablehlo.multiply %n, %gb : {whole}",
        f"%r = stablehlo.add %s, %bb : {whole}",
    )


def window(shape: list[int], size: list[int], stride: list[int], padding: list[int], operation: str, kind: str) -> str:
    """A reduction over windows: pooling, or a running sum. `padding`: in front of each dimension."""
    result = [(n + p - s) // t + 1 for n, p, s, t in zip(shape, padding, size, stride, strict=True)]
    value = LOWEST[kind].partition(" ")[0] if operation == "maximum" else "0.0" if kind[0] != "i" else "0"
    pads = ", ".join(f"[{before}, 0]" for before in padding)
    return function(
        [("a", tensor(shape, kind))],
        ("r", tensor(result, kind)),
        _hlo_constant("i", value, kind),
        f'%r = "stablehlo.reduce_window"(%a, %i) <{{window_dimensions = array<i64: {", ".join(map(str, size))}>,'
        f" window_strides = array<i64: {', '.join(map(str, stride))}>, padding = dense<[{pads}]> :"
        f" tensor<{len(shape)}x2xi64>}}> ({{",
        f"^bb0(%x: {_scalar(kind)}, %y: {_scalar(kind)}):",
        f"  %s = stablehlo.{operation} %x, %y : {_scalar(kind)}",
        f"  stablehlo.return %s : {_scalar(kind)}",
        f"}}) : ({tensor(shape, kind)}, {_scalar(kind)}) -> {tensor(result, kind)}",
    )


def sorted_along(shape: list[int], axis: int, kind: str, *, indices: bool) -> str:
    """A sort; with `indices`, their positions are sorted along."""
    whole, places = tensor(shape, kind), tensor(shape, "i32")
    order = "SIGNED" if kind[0] == "i" else "FLOAT"
    pairs = ["%x: " + _scalar(kind), "%y: " + _scalar(kind)] + (["%p: tensor<i32>", "%q: tensor<i32>"] if indices else [])
    operands, types = ("%a, %n", f"{whole}, {places}") if indices else ("%a", whole)
    return function(
        [("a", whole)],
        ("r#1", places) if indices else ("r", whole),
        f"%n = stablehlo.iota dim = {axis} : {places}",
        f'%r{":2" if indices else ""} = "stablehlo.sort"({operands}) <{{dimension = {axis} : i64, is_stable = true}}> ({{',
        f"^bb0({', '.join(pairs)}):",
        f"  %c = stablehlo.compare LT, %x, %y, {order} : ({_scalar(kind)}, {_scalar(kind)}) -> tensor<i1>",
        "  stablehlo.return %c : tensor<i1>",
        f"}}) : ({types}) -> {f'({types})' if indices else types}",
    )


def top(rows: int, columns: int, count: int, kind: str) -> str:
    whole, best, places = tensor([rows, columns], kind), tensor([rows, count], kind), tensor([rows, count], "i32")
    return function([("a", whole)], ("r#1", places), f"%r:2 = chlo.top_k(%a, k = {count}) : {whole} -> ({best}, {places})")


def gathered(table: list[int], count: int, kind: str) -> str:
    """Rows of a table, by index."""
    source, index, result = tensor(table, kind), tensor([count, 1], "i32"), tensor([count, *table[1:]], kind)
    offsets = ", ".join(str(n + 1) for n in range(len(table) - 1))
    sizes = ", ".join(["1", *map(str, table[1:])])
    return function(
        [("t", source), ("i", index)],
        ("r", result),
        f'%r = "stablehlo.gather"(%t, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [{offsets}],'
        f" collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: {sizes}>,"
        f" indices_are_sorted = false}}> : ({source}, {index}) -> {result}",
    )


def scattered(table: list[int], count: int, kind: str) -> str:
    """Rows added to a table, by index."""
    source, index, rows = tensor(table, kind), tensor([count, 1], "i32"), tensor([count, *table[1:]], kind)
    windows = ", ".join(str(n + 1) for n in range(len(table) - 1))
    return function(
        [("t", source), ("i", index), ("u", rows)],
        ("r", source),
        f'%r = "stablehlo.scatter"(%t, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims ='
        f" [{windows}], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,"
        " indices_are_sorted = false, unique_indices = false}> ({",
        f"^bb0(%x: {_scalar(kind)}, %y: {_scalar(kind)}):",
        f"  %s = stablehlo.add %x, %y : {_scalar(kind)}",
        f"  stablehlo.return %s : {_scalar(kind)}",
        f"}}) : ({source}, {index}, {rows}) -> {source}",
    )


def updated_slice(shape: list[int], part: list[int], kind: str) -> str:
    """A slice at unknown offsets, negated and written back."""
    whole, piece = tensor(shape, kind), tensor(part, kind)
    names = [f"o{n}" for n in range(len(shape))]
    offsets, types = ", ".join(f"%{name}" for name in names), ", ".join(["tensor<i32>"] * len(names))
    return function(
        [("a", whole), *((name, "tensor<i32>") for name in names)],
        ("r", whole),
        f"%s = stablehlo.dynamic_slice %a, {offsets}, sizes = {part} : ({whole}, {types}) -> {piece}",
        f"%n = stablehlo.negate %s : {piece}",
        f"%r = stablehlo.dynamic_update_slice %a, %n, {offsets} : ({whole}, {piece}, {types}) -> {whole}",
    )


def concatenated(rows: int, first: int, second: int, kind: str) -> str:
    """Two matrices side by side, doubled and transposed."""
    a, b, c = (tensor([rows, columns], kind) for columns in (first, second, first + second))
    result = tensor([first + second, rows], kind)
    return function(
        [("a", a), ("b", b)],
        ("r", result),
        f"%c = stablehlo.concatenate %a, %b, dim = 1 : ({a}, {b}) -> {c}",
        f"%d = stablehlo.add %c, %c : {c}",
        f"%r = stablehlo.transpose %d, dims = [1, 0] : ({c}) -> {result}",
    )


def interior_padded(rows: int, columns: int, kind: str) -> str:
    a, b = tensor([rows, columns], kind), tensor([2 * rows + 1, columns + 7], kind)
    return function(
        [("a", a)],
        ("r", b),
        _hlo_constant("z", "0.0", kind),
        f"%p = stablehlo.pad %a, %z, low = [1, 3], high = [1, 4], interior = [1, 0] : ({a}, {_scalar(kind)}) -> {b}",
        f"%r = stablehlo.exponential %p : {b}",
    )


def shuffled(batch: int, blocks: int, channels: int, size: int, kind: str) -> str:
    """Blocks of channels become places: an expansion, a transposition and a collapse."""
    flat = tensor([batch, channels * blocks * blocks, size, size], kind)
    split = tensor([batch, channels, blocks, blocks, size, size], kind)
    turned = tensor([batch, channels, size, blocks, size, blocks], kind)
    result = tensor([batch, channels, size * blocks, size * blocks], kind)
    return function(
        [("a", flat)],
        ("r", result),
        f"%s = stablehlo.reshape %a : ({flat}) -> {split}",
        f"%t = stablehlo.transpose %s, dims = [0, 1, 4, 2, 5, 3] : ({split}) -> {turned}",
        f"%u = stablehlo.tanh %t : {turned}",
        f"%r = stablehlo.reshape %u : ({turned}) -> {result}",
    )


def transformed(rows: int, size: int) -> str:
    """The magnitudes of a real Fourier transform."""
    whole, wide, result = tensor([rows, size], "f32"), tensor([rows, size // 2 + 1], "complex<f32>"), [rows, size // 2 + 1]
    return function(
        [("a", whole)],
        ("r", tensor(result, "f32")),
        f"%t = stablehlo.fft %a, type = RFFT, length = [{size}] : ({whole}) -> {wide}",
        f"%r = stablehlo.abs %t : ({wide}) -> {tensor(result, 'f32')}",
    )


def scanned(rows: int, columns: int, kind: str) -> str:
    """A running sum along each row."""
    whole, part = tensor([rows, columns], kind), tensor([rows], kind)
    return function(
        [("a", whole)],
        ("r#0", whole),
        f"%e = tensor.empty() : {whole}",
        *filled("z", [rows], kind),
        '%r:2 = "iree_linalg_ext.scan"(%a, %e, %z) <{dimension = 1 : i64, inclusive = true, operandSegmentSizes ='
        " array<i32: 1, 2>}> ({",
        f"^bb0(%x: {kind}, %y: {kind}):",
        f"  %s = {'arith.addi' if kind[0] == 'i' else 'arith.addf'} %x, %y : {kind}",
        f'  "iree_linalg_ext.yield"(%s) : ({kind}) -> ()',
        f"}}) : ({whole}, {whole}, {part}) -> ({whole}, {part})",
    )


def requantized(m: int, k: int, n: int) -> str:
    """A product of small integers with zero points, scaled, clamped and narrowed again."""
    a, b, wide, narrow = tensor([m, k], "i8"), tensor([k, n], "i8"), tensor([m, n], "i32"), tensor([m, n], "i8")
    return function(
        [("a", a), ("b", b)],
        ("r", narrow),
        "%za = arith.constant 7 : i32",
        "%zb = arith.constant -3 : i32",
        *filled("z", [m, n], "i32"),
        f"%q = linalg.quantized_matmul ins(%a, %b, %za, %zb : {a}, {b}, i32, i32) outs(%z : {wide}) -> {wide}",
        f"%e = tensor.empty() : {narrow}",
        f"%r = linalg.generic {{indexing_maps = {maps(2, 'ab', 'ab')}, iterator_types = {kinds('pp')}}}"
        f" ins(%q : {wide}) outs(%e : {narrow}) {{",
        "^bb0(%x: i32, %o: i8):",
        "  %f = arith.sitofp %x : i32 to f32",
        "  %c = arith.constant 0.0078125 : f32",
        "  %low = arith.constant -128.0 : f32",
        "  %high = arith.constant 127.0 : f32",
        "  %s = arith.mulf %f, %c : f32",
        "  %l = arith.maximumf %s, %low : f32",
        "  %h = arith.minimumf %l, %high : f32",
        "  %v = arith.fptosi %h : f32 to i8",
        "  linalg.yield %v : i8",
        f"}} -> {narrow}",
    )


def plain_attention(heads: int, length: int, width: int, kind: str, *, masked: bool) -> str:
    """Scores, softmax and values as separate operations; with `masked`, later keys do not count."""
    q, s = tensor([heads, length, width], kind), tensor([heads, length, length], kind)
    shape = [heads, length, length]
    places = tensor(shape, "i32")
    mask = [
        f"%i = stablehlo.iota dim = 1 : {places}",
        f"%j = stablehlo.iota dim = 2 : {places}",
        f"%m = stablehlo.compare GE, %i, %j, SIGNED : ({places}, {places}) -> {tensor(shape, 'i1')}",
        f"%no = stablehlo.constant dense<-1.0e4> : {s}",
        f"%w = stablehlo.select %m, %p, %no : {tensor(shape, 'i1')}, {s}",
    ]
    return function(
        [("q", q), ("k", q), ("v", q)],
        ("r", q),
        f"%p = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : ({q}, {q}) -> {s}",
        *(mask if masked else [f"%w = stablehlo.abs %p : {s}"]),
        _hlo_constant("low", LOWEST[kind].partition(" ")[0], kind),
        _hlo_constant("zero", "0.0", kind),
        _hlo_reduce("x", "w", shape, 2, kind, "maximum", "low"),
        _hlo_broadcast("xb", "x", [0, 1], [heads, length], shape, kind),
        f"%d = stablehlo.subtract %w, %xb : {s}",
        f"%e = stablehlo.exponential %d : {s}",
        _hlo_reduce("t", "e", shape, 2, kind, "add", "zero"),
        _hlo_broadcast("tb", "t", [0, 1], [heads, length], shape, kind),
        f"%n = stablehlo.divide %e, %tb : {s}",
        f"%r = stablehlo.dot_general %n, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : ({s}, {q}) -> {q}",
    )


def rotated(length: int, heads: int, width: int, kind: str) -> str:
    """A rotation of halves: x * cos + (-second half, first half) * sin."""
    whole, half, angles = (
        tensor([length, heads, width], kind),
        tensor([length, heads, width // 2], kind),
        tensor([length, width], kind),
    )
    shape = [length, heads, width]
    parts = [f"[0:{length}, 0:{heads}, {a}:{b}]" for a, b in ((0, width // 2), (width // 2, width))]
    return function(
        [("x", whole), ("c", angles), ("s", angles)],
        ("r", whole),
        f"%f = stablehlo.slice %x {parts[0]} : ({whole}) -> {half}",
        f"%g = stablehlo.slice %x {parts[1]} : ({whole}) -> {half}",
        f"%n = stablehlo.negate %g : {half}",
        f"%t = stablehlo.concatenate %n, %f, dim = 2 : ({half}, {half}) -> {whole}",
        _hlo_broadcast("cb", "c", [0, 2], [length, width], shape, kind),
        _hlo_broadcast("sb", "s", [0, 2], [length, width], shape, kind),
        f"%u = stablehlo.multiply %x, %cb : {whole}",
        f"%v = stablehlo.multiply %t, %sb : {whole}",
        f"%r = stablehlo.add %u, %v : {whole}",
    )


def gated(rows: int, width: int, inner: int, kind: str) -> str:
    """Two products with the same matrix, one of them a gate, and a third product with what passes."""
    a, w, v, t, r = (tensor(x, kind) for x in ([rows, width], [width, inner], [inner, width], [rows, inner], [rows, width]))
    return function(
        [("a", a), ("g", w), ("u", w), ("d", v)],
        ("r", r),
        f"%x = stablehlo.dot_general %a, %g, contracting_dims = [1] x [0] : ({a}, {w}) -> {t}",
        f"%y = stablehlo.dot_general %a, %u, contracting_dims = [1] x [0] : ({a}, {w}) -> {t}",
        f"%l = stablehlo.logistic %x : {t}",
        f"%s = stablehlo.multiply %x, %l : {t}",
        f"%h = stablehlo.multiply %s, %y : {t}",
        f"%r = stablehlo.dot_general %h, %d, contracting_dims = [1] x [0] : ({t}, {v}) -> {r}",
    )


def counted_loop(size: int, rounds: int, kind: str) -> str:
    """A loop on the host whose body runs on the device."""
    whole = tensor([size], kind)
    return function(
        [("a", whole)],
        ("r#1", whole),
        _hlo_constant("n", "0", "i32"),
        f"%r:2 = stablehlo.while(%i = %n, %x = %a) : tensor<i32>, {whole}",
        "cond {",
        "  " + _hlo_constant("m", str(rounds), "i32"),
        "  %c = stablehlo.compare LT, %i, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        "  stablehlo.return %c : tensor<i1>",
        "} do {",
        "  " + _hlo_constant("o", "1", "i32"),
        "  %k = stablehlo.add %i, %o : tensor<i32>",
        f"  %y = stablehlo.cosine %x : {whole}",
        f"  stablehlo.return %k, %y : tensor<i32>, {whole}",
        "}",
    )


def bits_counted(rows: int, columns: int) -> str:
    whole = tensor([rows, columns], "i32")
    return function(
        [("a", whole), ("b", whole)],
        ("r", tensor([rows], "i32")),
        f"%x = stablehlo.xor %a, %b : {whole}",
        f"%c = stablehlo.popcnt %x : {whole}",
        _hlo_constant("z", "0", "i32"),
        _hlo_reduce("r", "c", [rows, columns], 1, "i32", "add", "z"),
    )


def random_numbers(rows: int, columns: int) -> str:
    whole = tensor([rows, columns], "ui32")
    return function(
        [("s", "tensor<2xui64>")],
        ("r", whole),
        f"%t, %r = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, {whole})",
    )


def two_moments(rows: int, columns: int, kind: str) -> str:
    """The sum and the sum of squares of each row in one reduction with two results, and their difference."""
    whole, row = tensor([rows, columns], kind), tensor([rows], kind)
    return function(
        [("a", whole)],
        ("r", row),
        *filled("z", [rows], kind),
        f"%m:2 = linalg.generic {{indexing_maps = {maps(2, 'ab', 'a', 'a')}, iterator_types = {kinds('pr')}}}"
        f" ins(%a : {whole}) outs(%z, %z : {row}, {row}) {{",
        f"^bb0(%x: {kind}, %o: {kind}, %p: {kind}):",
        f"  %s = arith.addf %o, %x : {kind}",
        f"  %q = arith.mulf %x, %x : {kind}",
        f"  %t = arith.addf %p, %q : {kind}",
        f"  linalg.yield %s, %t : {kind}, {kind}",
        f"}} -> ({row}, {row})",
        f"%e = tensor.empty() : {row}",
        f"%r = linalg.generic {{indexing_maps = {maps(1, 'a', 'a', 'a')}, iterator_types = {kinds('p')}}}"
        f" ins(%m#0, %m#1 : {row}, {row}) outs(%e : {row}) {{",
        f"^bb0(%x: {kind}, %y: {kind}, %o: {kind}):",
        f"  %s = arith.subf %y, %x : {kind}",
        f"  linalg.yield %s : {kind}",
        f"}} -> {row}",
    )


def packed(rows: int, columns: int, inner: int, kind: str) -> str:
    """Tiles of a matrix one behind the other, and back again after a computation."""
    flat, split = tensor([rows, columns], kind), tensor([rows // inner, inner, columns // inner, inner], kind)
    tiles = tensor([rows // inner, columns // inner, inner, inner], kind)
    return function(
        [("a", flat)],
        ("r", flat),
        f"%s = stablehlo.reshape %a : ({flat}) -> {split}",
        f"%t = stablehlo.transpose %s, dims = [0, 2, 1, 3] : ({split}) -> {tiles}",
        f"%q = stablehlo.sqrt %t : {tiles}",
        f"%u = stablehlo.transpose %q, dims = [0, 2, 1, 3] : ({tiles}) -> {split}",
        f"%r = stablehlo.reshape %u : ({split}) -> {flat}",
    )


def dynamic_soft_max(columns: int | str, kind: str) -> str:
    whole = tensor(["?", columns], kind)
    sizes = ["%d", "%e"] if columns == "?" else ["%d"]
    return function(
        [("a", whole)],
        ("r", whole),
        "%zero = arith.constant 0 : index",
        "%one = arith.constant 1 : index",
        f"%d = tensor.dim %a, %zero : {whole}",
        f"%e = tensor.dim %a, %one : {whole}",
        f"%o = tensor.empty({', '.join(sizes)}) : {whole}",
        f"%r = linalg.softmax dimension(1) ins(%a : {whole}) outs(%o : {whole}) -> {whole}",
    )


def dynamic_slices(width: int, kind: str) -> str:
    """Every other row of unknown count, inserted into another tensor."""
    whole = tensor(["?", width], kind)
    return function(
        [("a", whole), ("b", whole)],
        ("r", whole),
        "%zero = arith.constant 0 : index",
        "%two = arith.constant 2 : index",
        f"%d = tensor.dim %a, %zero : {whole}",
        "%h = arith.divui %d, %two : index",
        f"%s = tensor.extract_slice %a[0, 0] [%h, {width}] [2, 1] : {whole} to {whole}",
        f"%r = tensor.insert_slice %s into %b[3, 0] [%h, {width}] [1, 1] : {whole} into {whole}",
    )


def diagonal(size: int, kind: str) -> str:
    """The sum of the diagonals of a batch of matrices."""
    whole, part = tensor([8, size, size], kind), tensor([8], kind)
    return function(
        [("a", whole)],
        ("r", part),
        *filled("z", [8], kind),
        f"%r = linalg.generic {{indexing_maps = {maps(2, 'abb', 'a')}, iterator_types = {kinds('pr')}}}"
        f" ins(%a : {whole}) outs(%z : {part}) {{",
        f"^bb0(%x: {kind}, %o: {kind}):",
        f"  %s = arith.addf %o, %x : {kind}",
        f"  linalg.yield %s : {kind}",
        f"}} -> {part}",
    )


def _programs() -> Iterator[tuple[str, str]]:
    for kind in ("f32", "f16"):
        yield f"gelu-{kind}", elementwise([384, 3072], ["multiply %v0,", "tanh", "exponential"], kind)
        yield f"roots-{kind}", elementwise([7, 33, 129], ["abs", "log_plus_one", "rsqrt", "sine"], kind)
        yield f"dynamic-chain-{kind}", elementwise(["?", 640], ["exponential", "tanh", "logistic"], kind)
        yield f"max-last-{kind}", reduced_along([64, 12, 777], 2, "maximum", kind)
        yield f"sum-first-{kind}", reduced_along([4096, 320], 0, "add", kind)
        yield f"product-middle-{kind}", reduced_along([6, 130, 48], 1, "multiply", kind)
        yield f"layer-norm-{kind}", layer_norm(196, 768, kind)
        yield f"layer-norm-odd-{kind}", layer_norm(3, 1001, kind)
        yield f"pool-max-{kind}", window([1, 64, 57, 57], [1, 1, 3, 3], [1, 1, 2, 2], [0, 0, 0, 0], "maximum", kind)
        yield f"pool-sum-{kind}", window([2, 30, 30, 40], [1, 5, 5, 1], [1, 5, 5, 1], [0, 0, 0, 0], "add", kind)
        yield f"running-sum-{kind}", window([9, 200], [1, 200], [1, 1], [0, 199], "add", kind)
        yield f"sort-{kind}", sorted_along([24, 100], 1, kind, indices=False)
        yield f"argsort-{kind}", sorted_along([50, 16], 0, kind, indices=True)
        yield f"top-5-{kind}", top(16, 1000, 5, kind)
        yield f"embedding-{kind}", gathered([3000, 256], 77, kind)
        yield f"gather-3-{kind}", gathered([40, 6, 50], 12, kind)
        yield f"scatter-add-{kind}", scattered([500, 64], 33, kind)
        yield f"scatter-3-{kind}", scattered([20, 4, 96], 9, kind)
        yield f"update-slice-{kind}", updated_slice([1, 12, 256, 64], [1, 12, 1, 64], kind)
        yield f"concatenate-{kind}", concatenated(128, 96, 33, kind)
        yield f"interior-pad-{kind}", interior_padded(31, 65, kind)
        yield f"pixel-shuffle-{kind}", shuffled(2, 4, 3, 24, kind)
        yield f"scan-{kind}", scanned(12, 300, kind)
        yield f"attention-plain-{kind}", plain_attention(8, 128, 64, kind, masked=False)
        yield f"attention-masked-{kind}", plain_attention(4, 77, 40, kind, masked=True)
        yield f"rotate-{kind}", rotated(128, 16, 64, kind)
        yield f"gated-{kind}", gated(64, 256, 704, kind)
        yield f"loop-{kind}", counted_loop(5000, 20, kind)
        yield f"two-moments-{kind}", two_moments(256, 2048, kind)
        yield f"pack-16-{kind}", packed(256, 512, 16, kind)
        yield f"soft-max-rows-{kind}", dynamic_soft_max(512, kind)
        yield f"soft-max-dynamic-{kind}", dynamic_soft_max("?", kind)
        yield f"dynamic-slices-{kind}", dynamic_slices(96, kind)
        yield f"diagonal-{kind}", diagonal(300, kind)
    for size in (64, 256):
        yield f"fourier-{size}", transformed(10, size)
    for kind in ("f32", "f16", "bf16"):
        yield f"layer-norm-long-{kind}", layer_norm(8, 30000, kind)
        yield f"two-moments-long-{kind}", two_moments(4, 65536, kind)
        yield f"attention-long-{kind}", plain_attention(2, 1024, 128, kind, masked=True)
        yield f"top-64-{kind}", top(1, 32000, 64, kind)
        yield f"sum-long-{kind}", reduced_along([2, 1_000_000], 1, "add", kind)
        yield f"sort-long-{kind}", sorted_along([2, 4096], 1, kind, indices=True)
        yield f"pack-32-{kind}", packed(1024, 768, 32, kind)
        yield f"gated-large-{kind}", gated(512, 1024, 2816, kind)
        yield f"gated-odd-{kind}", gated(3, 100, 257, kind)
        yield f"pool-large-{kind}", window([1, 32, 200, 200], [1, 1, 9, 9], [1, 1, 1, 1], [0, 0, 4, 4], "maximum", kind)
        yield f"scan-long-{kind}", scanned(3, 8192, kind)
        yield f"scatter-large-{kind}", scattered([8192, 1024], 4096, kind)
    yield "requantize-128", requantized(128, 256, 64)
    yield "requantize-odd", requantized(33, 70, 19)
    yield "bits", bits_counted(64, 500)
    yield "random", random_numbers(60, 100)
    yield "scan-i32", scanned(5, 64, "i32")
    yield "sort-i32", sorted_along([10, 64], 1, "i32", indices=True)
    yield "max-i32", reduced_along([100, 333], 1, "maximum", "i32")


OPERATIONS = dict(_programs())
