"""Failures of the held-out programs, and a flag that mends each, by brute force: nothing that `triage remedy` knows is asked.

    python -m benchmarks.held_out_search --versions 3.2.0,3.6.0 --targets "cuda sm_80" "llvm-cpu" [--programs square wide]

Every program is compiled on every version and target. For what fails all switches that `iree-compile --help-hidden` lists are
tried in random order, both values, and the optimisation levels, first in groups of five that are taken apart where one mends;
a flag that only works without its neighbours can be missed. Prints what is mended as the lines of held_out_failures.yaml.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.held_out_larger import LARGER
from benchmarks.held_out_programs import PROGRAMS
from triage.compilers.iree import Iree
from triage.toolchains.home import open_home
from triage.toolchains.registry import ToolchainRegistry

PATIENCE = 15.0  # seconds for a compile; one that takes longer counts as failed, and is not mended either
ONLY_TELLS = re.compile(
    "dump|print|trace|verify|debug|list-|fail-on|strip-|benchmark|import|export|annotate|link|notify|instrument"
)
SWITCH = re.compile(r"^\s+-{1,2}(iree-[\w.-]*)\s+- ", re.MULTILINE)
GROUP = 5


class Subject:
    """One program on one compiler and target."""

    def __init__(self, binary: Path, help_text: str, path: Path, target: str) -> None:
        backend, _, chip = target.partition(" ")
        names = {"cuda": ["cuda"], "rocm": ["rocm", "hip"], "vulkan-spirv": ["vulkan"], "llvm-cpu": ["llvmcpu"]}[backend]
        spelled = [f"--iree-{name}-target={chip}" for name in names if f"--iree-{name}-target=" in help_text]
        self.base = [str(binary), str(path), f"--iree-hal-target-backends={backend}", *(spelled[:1] if chip else [])]
        self.base += ["--compile-to=executable-targets", "--mlir-disable-threading", "--mlir-print-op-on-diagnostic=false"]
        names = sorted(name for name in set(SWITCH.findall(help_text)) if not ONLY_TELLS.search(name))
        self.switches = [f"--{name}" for name in names]
        self.levels = [f"--iree-opt-level=O{level}" for level in range(4) if "--iree-opt-level=" in help_text]
        self.compiles = 0

    def ends(self, *flags: str) -> tuple[bool, str]:
        """Whether it compiles, and its first error."""
        self.compiles += 1
        try:
            done = subprocess.run(
                [*self.base, *flags, "-o", "/dev/null"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False, "timeout"
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        return done.returncode == 0, re.sub(r"^.*?error: ", "", lines[0]) if lines else f"status {done.returncode}"

    def mended_by(self, random: Random) -> str | None:
        values = [(name, random.random() < 1 / 2) for name in self.switches]
        random.shuffle(values)
        for turn in (False, True):  # one value of each, then the other: no group holds both
            flags = [f"{name}={'true' if value is not turn else 'false'}" for name, value in values]
            groups = [flags[at : at + GROUP] for at in range(0, len(flags), GROUP)]
            for group in [*groups, *([level] for level in self.levels if not turn)]:
                if self.ends(*group)[0]:
                    return next((flag for flag in group if self.ends(flag)[0]), " ".join(group))
        return None


def subjects(registry: ToolchainRegistry, options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str, str, Subject]]:
    chosen = {name: text for name, text in (PROGRAMS | LARGER).items() if name.startswith(tuple(options.programs))}
    for version in options.versions.split(","):
        binary = registry.obtain(registry.resolve(version, "iree")).program
        help_text = subprocess.run([binary, "--help-hidden"], capture_output=True, text=True, check=True).stdout
        for name, text in chosen.items():
            (path := folder / f"{name}.mlir").write_text(text)
            for target in options.targets:
                yield name, version, target, Subject(binary, help_text, path, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", default="3.0.0,3.2.0,3.3.0,3.6.0,3.10.0")
    parser.add_argument("--targets", nargs="+", default=["cuda sm_80", "rocm gfx942", "rocm gfx1100", "llvm-cpu"])
    parser.add_argument("--programs", nargs="+", default=[""], help="how the names of the programs begin")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    registry = ToolchainRegistry(open_home(), {"iree": Iree()})
    with TemporaryDirectory() as folder:
        for name, version, target, subject in subjects(registry, options, Path(folder)):
            fine, said = subject.ends()
            if fine or said == "timeout":
                continue
            flag = subject.mended_by(Random(f"{options.seed}/{name}/{version}/{target}"))
            print(f"{name} {version} {target}: {said[:100]}; {subject.compiles} compiles", file=sys.stderr)
            if flag:
                print(f"- {{program: {name}, version: {version}, target: {target}, mended_by: {flag}}}", flush=True)


if __name__ == "__main__":
    main()
