"""Large models with one failing part each, for benchmarks of reducers.

A model is a stack of transformer or residual blocks that compile everywhere, with a part in the middle that one release fails
on. Run `python -m benchmarks.reduce_inputs PATTERN --lines N` to print a model; `reduce_patterns` lists the releases.
"""

from __future__ import annotations

import argparse

from benchmarks.reduce_patterns import PATTERNS, ROWS, WIDTH, X


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", choices=PATTERNS)
    parser.add_argument("--lines", type=int, default=1000)
    given = parser.parse_args()
    print(model(given.pattern, given.lines), end="")


if __name__ == "__main__":
    main()
