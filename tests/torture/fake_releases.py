"""Releases of a small native compiler on a loopback index. Each compile takes 50 to 150 ms and writes a log of its own.

Words in the input say what the compiler does: `breaks-N` fails from release N on, `fixed-N` no longer from release N on,
`differs-N` fails in another way from release N on, `hangs` sleeps until it is killed, `stubborn` ignores SIGTERM meanwhile.
N is the minor number of the version.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bisect.small_compiler import wheel_of
from tests.toolchains.loopback import serve

_SOURCE = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *help =
    "OVERVIEW: IREE compilation driver\n\nOPTIONS:\n"
    "  --compile-to=<value>  - Compilation phase to run up until before emitting output.\n"
    "    =input              -   Performs input processing.\n"
    "    =executable-targets -   Compiles up to the targets.\n"
    "    =end                -   Complete the full compilation pipeline.\n"
    "  --iree-hal-target-backends=<string> - Target backends for executable compilation.\n"
    "  --iree-hal-list-target-backends - Lists all registered target backends.\n"
    "  --iree-hip-target=<string> - The chip.\n"
    "  --mlir-print-op-on-diagnostic - Print the operation on a diagnostic.\n"
    "  --mlir-print-ir-after-failure - Print IR after a pass that failed.\n"
    "  -o <filename> - Output.\n";
static char program[1 << 20];

static void record(const char *event, const char *what, unsigned long hash) {
  char line[200];
  int length = snprintf(line, sizeof line, "%s %s %016lx %s %d\n", event, VERSION, hash, what, (int)getpid());
  int file = open(LOG, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (write(file, line, length) != length) exit(3);
  close(file);
}

static void ask_to_end(int number) { (void)number; record("term", "main", 0); }

static long number_after(const char *word, long otherwise) {
  const char *at = strstr(program, word);
  return at ? atol(at + strlen(word)) : otherwise;
}

int main(int count, char **words) {
  const char *input = 0, *output = 0, *what = "main";
  for (int at = 1; at < count; ++at) {
    const char *word = words[at];
    if (!strcmp(word, "--version"))
      return printf("IREE (https://iree.dev):\n  IREE compiler version %s @ %040d\n", VERSION, MINOR) < 0;
    if (!strcmp(word, "--help-hidden")) return fputs(help, stdout) < 0;
    if (!strcmp(word, "--iree-hal-list-target-backends"))
      return puts("Registered target backends:\n  llvm-cpu\n  rocm") < 0;
    if (!strcmp(word, "-o")) output = words[++at];
    else if (word[0] != '-') input = word;
    else if (!strncmp(word, "--mlir-print-ir-after-failure", 29) || !strncmp(word, "--mlir-pass-pipeline", 20)) what = "name";
  }
  int file = input ? open(input, O_RDONLY) : -1;
  if (file < 0) return fprintf(stderr, "Could not open input file\n"), 1;
  long size = read(file, program, sizeof program - 1);
  if (size <= 0) return 1;
  unsigned long hash = 1469598103934665603ul;
  for (long at = 0; at < size; ++at) hash = (hash ^ (unsigned char)program[at]) * 1099511628211ul;
  if (strstr(program, "stubborn")) signal(SIGTERM, ask_to_end);
  record("start", what, hash);
  while (strstr(program, "hangs")) sleep(60);
  usleep(50000 + hash % 100000);
  if (number_after("differs-", 1000) <= MINOR) {
    fputs("m.mlir:1:1: error: failed to legalize operation 'flow.tensor.clone' that was explicitly marked illegal\n", stderr);
    record("end", what, hash);
    return 1;
  }
  if (number_after("breaks-", 1000) <= MINOR && MINOR < number_after("fixed-", 1000)) {
    fputs("m.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes\n", stderr);
    record("end", what, hash);
    return 1;
  }
  if (output) {
    FILE *made = fopen(output, "w");
    if (!made || fputs("module\n", made) < 0 || fclose(made)) return 1;
  }
  record("end", what, hash);
  return 0;
}
"""


@dataclass(frozen=True)
class FakeReleases:
    """`url`: the index; `log`: what the compilers write; `versions`: the oldest first."""

    url: str
    log: Path
    versions: tuple[str, ...]

    def events(self, event: str, what: str = "main") -> list[tuple[str, str]]:
        """Return version and hash of the input of each such event, in order."""
        lines = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [(version, digest) for kind, version, digest, kind_of_run, _ in lines if (kind, kind_of_run) == (event, what)]


@contextmanager
def fake_releases(folder: Path, count: int = 8, nightlies: int = 0, *, then_released: bool = False) -> Iterator[FakeReleases]:
    """Build `count` releases, 1.0.0 and on, and serve them until the block ends.

    nightlies: number of those of January 2026 that lead to the next release; in inputs, their numbers go on. then_released:
    build that release, too.
    """
    log, index, versions = folder / "compiles.log", folder / "index", [f"1.{minor}.0" for minor in range(count)]
    versions += [f"1.{count}.0rc202601{day:02}" for day in range(1, nightlies + 1)]
    versions += [f"1.{count}.0"] if then_released else []
    index.mkdir(parents=True)
    for minor, version in enumerate(versions):
        program = folder / version / "iree-compile"
        program.parent.mkdir()
        settings = [f'-DVERSION="{version}"', f"-DMINOR={minor}", f'-DLOG="{log}"']
        subprocess.run(["cc", "-O0", "-w", *settings, "-x", "c", "-", "-o", program], input=_SOURCE.encode(), check=True)
        wheel = wheel_of(program, version)
        wheel.rename(index / wheel.name)
    links = "".join(f"<a href={path.name}>{path.name}</a><br>" for path in sorted(index.glob("*rc*.whl")))
    (index / "links.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    with serve(index) as served:
        served.publish()
        yield FakeReleases(served.url, log, tuple(versions))


def write_case(folder: Path, name: str, *words: str) -> Path:
    """Write a recipe whose input has these words, a function each, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    body = "".join(f"func.func @f{number}() {{ // {word}\n  return\n}}\n" for number, word in enumerate((name, *words)))
    (folder / f"{name}.mlir").write_text(body)
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\ninput: {name}.mlir\ntarget: {{backend: rocm, chip: gfx942}}\nphase: executable-targets\n"
        "limits: {timeout: 60s, memory: 1GiB}\n"
    )
    return path


def write_project(folder: Path, releases: FakeReleases) -> None:
    """Write a project file into a folder that names the page of nightlies."""
    page = releases.url.replace("/simple/", "/links.html")
    text = f"name: fake\ncompiler: iree\ndistribution: iree-base-compiler\nnightlies: {{find-links: '{page}'}}\n"
    (folder / "triage.yaml").write_text(text)


def environment(releases: FakeReleases, home: Path) -> dict[str, str]:
    """Return the environment for triage: the index, a home, and the program `triage` on the PATH."""
    return os.environ | {
        "TRIAGE_HOME": str(home),
        "TRIAGE_INDEX_URL": releases.url,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
