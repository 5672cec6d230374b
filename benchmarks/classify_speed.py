"""How fast a huge log is classified and in how much memory, beside `grep` looking for one word in it.

Run: `python benchmarks/classify_speed.py [--gigabytes 1] [--format json]`. The log is what a compiler prints when it
shows the failed operation whole: a few errors, each followed by hundreds of megabytes of IR on long and short lines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ERROR = (
    "model.mlir:{line}:8: error: function 'd{line}' uses 229376 bytes of shared memory; "
    "exceeded the limit of 166912 bytes\n"
    "model.mlir:{line}:8: note: see current operation: "
)
SHORT = b"    %12345 = linalg.generic {indexing_maps = [#map, #map1]} ins(%1, %2 : tensor<4096x4096xf32>) outs(%3) {\n"
HEX = b"0123456789ABCDEF" * 4096


def write_log(path: Path, size: int) -> int:
    """A log of about `size` bytes with four errors; how many lines it has."""
    lines = 0
    with path.open("wb") as log:
        for part in range(4):
            text = ERROR.format(line=1000 + part).encode()
            lines += text.count(b"\n")
            log.write(text)
            log.write(b'dense<"0x')
            for _ in range(size // 8 // len(HEX)):
                log.write(HEX)
            log.write(b'">\n')
            block = SHORT * 4096
            for _ in range(size // 8 // len(block)):
                log.write(block)
                lines += 4096
    return lines


def measured(command: list[str]) -> tuple[float, float, str]:
    """Seconds, peak MiB, standard output."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        text = process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return time.perf_counter() - started, usage.ru_maxrss / 1024, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    with TemporaryDirectory() as place:
        log = Path(place) / "huge.log"
        write_log(log, int(options.gigabytes * 1e9))
        size = log.stat().st_size
        command = [
            sys.executable,
            "-c",
            "from triage.cli import main; main()",
            "-q",
            "classify",
            str(log),
            "--format",
            "json",
        ]
        seconds, memory, text = measured(command)
        grep_seconds, grep_memory, _ = measured(["grep", "-c", "-a", "error:", str(log)])
    [failure] = json.loads(text)["logs"][0]["failures"]
    answer = {
        "bytes": size,
        "triage_seconds": round(seconds, 2),
        "triage_peak_mb": round(memory, 1),
        "grep_seconds": round(grep_seconds, 2),
        "grep_peak_mb": round(grep_memory, 1),
        "ratio": round(seconds / grep_seconds, 2),
        "class": failure["class"],
        "count": failure["count"],
    }
    if options.format == "json":
        print(json.dumps(answer))
        return
    print(f"a log of {size / 1e9:.2f} GB with 4 errors in it")
    print(f"  triage classify  {seconds:6.2f} s  {memory:6.0f} MiB   found {failure['count']} x {failure['class']}")
    print(f"  grep -c error:   {grep_seconds:6.2f} s  {grep_memory:6.0f} MiB   ratio {answer['ratio']}")


if __name__ == "__main__":
    main()
