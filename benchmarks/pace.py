"""Compare equal compilers over many small programs and count false verdicts on run time.

Run: `python -m benchmarks.pace [--cases 200] [--release 3.13.0] [--time 20] [--threshold 0.05]`. Each case is a small program
(an elementwise chain, a sum of rows, a matmul or a softmax, of a size of its own). It is compiled twice with one release, and
both programs are measured in turn as `triage bench` does. `slower` and `faster` are false. Exit code 1 when there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.cli.context import load_cases, open_runner
from triage.cli.screen import AppContext
from triage.execution.benchmark import Benchmark, Configuration
from triage.report.benchmark import ratio_text

_ELEMENTWISE = """func.func @main(%x: tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32> {{
  %a = arith.mulf %x, %x : tensor<{rows}x{columns}xf32>
  %b = math.exp %a : tensor<{rows}x{columns}xf32>
  %c = arith.addf %b, %x : tensor<{rows}x{columns}xf32>
  return %c : tensor<{rows}x{columns}xf32>
}}
"""
_SUM = """func.func @main(%x: tensor<{rows}x{columns}xf32>) -> tensor<{rows}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{rows}xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<{rows}xf32>) -> tensor<{rows}xf32>
  %sum = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]
  }} ins(%x : tensor<{rows}x{columns}xf32>) outs(%start : tensor<{rows}xf32>) {{
  ^bb0(%value: f32, %total: f32):
    %next = arith.addf %value, %total : f32
    linalg.yield %next : f32
  }} -> tensor<{rows}xf32>
  return %sum : tensor<{rows}xf32>
}}
"""
_MATMUL = """func.func @main(%x: tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{rows}xf32> {{
  %zero = arith.constant 0.0 : f32
  %weights = arith.constant dense<0.5> : tensor<{columns}x{rows}xf32>
  %empty = tensor.empty() : tensor<{rows}x{rows}xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<{rows}x{rows}xf32>) -> tensor<{rows}x{rows}xf32>
  %product = linalg.matmul ins(%x, %weights : tensor<{rows}x{columns}xf32>, tensor<{columns}x{rows}xf32>)
    outs(%start : tensor<{rows}x{rows}xf32>) -> tensor<{rows}x{rows}xf32>
  return %product : tensor<{rows}x{rows}xf32>
}}
"""
_SOFTMAX = """func.func @main(%x: tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32> {{
  %empty = tensor.empty() : tensor<{rows}x{columns}xf32>
  %softmax = linalg.softmax dimension(1) ins(%x : tensor<{rows}x{columns}xf32>)
    outs(%empty : tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>
  return %softmax : tensor<{rows}x{columns}xf32>
}}
"""
_PROGRAMS = (_ELEMENTWISE, _SUM, _MATMUL, _SOFTMAX)


def recipes(folder: Path, count: int) -> Iterator[Path]:
    """Write small programs of different sizes, each with a recipe; yield the recipes."""
    for number in range(count):
        rows, columns = 16 + 8 * (number % 25), 64 + 16 * (number // 4)
        (folder / f"{number}.mlir").write_text(_PROGRAMS[number % len(_PROGRAMS)].format(rows=rows, columns=columns))
        recipe = folder / f"{number}.yaml"
        recipe.write_text(
            f"name: case-{number}\ninput: {number}.mlir\ntarget: {{backend: llvm-cpu}}\n"
            f"bench: [{{function: main, inputs: [{rows}x{columns}xf32=1]}}]\n"
        )
        yield recipe


def main() -> None:
    """Measure all cases, print each verdict that is not `the same`, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--release", default="3.13.0")
    parser.add_argument("--time", type=float, default=20.0, help="seconds for each case")
    parser.add_argument("--threshold", type=float, default=0.05)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    started = time.monotonic()
    with TemporaryDirectory() as folder:
        cases = load_cases(list(recipes(Path(folder), options.cases)))
        with open_runner(AppContext(quiet=True), cases, 1) as runner:
            ref = runner.registry.resolve(options.release, "iree")
            for case in cases:
                # A case of another name: two configurations, two compiles, one compiler.
                old, new = Configuration(case, ref), Configuration(replace(case, name=f"{case.name} again"), ref)
                result = Benchmark(runner, (old, new), old, options.threshold, options.time).run()
                row = result.of(new, "main")
                compared = row.comparison if row else None
                verdict = str(compared.pace) if compared else "not measured"
                counts[verdict] += 1
                if verdict != "the same":
                    reason = next((series.reason for series in result.series if series.reason), "")
                    print(f"{case.name}: {verdict} {ratio_text(compared) if compared else reason}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()), f"in {time.monotonic() - started:.0f} s")
    sys.exit(1 if counts["slower"] + counts["faster"] else 0)


if __name__ == "__main__":
    main()
