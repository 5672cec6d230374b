"""Measure how many kernels of a package compile with the recipe that `triage recipe
new` writes, without any edit.

    python -m benchmarks.kernel_recipes mlstm-kernels==2.0.6 conch-triton-kernels==1.3
        [--sample 20] [--seed 7] [--releases 3.4.0 3.9.0]

Each package is downloaded as a wheel, and never installed. Counted are the
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
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile


def kernels_of(root: Path, skip: list[str]) -> list[tuple[Path, str]]:
    """Return the launched kernels with their files."""
    names, defined = set(), []
    for path in sorted(root.rglob("*.py")):
        if any(text in str(path) for text in skip):
            continue
        try:
            tree = ast.parse(path.read_text("utf-8", "replace"))
        except SyntaxError:
            continue
        launches = [
            node.func.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        ]
        names |= {ast.unparse(launched).rpartition(".")[2] for launched in launches}
        defined += [
            (path, node.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and _is_kernel(node)
        ]
    return [(path, name) for path, name in dict.fromkeys(defined) if name in names]


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any(
        ast.unparse(each).partition("(")[0] in ("triton.jit", "jit", "tl.jit")
        for each in function.decorator_list
    )


def answers_for(
    kernels: list[tuple[Path, str]], root: Path, releases: list[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield each kernel's file, its name and how its new recipe compiled: `passed`, or
    the reason.
    """
    toolchains = [word for name in releases for word in ("-t", f"triton:{name}")]
    for path, name in kernels:
        words = ["run", f"{path}:{name}", *toolchains, "--format", "json", "--quiet"]
        answer = subprocess.run(
            [sys.executable, "-c", "from triage.cli import main; main()", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        file = str(path.relative_to(root))
        try:
            results = json.loads(answer.stdout)["results"]
        except (ValueError, KeyError):
            yield file, name, (answer.stderr.strip().splitlines() or ["no answer"])[-1]
            continue
        if any(result["status"] == "passed" for result in results):
            yield file, name, "passed"
            continue
        last = results[-1]
        failure = last["failure"] or {"headline": last["reason"]}
        yield file, name, f"{last['status']}: {failure['headline']}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="+")
    parser.add_argument(
        "--sample", type=int, default=20, help="kernels of each package"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--skip", nargs="*", default=[], help="leave out files whose path contains this"
    )
    parser.add_argument("--releases", nargs="*", default=["3.4.0", "3.9.0"])
    options = parser.parse_args()
    right = total = 0
    for package in options.packages:
        with TemporaryDirectory() as folder:
            download = [
                sys.executable,
                "-m",
                "uv",
                "run",
                "--quiet",
                "--with",
                "pip",
                "python",
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
            ]
            subprocess.run(
                [*download, "--only-binary", ":all:", "--dest", folder, package],
                check=True,
            )
            [wheel] = Path(folder).glob("*.whl")
            root = Path(folder, "package")
            with ZipFile(wheel) as archive:
                archive.extractall(root)
            kernels = kernels_of(root, options.skip)
            sample = random.Random(options.seed).sample(
                kernels, min(options.sample, len(kernels))
            )
            print(
                f"{package}: {len(sample)} of {len(kernels)} launched kernels",
                flush=True,
            )
            answers = []
            for path, name, answer in answers_for(sample, root, options.releases):
                print(f"  {path} {name}: {answer}", flush=True)
                answers.append(answer == "passed")
            print(f"  {sum(answers)} of {len(answers)} compile", flush=True)
            right, total = right + sum(answers), total + len(answers)
    print(f"{right} of {total} kernels compile: {right / total:.0%}")


if __name__ == "__main__":
    main()
