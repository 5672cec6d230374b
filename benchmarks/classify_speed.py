"""How fast huge and hostile logs are classified and in how much memory, beside `grep` looking for one word in them.

Run: `python -m benchmarks.classify_speed [--gigabytes 1] [--format json]`. The first log is what a compiler prints when it
shows the failed operation whole: a few errors, each followed by hundreds of megabytes of IR on long and short lines. Every
line of the second has an error in it. The hostile texts are made from the rules' own patterns; see tests/classify/test_cost.py.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.classify.regex_steps import adversarial_texts
from triage.classify import classify_log, packaged_rules

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


def write_dense_log(path: Path, size: int) -> None:
    """A log of about `size` bytes with an error in every line, which differ in their numbers."""
    with path.open("wb") as log:
        for start in range(0, size // 96, 10_000):
            numbers = range(start, start + 10_000)
            log.write(
                b"".join(
                    b"model.mlir:%d:8: error: 'linalg.generic' op has %d loops, expected %d\n" % (n, n % 977, n % 31)
                    for n in numbers
                )
            )


TEXTS, LENGTH = 4000, 2000


def hostile_texts() -> dict[str, object]:
    """Search generated texts with the pattern that each was made from, and classify each as a log of 20 lines."""
    patterns = [(rule.name, pattern) for rule in packaged_rules() for pattern in rule.patterns]
    texts = [(name, pattern, text) for name, pattern in patterns for text in adversarial_texts(pattern.regex, LENGTH)]
    chosen = random.Random(1).sample(texts, min(TEXTS, len(texts)))
    rules, by_rule, slowest = packaged_rules(), {}, (float("inf"), "", "")
    for name, pattern, text in chosen:
        started = time.process_time()
        for _ in range(5):
            pattern.search(text)
        by_rule.setdefault(name, []).append((time.process_time() - started) / 5)
        data = b"".join(f"model.mlir:{number}:1: error: {text}\n".encode("utf-8", "replace") for number in range(20))
        started = time.process_time()
        classify_log(io.BytesIO(data), rules)
        slowest = min(slowest, (len(data) / (time.process_time() - started), name, text[:60]))
    worst = {name: max(seconds) for name, seconds in by_rule.items()}
    slow = max(worst, key=lambda name: worst[name])
    return {
        "texts": len(chosen),
        "median_rule_us": round(1e6 * statistics.median(worst.values()), 1),
        "slowest_rule": slow,
        "slowest_rule_us": round(1e6 * worst[slow], 1),
        "slowest_rule_ratio": round(worst[slow] / statistics.median(worst.values()), 1),
        "worst_bytes_per_second": round(slowest[0]),
        "worst_text_of": slowest[1],
        "worst_text": slowest[2],
    }


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
        write_dense_log(log, int(options.gigabytes * 1e9))
        dense_size = log.stat().st_size
        dense_seconds, dense_memory, _ = measured(command)
        dense_grep_seconds, _, _ = measured(["grep", "-c", "-a", "error:", str(log)])
    hostile = hostile_texts()
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
        "dense_bytes": dense_size,
        "dense_seconds": round(dense_seconds, 2),
        "dense_peak_mb": round(dense_memory, 1),
        "dense_grep_seconds": round(dense_grep_seconds, 2),
        "hostile": hostile,
    }
    if options.format == "json":
        print(json.dumps(answer))
        return
    print(f"a log of {size / 1e9:.2f} GB with 4 errors in it")
    print(f"  triage classify  {seconds:6.2f} s  {memory:6.0f} MiB   found {failure['count']} x {failure['class']}")
    print(f"  grep -c error:   {grep_seconds:6.2f} s  {grep_memory:6.0f} MiB   ratio {answer['ratio']}")
    print(f"a log of {dense_size / 1e9:.2f} GB with an error in every line")
    print(f"  triage classify  {dense_seconds:6.2f} s  {dense_memory:6.0f} MiB")
    print(f"  grep -c error:   {dense_grep_seconds:6.2f} s  ratio {dense_seconds / dense_grep_seconds:.1f}")
    print(f"{hostile['texts']} texts made from the rules' own patterns")
    print(f"  slowest rule     {hostile['slowest_rule']}, {hostile['slowest_rule_ratio']} times the median of all rules")
    print(f"  slowest log      {hostile['worst_bytes_per_second'] / 1e6:.2f} MB/s, made from {hostile['worst_text_of']}")


if __name__ == "__main__":
    main()
