"""What a case costs beyond the compiler's own time, beside `xargs -P` running the same command lines.

Run: `python benchmarks/overhead.py [--cases N] [--format json]`. Both sides compile the same programs with the same
options, as many at once as there are cores. The start of either program is measured apart, with one case.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

RUN = [sys.executable, "-c", "from triage.cli import main; main()", "--quiet", "run"]


def program(number: int) -> str:
    return f"""func.func @f(%a: tensor<{number + 4}xf32>, %b: tensor<{number + 4}xf32>) -> tensor<{number + 4}xf32> {{
  %0 = arith.mulf %a, %b : tensor<{number + 4}xf32>
  return %0 : tensor<{number + 4}xf32>
}}
"""


def write_cases(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"m{number}.mlir").write_text(program(number))
        (folder / f"m{number}.yaml").write_text(
            f"name: m{number}\ninput: m{number}.mlir\ntarget: {{backend: llvm-cpu}}\nphase: flow\n"
        )


def times(command: list[str], **options: object) -> tuple[float, float]:
    """Wall time and CPU time, that of all child processes included. Other work on the machine changes only the first."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_triage(folder: Path, home: Path, jobs: int) -> tuple[float, float]:
    return times([*RUN, str(folder), "--fresh", "--jobs", str(jobs)], env={**os.environ, "TRIAGE_HOME": str(home)})


def with_xargs(folder: Path, home: Path, jobs: int, scratch: Path) -> tuple[float, float]:
    lines = subprocess.run(
        [*RUN, str(folder), "--dry-run"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TRIAGE_HOME": str(home)},
    ).stdout
    commands = scratch / f"commands-{folder.name}"
    commands.write_text(lines.replace(os.devnull, str(scratch / "out")))
    return times(["xargs", "-P", str(jobs), "-d", "\n", "-a", str(commands), "-I", "{}", "sh", "-c", "{}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    with TemporaryDirectory() as place:
        scratch = Path(place)
        write_cases(scratch / "one", 1)
        write_cases(scratch / "all", options.cases)
        home = scratch / "home"
        with_triage(scratch / "one", home, 1)  # the toolchain is asked what it can do, once
        best: dict[str, tuple[float, float]] = {}
        for _ in range(options.rounds):
            for name, folder in (("one", scratch / "one"), ("all", scratch / "all")):
                for who, measured in (
                    ("triage", with_triage(folder, home, options.jobs)),
                    ("xargs", with_xargs(folder, home, options.jobs, scratch)),
                ):
                    known = best.get(f"{who} {name}", measured)
                    best[f"{who} {name}"] = (min(known[0], measured[0]), min(known[1], measured[1]))
    more = options.cases - 1
    each = {who: (best[f"{who} all"][1] - best[f"{who} one"][1]) / more for who in ("triage", "xargs")}
    answer = {
        "cases": options.cases,
        "jobs": options.jobs,
        "triage_seconds": round(best["triage all"][0], 3),
        "xargs_seconds": round(best["xargs all"][0], 3),
        "ratio": round(best["triage all"][0] / best["xargs all"][0], 3),
        "triage_start_seconds": round(best["triage one"][1] - best["xargs one"][1], 3),
        "xargs_ms_per_case": round(each["xargs"] * 1000, 1),
        "overhead_ms_per_case": round((each["triage"] - each["xargs"]) * 1000, 1),
    }
    if options.format == "json":
        print(json.dumps(answer))
        return
    print(f"{options.cases} small compiles, {options.jobs} at once, best of {options.rounds}")
    print(f"  triage run   {answer['triage_seconds']:7.2f} s")
    print(f"  xargs -P     {answer['xargs_seconds']:7.2f} s   ratio {answer['ratio']}")
    print(
        f"  CPU time: start of the program {answer['triage_start_seconds']:.2f} s, then {answer['overhead_ms_per_case']} ms "
        f"a case beyond the compiler's own {answer['xargs_ms_per_case']} ms"
    )


if __name__ == "__main__":
    main()
