"""A git repository whose commits build a small native compiler, written in C, that
answers as `iree-compile` does.

It reads the input, runs three "passes" that lie in files of their own, and fails in the
way its commit makes it fail. An input with the word `wide` asks for too much memory at
every commit, one with `narrow` at none; that of one with `heavy` shows in the size of
the artifact. One with `private` exceeds the limit of the stack where others ask for too
much memory. One with
`fused` fails otherwise from a commit on that `begin` takes. Where TRIAGE_TEST_CALLS
names a file, every compile appends `<sha> <what>` to it: `main` or, of a second run
that asks for the failing pass, `name`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.git_history.history import ENV
from tests.toolchains.loopback import make_wheel

CALLS = "TRIAGE_TEST_CALLS"
OTHER = "failed to legalize operation 'flow.tensor.clone' that was explicitly marked illegal"
DRIVER = "compiler/src/iree/compiler/Tools/iree_compile.c"
CONFIG = "compiler/src/iree/compiler/Codegen/LLVMGPU/KernelConfig.c"
FUSION = "compiler/src/iree/compiler/DispatchCreation/FormDispatchRegions.c"
SCHEDULE = "compiler/src/iree/compiler/Dialect/Stream/Transforms/ScheduleExecution.c"
SOURCES = (DRIVER, CONFIG, FUSION, SCHEDULE)

_MAIN = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fusion(const char *program), schedule(const char *program);
long shared_memory(const char *program), weight(const char *program);

static const char *help =
    "OVERVIEW: IREE compilation driver\n\nOPTIONS:\n"
    "  --compile-to=<value>  - Compilation phase to run up until before emitting output.\n"
    "    =input              -   Performs input processing.\n"
    "    =flow               -   Compiles up to the `flow` dialect.\n"
    "    =executable-targets -   Compiles up to the targets.\n"
    "    =end                -   Complete the full compilation pipeline.\n"
    "  --iree-hal-target-backends=<string> - Target backends for executable compilation.\n"
    "  --iree-hal-list-target-backends - Lists all registered target backends.\n"
    "  --iree-hip-target=<string> - The chip.\n"
    "  --mlir-print-op-on-diagnostic - Print the operation on a diagnostic.\n"
    "  --mlir-print-ir-after-failure - Print IR after a pass that failed.\n"
    "  -o <filename> - Output.\n";

static void record_call(const char *what) {
  const char *name = getenv("TRIAGE_TEST_CALLS");
  if (!name) return;
  char line[80];
  int length = snprintf(line, sizeof line, "%s %s\n", COMMIT, what);
  int file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (write(file, line, length) != length) exit(3);
  close(file);
}

int main(int count, char **words) {
  const char *input = 0, *output = 0, *what = "main";
  for (int at = 1; at < count; ++at) {
    const char *word = words[at];
    if (!strcmp(word, "--version"))
      return printf("IREE (https://iree.dev):\n  IREE compiler version 9.9.9rc20260101 @ %s\n", COMMIT) < 0;
    if (!strcmp(word, "--help-hidden")) return fputs(help, stdout) < 0;
    if (!strcmp(word, "--iree-hal-list-target-backends"))
      return puts("Registered target backends:\n  llvm-cpu\n  rocm") < 0;
    if (!strcmp(word, "-o")) output = words[++at];
    else if (word[0] != '-') input = word;
    else if (!strncmp(word, "--mlir-print-ir-after-failure", 29) || !strncmp(word, "--mlir-pass-pipeline", 20)) what = "name";
  }
  static char program[65536];
  int file = input ? open(input, O_RDONLY) : -1;
  if (file < 0) return fprintf(stderr, "Could not open input file\n"), 1;
  if (read(file, program, sizeof program - 1) <= 0) return 1;
  record_call(what);
  if (fusion(program)) {
    fprintf(stderr, "m.mlir:1:1: error: " OTHER_TEXT "\n");
    return 1;
  }
  if (schedule(program)) return 1;
  if (strstr(program, "private") && shared_memory(program) > 65536) {
    fputs("m.mlir:1:1: error: 'func.func' op exceeded stack allocation limit of 32768 bytes for function.", stderr);
    fprintf(stderr, " Got %ld bytes\n", shared_memory(program));
    return 1;
  }
  if (shared_memory(program) > 65536) {
    fprintf(stderr, "m.mlir:1:1: error: 'func.func' op uses %ld bytes of shared memory; exceeded the limit of 65536 bytes\n",
            shared_memory(program));
    return 1;
  }
  if (output) {
    FILE *made = fopen(output, "w");
    if (!made || fputs("module\n", made) < 0) return 1;
    for (long left = weight(program); left > 0; --left) fputc(' ', made);
    if (fclose(made)) return 1;
  }
  return 0;
}
"""
_CMAKE = f"""cmake_minimum_required(VERSION 3.20)
project(small C)
add_library(passes STATIC {CONFIG} {FUSION} {SCHEDULE})
add_executable(iree-compile {DRIVER})
target_link_libraries(iree-compile passes)
target_compile_definitions(iree-compile PRIVATE COMMIT="${{COMMIT}}")
install(TARGETS iree-compile DESTINATION tools)
"""
PROGRAM = "func.func @main() { return }\n"
RECIPE = """name: attention
input: m.mlir
target: {backend: rocm, chip: gfx942}
phase: executable-targets
limits: {timeout: 60s, memory: 1GiB}
env: [TRIAGE_TEST_CALLS]
"""


class Fate(StrEnum):
    """What comes of a commit's compiler beside the change that is sought."""

    SOUND = "sound"
    BROKEN = "does not build"
    OTHER = "fails otherwise"
    CRASH = "crashes"


@dataclass(frozen=True)
class SmallCompiler:
    """`shas`: the line, the oldest first; `culprit`: the index of the first that asks
    for too much memory.
    """

    path: Path
    shas: tuple[str, ...]
    fates: tuple[Fate, ...]
    culprit: int

    @property
    def sha(self) -> str:
        """The culprit."""
        return self.shas[self.culprit]


def begin(
    path: Path,
    fates: Sequence[Fate],
    culprit: int,
    suspicious: int | None = None,
    unfused: int | None = None,
) -> SmallCompiler:
    """A repository with one commit for each fate. `suspicious`: the one whose subject
    suggests the failure, where that is not the culprit; unfused: the first that fails
    for an input with `fused`.
    """
    suggestive = culprit if suspicious is None else suspicious
    path.mkdir(parents=True)
    env = os.environ | ENV
    subprocess.run(
        ["git", "init", "--quiet", "--initial-branch=main"],
        cwd=path,
        env=env,
        check=True,
    )
    stream = "".join(
        _commit(number, fates, culprit, suggestive, unfused)
        for number in range(len(fates))
    )
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=path,
        env=env,
        input=stream.encode(),
        check=True,
    )
    subprocess.run(
        ["git", "reset", "--quiet", "--hard", "main"], cwd=path, env=env, check=True
    )
    listed = subprocess.run(
        ["git", "rev-list", "--reverse", "main"],
        cwd=path,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    return SmallCompiler(path, tuple(listed.stdout.split()), tuple(fates), culprit)


def compile_commit(repository: SmallCompiler, sha: str, folder: Path) -> Path | None:
    """The compiler of a commit, built by `cc` alone; None where it does not build."""
    folder.mkdir(parents=True)
    packed = subprocess.run(
        ["git", "archive", sha], cwd=repository.path, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    made = folder / "iree-compile"
    command = [
        "cc",
        "-O0",
        f'-DCOMMIT="{sha}"',
        "-o",
        str(made),
        *(str(folder / name) for name in SOURCES),
    ]
    return (
        made
        if subprocess.run(command, check=False, capture_output=True).returncode == 0
        else None
    )


def wheel_of(program: Path, version: str) -> Path:
    """A wheel with the compiler in it."""
    return make_wheel(program.parent, version, payload=program.read_bytes())


def _commit(
    number: int,
    fates: Sequence[Fate],
    culprit: int,
    suspicious: int,
    unfused: int | None,
) -> str:
    files = _files(number, fates[number], culprit, unfused)
    before = _files(number - 1, fates[number - 1], culprit, unfused) if number else {}
    subject = _subject(number, suspicious)
    moment = 1_767_225_600 + 3600 * number  # 2026-01-01 and on, an hour apart
    lines = [
        "commit refs/heads/main",
        f"committer C <c@example.org> {moment} +0000",
        _data(subject),
    ]
    for name, text in files.items():
        if before.get(name) != text:
            lines += [f"M 100644 inline {name}", _data(text)]
    return "\n".join(lines) + "\n"


def _files(
    number: int, fate: Fate, culprit: int, unfused: int | None
) -> dict[str, str]:
    """The tree of a commit: each changes one pass, and another than the one before."""
    turns = {
        name: (number - offset) // 3
        for offset, name in enumerate((CONFIG, FUSION, SCHEDULE))
    }
    bytes_used = 286720 if number >= culprit else 16384 + 16 * turns[CONFIG]
    fused = (
        'strstr(program, "fused") != 0'
        if unfused is not None and number >= unfused
        else "0"
    )
    bound = "return strlen(program) > 65535 || {};"
    return {
        "CMakeLists.txt": _CMAKE,
        DRIVER: _MAIN.replace("OTHER_TEXT", f'"{OTHER}"'),
        CONFIG: f"/* {turns[CONFIG]} */\n#include <string.h>\nlong shared_memory(const char *program) {{ "
        f'return strstr(program, "wide") ? 286720 : strstr(program, "narrow") ? 0 : {bytes_used}; }}\n'
        f'long weight(const char *program) {{ return strstr(program, "heavy") ? {bytes_used // 16} : 0; }}\n',
        FUSION: f"/* {turns[FUSION]} */\n#include <string.h>\nint fusion(const char *program) {{ "
        f"{bound.format(1 if fate is Fate.OTHER else fused)} }}\n"
        + ("int fusion(const char *program) {\n" if fate is Fate.BROKEN else ""),
        SCHEDULE: f"/* {turns[SCHEDULE]} */\n#include <stdlib.h>\n#include <string.h>\nint schedule(const char *program) {{ "
        + ("abort(); " if fate is Fate.CRASH else "")
        + f"{bound.format(0)} }}\n",
    }


def _subject(number: int, suspicious: int) -> str:
    if number == suspicious:
        return f"[Codegen][GPU] Prefetch shared memory by default (#{1000 + number})"
    subjects = (
        "[Codegen][GPU] Tune kernel config",
        "[DispatchCreation] Simplify regions",
        "[Stream] Refactor scheduling",
    )
    return f"{subjects[number % 3]} (#{1000 + number})"


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"
