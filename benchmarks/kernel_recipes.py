"""Measure how many kernels of a package compile with the recipe that `triage recipe
new` writes, without any edit.

    python -m benchmarks.kernel_recipes mlstm-kernels==2.0.6 conch-triton-kernels==1.3
        [--sample 20] [--seed 7] [--releases 3.4.0 3.9.0]

Each package is unpacked from its wheel, and never imported. Counted are the
`@triton.jit` functions that its host code launches, a random sample of them. A kernel
counts as right if its new recipe passes on one of the releases.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import TRIAGE, cost_of
from triage.compilers.triton.kernel_source import is_jit

UV = [sys.executable, "-m", "uv", "pip", "install", "--quiet"]


def kernels_of(root: Path, skip: list[str]) -> list[tuple[Path, str]]:
    """Return the launched kernels with their files."""
    names, defined = set(), []
    for path in sorted(root.rglob("*.py")):
        if any(text in str(path) for text in skip):
            continue
        try:
            nodes = [*ast.walk(ast.parse(path.read_text("utf-8", "replace")))]
        except SyntaxError:
            continue
        for node in nodes:
            match node:
                case ast.Call(func=ast.Subscript(value=launched)):
                    names.add(ast.unparse(launched).rpartition(".")[2])
                case ast.FunctionDef(name=name, decorator_list=decorators):
                    if any(map(is_jit, decorators)):
                        defined.append((path, name))
    return [(path, name) for path, name in dict.fromkeys(defined) if name in names]


def answer_for(kernel: str, releases: list[str]) -> str:
    """Return how a kernel's new recipe compiled: `passed`, or the reason."""
    toolchains = [word for name in releases for word in ("-t", f"triton:{name}")]
    words = ["run", kernel, *toolchains, "--format", "json"]
    done = cost_of([*TRIAGE, *words], codes=(0, 1, 2, 3))
    if not done.stdout:
        return "no recipe"
    results = json.loads(done.stdout)["results"]
    if any(result["status"] == "passed" for result in results):
        return "passed"
    last = results[-1]
    failure = last["failure"] or {"headline": last["reason"]}
    return f"{last['status']}: {failure['headline']}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("packages", nargs="+")
    add("--sample", type=int, default=20, help="kernels of each package")
    add("--seed", type=int, default=7)
    add("--skip", nargs="*", default=[], help="leave out files whose path has this")
    add("--releases", nargs="*", default=["3.4.0", "3.9.0"])
    options = parser.parse_args()
    answers = []
    for package in options.packages:
        with TemporaryDirectory() as folder:
            unpack = [*UV, "--no-deps", "--no-build", "--target", folder, package]
            subprocess.run(unpack, check=True)
            root = Path(folder)
            kernels = kernels_of(root, options.skip)
            size = min(options.sample, len(kernels))
            print(f"{package}: {size} of {len(kernels)} launched kernels", flush=True)
            for path, name in random.Random(options.seed).sample(kernels, size):
                answers.append(answer_for(f"{path}:{name}", options.releases))
                file = path.relative_to(root)
                print(f"  {file} {name}: {answers[-1]}", flush=True)
    right, total = answers.count("passed"), len(answers)
    print(f"{right} of {total} kernels compile: {right / total:.0%}")


if __name__ == "__main__":
    main()
