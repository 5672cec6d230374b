"""Large models with one failing part each: a stack of blocks that compile everywhere, with a part that one release fails on."""

from __future__ import annotations

from dataclasses import dataclass

WIDTH, ROWS = 128, 64
X = f"tensor<{ROWS}x{WIDTH}xf32>"


@dataclass(frozen=True)
class Pattern:
    """A part that fails on release `bad` and compiles on `good`.

    arguments: its own arguments, name -> type. lines: its operations, which read `%in` and define `%out`, both of type X.
    located: whether the compiler's output names a source location.
    """

    bad: str
    good: str | None
    backend: str
    chip: str | None
    failure: str
    arguments: dict[str, str]
    lines: tuple[str, ...]
    flags: tuple[str, ...] = ()
    devices: int | None = None
    located: bool = True
    maps: tuple[str, ...] = ()


def _scalar_into(name: str, value: str) -> tuple[str, ...]:
    """Add a scalar to every element of `%in`, so that the part stands in the chain."""
    return (
        f"%{name}_oe = tensor.empty() : {X}",
        '%out = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}',
        f"    ins(%in : {X}) outs(%{name}_oe : {X}) {{",
        "^bb0(%a: f32, %o: f32):",
        f"  %s = arith.addf %a, {value} : f32",
        "  linalg.yield %s : f32",
        f"}} -> {X}",
    )


IMAGE, PIXELS = "tensor<8x96x56x56xf32>", "tensor<8x56x56xf32>"
FOUR = 'iterator_types = ["parallel", "parallel", "parallel", "parallel"]'


def _reduced(name: str, source: str, *body: str) -> tuple[str, ...]:
    """The sum over an image's channels of what the body makes of `%a` in `%t`."""
    return (
        f"%{name} = linalg.generic {{indexing_maps = [#nchw, #nhw],",
        '    iterator_types = ["parallel", "reduction", "parallel", "parallel"]}',
        f"    ins(%{source} : {IMAGE}) outs(%p_pi : {PIXELS}) {{",
        "^bb0(%a: f32, %o: f32):",
        *(f"  {line}" for line in body),
        "  linalg.yield %t : f32",
        f"}} -> {PIXELS}",
    )


BIG = "tensor<4096x4096xf32>"
COMPLEX = "tensor<64x64xcomplex<f32>>"
NCHW = "tensor<1x384x28x28xf32>"
GROUPS_IN, GROUPS_K, GROUPS_OUT = "tensor<16x64x4x58x58xf32>", "tensor<64x4x4x3x3xf32>", "tensor<16x64x4x56x56xf32>"
FLAT = "tensor<16x256x56x56xf32>"

PATTERNS = {
    "shared-memory": Pattern(
        "3.3.0",
        "3.0.0",
        "cuda",
        "sm_86",
        "shared-memory-overflow",
        {"p_a": BIG, "p_b": BIG},
        (
            f"%p_e = tensor.empty() : {BIG}",
            f"%p_i = linalg.fill ins(%zero : f32) outs(%p_e : {BIG}) -> {BIG}",
            f"%p_c = linalg.matmul ins(%p_a, %p_b : {BIG}, {BIG}) outs(%p_i : {BIG}) -> {BIG}",
            f"%p_v = tensor.extract %p_c[%c0, %c0] : {BIG}",
            *_scalar_into("p", "%p_v"),
        ),
    ),
    "segfault": Pattern(
        "3.8.0",
        "3.1.0",
        "rocm",
        "gfx942",
        "segfault",
        {"p_a": COMPLEX, "p_b": COMPLEX},
        (
            "%p_z = complex.constant [0.0 : f32, 0.0 : f32] : complex<f32>",
            f"%p_e = tensor.empty() : {COMPLEX}",
            f"%p_i = linalg.fill ins(%p_z : complex<f32>) outs(%p_e : {COMPLEX}) -> {COMPLEX}",
            f"%p_c = linalg.matmul ins(%p_a, %p_b : {COMPLEX}, {COMPLEX}) outs(%p_i : {COMPLEX}) -> {COMPLEX}",
            f"%p_y = tensor.extract %p_c[%c0, %c0] : {COMPLEX}",
            "%p_v = complex.re %p_y : complex<f32>",
            *_scalar_into("p", "%p_v"),
        ),
        located=False,
    ),
    "undeclared-device": Pattern(
        "3.13.0",
        None,
        "llvm-cpu",
        None,
        "undeclared-device",
        {},
        (
            f"%p_t = flow.tensor.transfer %in : {X} to #hal.device.promise<@__device_7>",
            f"%p_e = tensor.empty() : {X}",
            '%p_d = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}',
            f"    ins(%p_t : {X}) outs(%p_e : {X}) {{",
            "^bb0(%a: f32, %o: f32):",
            "  %s = arith.mulf %a, %a : f32",
            "  linalg.yield %s : f32",
            f"}} -> {X}",
            f"%out = flow.tensor.transfer %p_d : {X} to #hal.device.promise<@__device_0>",
        ),
        devices=2,
    ),
    "legalization": Pattern(
        "3.8.0",
        None,
        "llvm-cpu",
        None,
        "legalization",
        {},
        (
            f"%p_e = tensor.empty() : {X}",
            '%out = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}',
            f"    ins(%in : {X}) outs(%p_e : {X}) {{",
            "^bb0(%a: f32, %o: f32):",
            "  %s = math.erfc %a : f32",
            "  linalg.yield %s : f32",
            f"}} -> {X}",
        ),
    ),
    "stack-limit": Pattern(
        "3.0.0",
        "2.9.0",
        "llvm-cpu",
        None,
        "stack-limit",
        {"p_x": GROUPS_IN, "p_k": GROUPS_K, "p_s": "tensor<256xf32>"},
        (
            f"%p_e = tensor.empty() : {GROUPS_OUT}",
            f"%p_i = linalg.fill ins(%zero : f32) outs(%p_e : {GROUPS_OUT}) -> {GROUPS_OUT}",
            "%p_c = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}",
            f"    ins(%p_x, %p_k : {GROUPS_IN}, {GROUPS_K}) outs(%p_i : {GROUPS_OUT}) -> {GROUPS_OUT}",
            f"%p_f = tensor.collapse_shape %p_c [[0], [1, 2], [3], [4]] : {GROUPS_OUT} into {FLAT}",
            f"%p_fe = tensor.empty() : {FLAT}",
            "%p_n = linalg.generic {indexing_maps = [#nchw, #c, #nchw],",
            '    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}',
            f"    ins(%p_f, %p_s : {FLAT}, tensor<256xf32>) outs(%p_fe : {FLAT}) {{",
            "^bb0(%a: f32, %b: f32, %o: f32):",
            "  %s = arith.mulf %a, %b : f32",
            "  %r = math.rsqrt %b : f32",
            "  %t = arith.addf %s, %r : f32",
            "  linalg.yield %t : f32",
            f"}} -> {FLAT}",
            f"%p_v = tensor.extract %p_n[%c0, %c0, %c0, %c0] : {FLAT}",
            *_scalar_into("p", "%p_v"),
        ),
        maps=(
            "#nchw = affine_map<(b, c, h, w) -> (b, c, h, w)>",
            "#c = affine_map<(b, c, h, w) -> (c)>",
        ),
    ),
    "distribution": Pattern(
        "3.11.0",
        "3.8.0",
        "rocm",
        "gfx1100",
        "distribution",
        {"p_x": IMAGE, "p_s": "tensor<96xf32>"},
        (
            f"%p_pe = tensor.empty() : {PIXELS}",
            f"%p_ie = tensor.empty() : {IMAGE}",
            f"%p_pi = linalg.fill ins(%zero : f32) outs(%p_pe : {PIXELS}) -> {PIXELS}",
            *_reduced("p_sum", "p_x", "%t = arith.addf %a, %o : f32"),
            f"%p_mid = linalg.generic {{indexing_maps = [#nchw, #nhw, #nchw], {FOUR}}}",
            f"    ins(%p_x, %p_sum : {IMAGE}, {PIXELS}) outs(%p_ie : {IMAGE}) {{",
            "^bb0(%a: f32, %m: f32, %o: f32):",
            "  %d = arith.divf %m, %width : f32",
            "  %t = arith.subf %a, %d : f32",
            "  linalg.yield %t : f32",
            f"}} -> {IMAGE}",
            *_reduced("p_squares", "p_mid", "%q = arith.mulf %a, %a : f32", "%t = arith.addf %q, %o : f32"),
            f"%p_n = linalg.generic {{indexing_maps = [#nchw, #nhw, #c, #nchw], {FOUR}}}",
            f"    ins(%p_mid, %p_squares, %p_s : {IMAGE}, {PIXELS}, tensor<96xf32>) outs(%p_ie : {IMAGE}) {{",
            "^bb0(%a: f32, %v: f32, %g: f32, %o: f32):",
            "  %e = arith.addf %v, %epsilon : f32",
            "  %r = math.rsqrt %e : f32",
            "  %n = arith.mulf %a, %r : f32",
            "  %t = arith.mulf %n, %g : f32",
            "  linalg.yield %t : f32",
            f"}} -> {IMAGE}",
            f"%p_v = tensor.extract %p_n[%c0, %c0, %c0, %c0] : {IMAGE}",
            *_scalar_into("p", "%p_v"),
        ),
        maps=(
            "#nchw = affine_map<(b, c, h, w) -> (b, c, h, w)>",
            "#nhw = affine_map<(b, c, h, w) -> (b, h, w)>",
            "#c = affine_map<(b, c, h, w) -> (c)>",
        ),
    ),
}


def block(number: int, x: str) -> tuple[list[str], str, dict[str, str]]:
    """Return the lines of a feed-forward block with a norm, its result and the types of its weights."""
    p = f"%b{number}"
    w1, w2 = f"b{number}_w1", f"b{number}_w2"
    hidden, first, second = f"tensor<{ROWS}x256xf32>", f"tensor<{WIDTH}x256xf32>", f"tensor<256x{WIDTH}xf32>"
    row = f"tensor<{ROWS}xf32>"
    parallel = 'iterator_types = ["parallel", "parallel"]'
    lines = [
        f"{p}_re = tensor.empty() : {row}",
        f"{p}_ri = linalg.fill ins(%zero : f32) outs({p}_re : {row}) -> {row}",
        f'{p}_sum = linalg.generic {{indexing_maps = [#xy, #x], iterator_types = ["parallel", "reduction"]}}',
        f"    ins({x} : {X}) outs({p}_ri : {row}) {{",
        "^bb0(%a: f32, %o: f32):",
        "  %q = arith.mulf %a, %a : f32",
        "  %s = arith.addf %q, %o : f32",
        "  linalg.yield %s : f32",
        f"}} -> {row}",
        f"{p}_ne = tensor.empty() : {X}",
        f"{p}_norm = linalg.generic {{indexing_maps = [#xy, #x, #xy], {parallel}}}",
        f"    ins({x}, {p}_sum : {X}, {row}) outs({p}_ne : {X}) {{",
        "^bb0(%a: f32, %b: f32, %o: f32):",
        "  %m = arith.divf %b, %width : f32",
        "  %e = arith.addf %m, %epsilon : f32",
        "  %r = math.rsqrt %e : f32",
        "  %s = arith.mulf %a, %r : f32",
        "  linalg.yield %s : f32",
        f"}} -> {X}",
        f"{p}_he = tensor.empty() : {hidden}",
        f"{p}_hi = linalg.fill ins(%zero : f32) outs({p}_he : {hidden}) -> {hidden}",
        f"{p}_h = linalg.matmul ins({p}_norm, %{w1} : {X}, {first}) outs({p}_hi : {hidden}) -> {hidden}",
        f"{p}_g = linalg.generic {{indexing_maps = [#xy, #xy], {parallel}}}",
        f"    ins({p}_h : {hidden}) outs({p}_he : {hidden}) {{",
        "^bb0(%a: f32, %o: f32):",
        "  %n = arith.negf %a : f32",
        "  %v = math.exp %n : f32",
        "  %d = arith.addf %v, %one : f32",
        "  %s = arith.divf %a, %d : f32",
        "  linalg.yield %s : f32",
        f"}} -> {hidden}",
        f"{p}_yi = linalg.fill ins(%zero : f32) outs({p}_ne : {X}) -> {X}",
        f"{p}_y = linalg.matmul ins({p}_g, %{w2} : {hidden}, {second}) outs({p}_yi : {X}) -> {X}",
        f"{p} = linalg.generic {{indexing_maps = [#xy, #xy, #xy], {parallel}}}",
        f"    ins({x}, {p}_y : {X}, {X}) outs({p}_ne : {X}) {{",
        "^bb0(%a: f32, %b: f32, %o: f32):",
        "  %s = arith.addf %a, %b : f32",
        "  linalg.yield %s : f32",
        f"}} -> {X}",
    ]
    return lines, p, {w1: first, w2: second}


def model(name: str, lines: int) -> str:
    """Return a model of about `lines` lines with a failing part in the middle."""
    pattern = PATTERNS[name]
    body: list[str] = []
    arguments = {"x": X}
    x, number, placed = "%x", 0, False
    while len(body) < lines or not placed:
        if not placed and len(body) >= lines // 2:
            placed = True
            body += [line.replace("%in", x).replace("%out", "%p_out") for line in pattern.lines]
            arguments |= pattern.arguments
            x = "%p_out"
        made, x, weights = block(number, x)
        body += made
        arguments |= weights
        number += 1
    given = ", ".join(f"%{key}: {kind}" for key, kind in arguments.items())
    head = [
        "#xy = affine_map<(x, y) -> (x, y)>",
        "#x = affine_map<(x, y) -> (x)>",
        *pattern.maps,
        f"func.func @main({given}) -> {X} {{",
        "  %c0 = arith.constant 0 : index",
        "  %zero = arith.constant 0.0 : f32",
        "  %one = arith.constant 1.0 : f32",
        f"  %width = arith.constant {WIDTH}.0 : f32",
        "  %epsilon = arith.constant 1.0e-5 : f32",
    ]
    return "\n".join([*head, *(f"  {line}" for line in body), f"  return {x} : {X}", "}", ""])


def recipe(name: str, path: str) -> str:
    """Return the YAML of a recipe for a model."""
    pattern = PATTERNS[name]
    target = [f"backend: {pattern.backend}"]
    target += [f"chip: {pattern.chip}"] if pattern.chip else []
    target += [f"devices: {pattern.devices}"] if pattern.devices else []
    phase = "" if pattern.devices else "phase: executable-targets\n"
    head = f"name: {name}\nsummary: {pattern.failure} in the middle of a stack of blocks\ncompiler: iree\ninput: {path}\n"
    return f"{head}target: {{{', '.join(target)}}}\n{phase}limits: {{timeout: 900s, memory: 12GiB}}\n"
